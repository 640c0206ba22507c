"""The energy of each trial, by each meter, over exactly the time of the trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from ullage.analysis.energy.integrate import Integral, Missing, integrate
from ullage.analysis.energy.series import FOLDER, Series, Stretch, read, series
from ullage.runs.events import Idle, Started, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Method, Scope, addable

SHARED: Final = "shared"
"""Code of what is missing in a duet."""
_EDGES: Final = frozenset({"before", "after", "not-recorded"})
"""Say less than any other reason."""


@dataclass(frozen=True, order=True)
class Source:
    """Figures of different sources are never added, nor compared as if they were of one."""

    label: str
    meter: str
    scope: Scope
    method: Method


@dataclass(frozen=True)
class Rest:
    """What the idle host took, in one session."""

    watts: float
    standard: float
    """W, without the accuracy of the meter."""


@dataclass(frozen=True)
class TrialEnergy:
    """One trial's energy by one source: all its channels together. J."""

    joules: float
    u_sampling: float
    u_resolution: float
    u_accuracy: float
    window_s: float
    rest: Rest | None

    @property
    def mean_w(self) -> float:
        """Mean power, W."""
        return self.joules / self.window_s

    @property
    def above_idle(self) -> float | None:
        """Energy less that of the idle host, J."""
        return None if self.rest is None else self.joules - self.rest.watts * self.window_s

    @property
    def standard(self) -> float:
        """Combined standard uncertainty, J."""
        return float(np.linalg.norm((self.u_sampling, self.u_resolution, self.u_accuracy)))


@dataclass(frozen=True)
class Metered:
    """What one source says of a run."""

    source: Source
    trials: Mapping[str, TrialEnergy | Missing]
    """By the trial's name; of those with figures."""
    series: tuple[Series, ...]
    unstated: bool
    """The maker of one of its channels states no accuracy."""


def metered(folder: RunFolder) -> tuple[Metered, ...]:
    """All sources of a run, and every trial that has figures. ENERGY_READINGS_BAD."""
    places = _Places.of(folder)
    found = []
    for file in sorted((folder.path / FOLDER).glob("*.jsonl")):
        stretches = _Stretches(read(folder.raw(str(file.relative_to(folder.path)))))
        found += [_metered(source, stretches, places) for source in sorted(stretches.sources)]
    return tuple(found)


@dataclass(frozen=True)
class _Places:
    """Trials and idle times by the session they are of."""

    trials: tuple[tuple[str, Trial], ...]
    idle: Mapping[str, tuple[Idle, ...]]
    duet: bool

    @classmethod
    def of(cls, folder: RunFolder) -> _Places:
        """What stands after a `started` is of its session."""
        tag, trials, idle = "", [], dict[str, tuple[Idle, ...]]()
        for event in folder.events:
            if isinstance(event, Started):
                tag = event.tag
            elif isinstance(event, Trial) and event.status == "ok":
                trials.append((tag, event))
            elif isinstance(event, Idle):
                idle[tag] = (*idle.get(tag, ()), event)
        return cls(tuple(trials), idle, folder.resolved.design == "duet")


@dataclass(frozen=True)
class _Stretches:
    """A meter's file, its channels made series once."""

    all: Sequence[Stretch]
    _series: dict[tuple[int, str], Series] = field(default_factory=dict)

    @cached_property
    def sources(self) -> set[Source]:
        """What it has channels for."""
        return {
            Source(stretch.opened.label, stretch.opened.meter, channel.scope, channel.method)
            for stretch in self.all
            for channel in stretch.opened.channels
        }

    def of(self, source: Source, session: str | None = None) -> Iterator[tuple[Series, ...]]:
        """The channels of a source, for each stretch (of a session) that has some."""
        for number, stretch in enumerate(self.all):
            names = [
                channel.name
                for channel in addable(stretch.opened.channels, source.scope, source.method)
            ]
            same = (stretch.opened.label, stretch.opened.meter) == (source.label, source.meter)
            if names and same and session in (None, stretch.opened.session):
                yield tuple(self._one(number, name) for name in names)

    def _one(self, number: int, name: str) -> Series:
        key = number, name
        if key not in self._series:
            self._series[key] = series(self.all[number], name)
        return self._series[key]


def _metered(source: Source, stretches: _Stretches, places: _Places) -> Metered:
    rests = {tag: _rest(stretches, source, tag, idle) for tag, idle in places.idle.items()}
    trials: dict[str, TrialEnergy | Missing] = {}
    for tag, trial in places.trials:
        if places.duet and source.scope != "guest":
            trials[trial.trial] = Missing(SHARED, "another trial ran at the same time")
            continue
        window = trial.start_ns, trial.end_ns
        found = _together(stretches.of(source, tag), *window)
        trials[trial.trial] = (
            found if isinstance(found, Missing) else _energy(found, rests.get(tag))
        )
    all_series = tuple(each for group in stretches.of(source) for each in group)
    unstated = any(each.channel.accuracy is None for each in all_series)
    return Metered(source, trials, all_series, unstated)


def _together(
    groups: Iterable[tuple[Series, ...]], start_ns: int, end_ns: int
) -> list[Integral] | Missing:
    """The integrals of all channels from the stretch that has the window; else why none has it."""
    missing = Missing("not-recorded", "the meter was not read in that session")
    if not start_ns < end_ns:
        return Missing("not-recorded", "the trial has no length")
    for group in groups:
        integrals = [integrate(each, start_ns, end_ns) for each in group]
        lacking = [each for each in integrals if isinstance(each, Missing)]
        if not lacking:
            return [each for each in integrals if isinstance(each, Integral)]
        if missing.code in _EDGES:
            missing = lacking[0]
    return missing


def _energy(channels: Sequence[Integral], rest: Rest | None) -> TrialEnergy:
    """Channels add up; they see the same load at the same time by the same make of meter, so their
    errors do too, but for the rounding."""
    return TrialEnergy(
        joules=sum(each.joules for each in channels),
        u_sampling=sum(each.u_sampling for each in channels),
        u_resolution=float(np.linalg.norm([each.u_resolution for each in channels])),
        u_accuracy=sum(each.u_accuracy for each in channels),
        window_s=channels[0].window_s,
        rest=rest,
    )


def _rest(stretches: _Stretches, source: Source, tag: str, idle: Sequence[Idle]) -> Rest | None:
    """Mean power of the idle times of a session; None: not one of them was measured whole."""
    found = []
    for each in idle:
        channels = _together(stretches.of(source, tag), each.start_ns, each.end_ns)
        if not isinstance(channels, Missing):
            found.append(_energy(channels, None))
    seconds = sum(each.window_s for each in found)
    if not found:
        return None
    return Rest(
        watts=sum(each.joules for each in found) / seconds,
        standard=float(np.linalg.norm([(e.u_sampling, e.u_resolution) for e in found])) / seconds,
    )
