"""A meter that says what a test wrote for it, one thing for each reading."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pytest
from pydantic import Field, TypeAdapter

from ullage.common.errors import UllageError
from ullage.common.sums import Chain
from ullage.meters.energy.base import EnergyMeter, FaultError, MeterOptions
from ullage.runs.readings import Channel, Line, Measurand

_LINE: TypeAdapter[Line] = TypeAdapter(Line)

Answer = float | Exception | Mapping[str, float] | Callable[[], float]
"""A value of the channel `wall`, a fault, values of several channels, or what is to be done."""


class ScriptedOptions(MeterOptions):
    """Fields of a scripted meter in the plan."""

    where: str = Field("here", description="means nothing")


class Scripted(EnergyMeter):
    """What a test wrote."""

    name: ClassVar[str] = "scripted"
    Options: ClassVar[type[MeterOptions]] = ScriptedOptions
    script: ClassVar[list[Answer]] = [100.0]
    """One after another; the last for ever."""
    channels: ClassVar[list[tuple[Channel, ...] | Exception]] = []
    """What each `open` finds."""
    number: ClassVar[int] = 0
    opens: ClassVar[int] = 0
    closes: ClassVar[int] = 0
    threads: ClassVar[set[int]] = set()

    def __init__(self, options: Any) -> None:
        super().__init__(options)

    def open(self) -> tuple[Channel, ...]:
        kind = type(self)
        kind.threads.add(threading.get_ident())
        channels = kind.channels[min(kind.opens, len(kind.channels) - 1)]
        kind.opens += 1
        if isinstance(channels, Exception):
            raise channels
        return channels

    def read(self) -> Mapping[str, float]:
        kind = type(self)
        kind.threads.add(threading.get_ident())
        answer = kind.script[min(kind.number, len(kind.script) - 1)]
        kind.number += 1
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Mapping):
            return answer
        return {"wall": answer() if callable(answer) else answer}

    def close(self) -> None:
        kind = type(self)
        kind.threads.add(threading.get_ident())
        kind.closes += 1


def channel(name: str = "wall", kind: Measurand = "power") -> Channel:
    return Channel(
        name=name, kind=kind, method="measured", scope="wall", observer="host", resolution=0.1
    )


def scripted(
    *script: Answer, channels: Iterable[tuple[Channel, ...] | Exception] = ((channel(),),)
) -> type[Scripted]:
    """A kind of meter of its own, so that what it counts is its own."""
    own: dict[str, Any] = {
        "__doc__": Scripted.__doc__,
        "script": list(script) or [100.0],
        "channels": list(channels),
        "threads": set(),
    }
    return type("ScriptedHere", (Scripted,), own)


def lines(file: Path) -> list[Line]:
    """Every whole line of a meter's file."""
    *whole, _ = file.read_bytes().split(b"\n") if file.exists() else (b"",)
    chain = Chain()
    return [_LINE.validate_json(chain.opened(line)) for line in whole]


class Ready(Protocol):
    def __call__(self) -> bool: ...


def eventually(ready: Ready, deadline_s: float = 60) -> None:
    """Wait until it is so."""
    until = time.monotonic() + deadline_s
    while not ready():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.005)


def refused(meter: EnergyMeter) -> UllageError:
    """Why it cannot be opened."""
    with pytest.raises(UllageError) as caught:
        meter.open()
    meter.close()
    return caught.value


def fault(meter: EnergyMeter) -> FaultError:
    """Why it gives no reading."""
    with pytest.raises(FaultError) as caught:
        meter.read()
    return caught.value
