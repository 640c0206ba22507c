"""What a meter of energy or power is asked; `ullage.runs.readings` has what it tells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from ullage.common.errors import (
    ENERGY_METER_ABSENT,
    ENERGY_METER_BAD_ANSWER,
    ENERGY_METER_DENIED,
    UllageError,
)
from ullage.common.quantities import Seconds
from ullage.common.registry import Registry, fields_fault
from ullage.runs.readings import Channel


class FaultError(Exception):
    """A meter's answer cannot be trusted, or there was none; it becomes a `Fault`."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


LEAST_EVERY_S: Final = 0.01
"""The kernel's step of CPU time (`model`) and the shortest interval that `perf` is asked for. A
reading takes some tenths of a millisecond between threads, and a line of the file: more often, its
instant would be unsure by a large part of the interval, and the recorder load what it measures."""

Every = Annotated[Seconds, Field(ge=LEAST_EVERY_S)]
"""How long from one reading to the next."""


class MeterOptions(BaseModel):
    """Base of what a plan may say of a meter: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: Every = Field(
        Seconds(1.0), description="between two readings, `1s` or `500ms`; 10 ms at least"
    )


class EnergyMeter(ABC):
    """Reads one source of energy or power, over and over, in a thread of its own.

    A subclass is one file, and one line in `ullage/meters/energy/__init__.py`. Its docstring
    becomes its page in the docs: what it reads, its scope and method, what it needs, how exact it
    is. Calls block and have a deadline; they come from one thread, `open` first and `close` last.
    Nothing is read after an `open` that failed, until one has gone well.
    """

    name: ClassVar[str]
    Options: ClassVar[type[MeterOptions]] = MeterOptions

    def __init__(self, options: Any) -> None:
        self.options = options

    def caution(self) -> str | None:
        """What whoever takes its figures must be told, though it can be read; None: nothing."""
        return None

    @abstractmethod
    def open(self) -> tuple[Channel, ...]:
        """Find the source; raise UllageError when it is not there or may not be read."""

    @abstractmethod
    def read(self) -> Mapping[str, float]:
        """Channel → value now. FaultError when there is none that can be trusted."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the source; also after a failed `open`, and twice."""


READ_DEADLINE_S: Final = 5.0
"""A read that takes longer has failed (`silent`)."""


@dataclass(frozen=True)
class PlannedMeter:
    """A meter that is to be read during a run."""

    label: str
    kind: type[EnergyMeter]
    options: MeterOptions
    optional: bool = False
    """Where it is not there, the run goes on without it."""

    def make(self) -> EnergyMeter:
        """A new one, not opened yet."""
        return self.kind(self.options)

    @property
    def plain_options(self) -> dict[str, Any]:
        """As they are stored: without how often it is read, which is not of the meter."""
        return self.options.model_dump(mode="json", exclude={"every"})


def refusal(meter: str, where: str, fault: FaultError, fix: str) -> UllageError:
    """Of a fault: ENERGY_METER_ABSENT (`gone`, `silent`), _DENIED, _BAD_ANSWER; to raise."""
    if fault.code == "denied":
        return UllageError(ENERGY_METER_DENIED, meter=meter, where=where, reason=fault, fix=fix)
    if fault.code in {"gone", "silent"}:
        return UllageError(ENERGY_METER_ABSENT, meter=meter, where=where, reason=fault, fix=fix)
    return UllageError(ENERGY_METER_BAD_ANSWER, meter=meter, where=where, reason=fault, fix=fix)


def _fault(meter: type[EnergyMeter]) -> str | None:
    return fields_fault("Options", meter.Options, MeterOptions, frozenset({"meter", "optional"}))


REGISTRY: Final = Registry("energy meter", EnergyMeter, ("Options",), _fault)
