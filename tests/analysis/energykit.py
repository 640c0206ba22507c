"""Meters' files for made-up runs: what a wall and two processors would have shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from ullage.analysis import overhead
from ullage.analysis.comparison.model import Analysis
from ullage.analysis.energy.series import ChannelSeries, Stretch, series
from ullage.runs.events import Idle, Started, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.readings import Closed, Fault, Line, Opened, Reading
from ullage.runs.records import Channel

CPU = WORKLOADS[0]
NATIVE, CONTAINER = ENVIRONMENTS[0], ENVIRONMENTS[1]
S = 1_000_000_000


def channel(name: str = "wall", **more: Any) -> Channel:
    """A power at the wall unless told otherwise."""
    usual: dict[str, Any] = {
        "kind": "power",
        "method": "measured",
        "scope": "wall",
        "observer": "host",
        "resolution": 0.0,
    }
    return Channel(name=name, **{**usual, **more})


def counter(name: str = "package-0", **more: Any) -> Channel:
    """A counter of a processor."""
    return channel(name, **{"kind": "energy", "scope": "package", **more})


def opened(*channels: Channel, **more: Any) -> Opened:
    """The first line of a stretch."""
    usual: dict[str, Any] = {
        "session": "u1a2b3c4",
        "label": "wall",
        "meter": "nut",
        "options": {},
        "every_s": 1.0,
        "epoch_ns": 0,
        "at_ns": 0,
    }
    return Opened(channels=channels, **{**usual, **more})


def reading(at_s: float, within_s: float = 0.0, **values: float) -> Reading:
    """Values of the channels; `package_0` is `package-0`."""
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return Reading(at_ns=round(at_s * S), within_ns=round(within_s * S), values=named)


def fault(at_s: float, code: str = "gone") -> Fault:
    """A reading that failed."""
    return Fault(at_ns=round(at_s * S), code=code, message="no answer")


def stretch(of: Channel, values: Sequence[float], faults: Sequence[Fault] = ()) -> Stretch:
    """One value a second, from 0 s on."""
    readings = tuple(reading(float(at), **{of.name: value}) for at, value in enumerate(values))
    return Stretch(opened(of), readings, tuple(faults), None)


def series_of(of: Channel, values: Sequence[float], faults: Sequence[Fault] = ()) -> ChannelSeries:
    """The series of it."""
    return series(stretch(of, values, faults), of.name)


def write(file: Path, lines: Iterable[Line], torn: bytes = b"") -> None:
    """A meter's file."""
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"".join(line.model_dump_json().encode() + b"\n" for line in lines) + torn)


def run(path: Path, **options: Any) -> RunFolder:
    """A run without meters, in which everything goes well."""
    usual = {
        "environments": ENVIRONMENTS,
        "workloads": (CPU,),
        "noise_sd": 0.02,
        "failures": [],
        "raw": False,
    }
    return RunFolder.open(make_run(path, **{**usual, **options}))


Load = Callable[[Trial], float]


def watts(folder: RunFolder, load: Load, idle: float) -> Callable[[np.ndarray], np.ndarray]:
    """The power of the machine at any instants in s: `load` W in each trial, else `idle`."""
    edges = [(t.start_ns / S, t.end_ns / S, load(t)) for t in folder.trials]
    starts = np.array([edge[0] for edge in edges])
    ends = np.array([edge[1] for edge in edges])
    loads = np.array([edge[2] for edge in edges])

    def power(at: np.ndarray) -> np.ndarray:
        place = np.maximum(0, np.searchsorted(starts, at, side="right") - 1)
        inside = (at >= starts[place]) & (at < ends[place])
        return np.where(inside, loads[place], idle)

    return power


def span(folder: RunFolder, beside_s: float = 5.0) -> tuple[float, float]:
    """From before the first trial until after the last, s."""
    trials = folder.trials
    return trials[0].start_ns / S - beside_s, trials[-1].end_ns / S + beside_s


def metered(
    folder: RunFolder,
    load: Load,
    *,
    idle: float = 40.0,
    every_s: float = 0.05,
    beside_s: float = 5.0,
    label: str = "wall",
    **more: Any,
) -> RunFolder:
    """The run with a meter at the wall, read often; `beside_s`: how much longer than the trials."""
    begin, end = span(folder, beside_s)
    at = np.arange(begin, end, every_s)
    power = watts(folder, load, idle)(at)
    lines: list[Line] = [opened(channel(**more), label=label, every_s=every_s)]
    lines += [reading(t, wall=float(p)) for t, p in zip(at, power, strict=True)]
    lines.append(Closed(at_ns=round(at[-1] * S)))
    write(folder.path / "meters" / f"{label}.jsonl", lines)
    return folder


def rested(folder: RunFolder, start_s: float, end_s: float) -> RunFolder:
    """The run with an idle time in its journal, right after the start."""
    journal = folder.path / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    place = next(
        number for number, e in enumerate(folder.events, start=1) if isinstance(e, Started)
    )
    idle = Idle(
        epoch_ns=folder.sessions[0].epoch_ns, start_ns=round(start_s * S), end_ns=round(end_s * S)
    )
    lines.insert(place, idle.model_dump_json() + "\n")
    journal.write_text("".join(lines))
    return RunFolder.open(folder.path)


def analysed(folder: RunFolder) -> Analysis:
    """Its analysis."""
    return overhead.analyse(RunFolder.open(folder.path))
