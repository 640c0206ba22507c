"""The energy of each trial, by each meter, over exactly the time of the trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from ullage.analysis.energy.integral import Integral, Missing, integrate
from ullage.analysis.energy.series import FOLDER, ChannelSeries, Stretch, read, series
from ullage.runs.events import Idle, Started, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Method, Scope, addable

SHARED: Final = "shared"
"""Code of what is missing in a duet."""
_EDGES: Final = frozenset({"before", "after", "not-recorded"})
"""Say less than any other reason."""
_ROUNDING: Final = 1e-12
"""Of sums and products of doubles, generously; no meter comes near it."""


@dataclass(frozen=True, order=True)
class MeterSource:
    """Figures of different sources are never added, nor compared as if they were of one."""

    label: str
    meter: str
    scope: Scope
    method: Method


@dataclass(frozen=True)
class IdlePower:
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
    idle: IdlePower | None

    @property
    def mean_w(self) -> float:
        """Mean power, W."""
        return self.joules / self.window_s

    @property
    def above_idle(self) -> float | None:
        """Energy less that of the idle host, J; what is left of equal ones by rounding is none."""
        if self.idle is None:
            return None
        above = self.joules - self.idle.watts * self.window_s
        return above if abs(above) > _ROUNDING * abs(self.joules) else 0.0

    @property
    def standard(self) -> float:
        """Combined standard uncertainty, J."""
        return float(np.linalg.norm((self.u_sampling, self.u_resolution, self.u_accuracy)))


@dataclass(frozen=True)
class MeteredSource:
    """What one source says of a run."""

    source: MeterSource
    trials: Mapping[str, TrialEnergy | Missing]
    """By the trial's name; of those with figures."""
    series: tuple[ChannelSeries, ...]
    unstated: bool
    """The maker of one of its channels states no accuracy."""


def metered(folder: RunFolder) -> tuple[MeteredSource, ...]:
    """All sources of a run, and every trial that has figures. ENERGY_READINGS_BAD."""
    places = _Places.of(folder)
    all_metered = []
    for file in sorted((folder.path / FOLDER).glob("*.jsonl")):
        stretches = _Stretches(read(folder.raw(str(file.relative_to(folder.path)))))
        all_metered += [_metered(source, stretches, places) for source in sorted(stretches.sources)]
    return tuple(all_metered)


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
    _series: dict[tuple[int, str], ChannelSeries] = field(default_factory=dict)

    @cached_property
    def sources(self) -> set[MeterSource]:
        """What it has channels for."""
        return {
            MeterSource(stretch.opened.label, stretch.opened.meter, channel.scope, channel.method)
            for stretch in self.all
            for channel in stretch.opened.channels
        }

    def of(
        self, source: MeterSource, session: str | None = None
    ) -> Iterator[tuple[ChannelSeries, ...]]:
        """The channels of a source, for each stretch (of a session) that has some."""
        for number, stretch in enumerate(self.all):
            names = [
                channel.name
                for channel in addable(stretch.opened.channels, source.scope, source.method)
            ]
            same = (stretch.opened.label, stretch.opened.meter) == (source.label, source.meter)
            if names and same and session in (None, stretch.opened.session):
                yield tuple(self._channel(number, name) for name in names)

    def _channel(self, number: int, name: str) -> ChannelSeries:
        key = number, name
        if key not in self._series:
            self._series[key] = series(self.all[number], name)
        return self._series[key]


def _metered(source: MeterSource, stretches: _Stretches, places: _Places) -> MeteredSource:
    idle_powers = {
        tag: _idle_power(stretches, source, tag, idle) for tag, idle in places.idle.items()
    }
    trials: dict[str, TrialEnergy | Missing] = {}
    for tag, trial in places.trials:
        if places.duet and source.scope != "guest":
            trials[trial.trial] = Missing(SHARED, "another trial ran at the same time")
            continue
        window = trial.start_ns, trial.end_ns
        channels = _together(stretches.of(source, tag), *window)
        trials[trial.trial] = (
            channels if isinstance(channels, Missing) else _energy(channels, idle_powers.get(tag))
        )
    all_series = tuple(member for group in stretches.of(source) for member in group)
    unstated = any(member.channel.accuracy is None for member in all_series)
    return MeteredSource(source, trials, all_series, unstated)


def _together(
    groups: Iterable[tuple[ChannelSeries, ...]], start_ns: int, end_ns: int
) -> list[Integral] | Missing:
    """The integrals of all channels from the stretch that has the window; else why none has it."""
    missing = Missing("not-recorded", "the meter was not read in that session")
    if not start_ns < end_ns:
        return Missing("not-recorded", "the trial has no length")
    for group in groups:
        integrals = [integrate(channel, start_ns, end_ns) for channel in group]
        lacking = [integral for integral in integrals if isinstance(integral, Missing)]
        if not lacking:
            return [integral for integral in integrals if isinstance(integral, Integral)]
        if missing.code in _EDGES:
            missing = lacking[0]
    return missing


def _energy(channels: Sequence[Integral], idle: IdlePower | None) -> TrialEnergy:
    """Channels add up; they see the same load at the same time by the same make of meter, so their
    errors do too, but for the rounding."""
    return TrialEnergy(
        joules=sum(channel.joules for channel in channels),
        u_sampling=sum(channel.u_sampling for channel in channels),
        u_resolution=float(np.linalg.norm([channel.u_resolution for channel in channels])),
        u_accuracy=sum(channel.u_accuracy for channel in channels),
        window_s=channels[0].window_s,
        idle=idle,
    )


def _idle_power(
    stretches: _Stretches, source: MeterSource, tag: str, idle: Sequence[Idle]
) -> IdlePower | None:
    """Mean power of the idle times of a session; None: not one of them was measured whole."""
    energies = []
    for span in idle:
        channels = _together(stretches.of(source, tag), span.start_ns, span.end_ns)
        if not isinstance(channels, Missing):
            energies.append(_energy(channels, None))
    seconds = sum(energy.window_s for energy in energies)
    if not energies:
        return None
    return IdlePower(
        watts=sum(energy.joules for energy in energies) / seconds,
        standard=float(np.linalg.norm([(e.u_sampling, e.u_resolution) for e in energies]))
        / seconds,
    )
