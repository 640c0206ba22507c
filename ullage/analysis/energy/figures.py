"""The quantities that follow from a trial's energy, as metrics that are paired like any other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ullage.analysis.comparison import money
from ullage.analysis.comparison.estimates import Component
from ullage.analysis.energy.trials import MeteredSource, TrialEnergy
from ullage.runs.events import Trial
from ullage.runs.records import Metric, WorkloadRecord

EnergyComponents = tuple[Component, ...]
Unit = Literal["J", "W", "J s"]


@dataclass(frozen=True)
class EnergyQuantity:
    """One kind of figure."""

    key: str
    unit: Unit
    metric: Metric | None = None
    """That the work is told by."""

    @property
    def name(self) -> str:
        """Unique in a trial."""
        return f"{self.key} {self.metric.name}" if self.metric else self.key

    def as_metric(self) -> Metric:
        return Metric(name=self.name, unit=self.unit, better="lower", description=self.key)


ENERGY: Final = EnergyQuantity("energy", "J")
MEAN_POWER: Final = EnergyQuantity("mean power", "W")
ABOVE_IDLE: Final = EnergyQuantity("energy above idle", "J")


def per_unit(metric: Metric) -> EnergyQuantity:
    """J for a unit of work."""
    return EnergyQuantity("energy per unit", "J", metric)


def energy_delay(metric: Metric) -> EnergyQuantity:
    """J s of a unit of work."""
    return EnergyQuantity("energy delay", "J s", metric)


def works(workload: WorkloadRecord) -> list[Metric]:
    """Its scalar primary metrics that are a time or a rate of work."""
    return [
        metric
        for metric in workload.metrics
        if metric.primary
        and metric.coordinate is None
        and money.work(metric.unit, metric.better, part=metric.part) is not None
    ]


def with_energies(
    trials: Iterable[Trial], workloads: Iterable[WorkloadRecord], metered: MeteredSource
) -> Iterator[Trial]:
    """The trials with the figures of their energy instead of their own."""
    of_workload = {workload.key: works(workload) for workload in workloads}
    for trial in trials:
        energy = metered.trials.get(trial.trial)
        figures = (
            dict(_figures(trial, energy, of_workload[trial.workload]))
            if isinstance(energy, TrialEnergy)
            else {}
        )
        yield trial.model_copy(update={"metrics": figures})


def _figures(
    trial: Trial, energy: TrialEnergy, metrics: Iterable[Metric]
) -> Iterator[tuple[str, float]]:
    yield ENERGY.name, energy.joules
    yield MEAN_POWER.name, energy.mean_w
    if energy.above_idle is not None:
        yield ABOVE_IDLE.name, energy.above_idle
    for metric in metrics:
        value = trial.metrics.get(metric.name)
        if value is None or isinstance(value, list) or not value > 0:
            continue
        of = money.work(metric.unit, metric.better, part=metric.part)
        seconds = value if of == money.RUN else 1 / value
        # Teams of instances side by side each do work of their own; the figure is their mean.
        joules = energy.mean_w * seconds / max(1, len(trial.instances))
        yield per_unit(metric).name, joules
        yield energy_delay(metric).name, joules * seconds


@dataclass(frozen=True)
class Typical:
    """Of the trials of one cell: what the meter is uncertain by, in parts of a trial's energy."""

    mean_w: float
    sampling: float
    resolution: float
    accuracy: float
    idle: float
    """Of the energy above idle, by what is uncertain about the idle power."""
    idle_seconds: float
    """Seconds in a J above idle: what an error of the idle power in W does."""
    idle_standard: float
    """W."""
    above: float
    """Energy above idle, in parts of the energy."""

    @classmethod
    def of(cls, energies: Iterable[TrialEnergy]) -> Typical:
        """The medians; there is at least one."""
        rows = [_row(energy) for energy in energies]
        return cls(*(float(value) for value in np.median(np.array(rows), axis=0)))

    def relative(self, quantity: EnergyQuantity) -> float:
        """Standard uncertainty that repeating does not reduce, in parts of the quantity."""
        if quantity is ABOVE_IDLE:
            return math.hypot(self.rounding(above=True), self.accuracy, self.idle)
        return math.hypot(self.resolution, self.accuracy)

    def rounding(self, *, above: bool) -> float:
        """Of the resolution, in parts of the energy, or of the energy above idle."""
        if not above:
            return self.resolution
        return self.resolution / abs(self.above) if self.above else 0.0


def _row(energy: TrialEnergy) -> tuple[float, ...]:
    above, idle = energy.above_idle, energy.idle
    seconds = energy.window_s / above if above else 0.0
    standard = idle.standard if idle else 0.0
    return (
        energy.mean_w,
        energy.u_sampling / energy.joules,
        energy.u_resolution / energy.joules,
        energy.u_accuracy / energy.joules,
        abs(seconds) * standard,
        seconds,
        standard,
        (above or 0.0) / energy.joules,
    )


def components(quantity: EnergyQuantity, mine: Typical, theirs: Typical) -> EnergyComponents:
    """What the meter adds to the uncertainty of a ratio; the sampling is in the repetitions.

    An accuracy is taken for a gain and an offset, each within it at the smaller power of the two:
    the gain cancels in a ratio, the offset by as much as the powers are alike, and both in a ratio
    of energies above idle, which lack the accuracy's part therefore.
    """
    above = quantity is ABOVE_IDLE
    parts = [
        Component(
            source="meter-resolution",
            standard=math.hypot(*(side.rounding(above=above) for side in (mine, theirs))),
            text="the meter's values come in steps",
        )
    ]
    if above:
        error_w = max(mine.idle_standard, theirs.idle_standard)
        parts.append(
            Component(
                source="meter-idle",
                standard=abs(mine.idle_seconds - theirs.idle_seconds) * error_w,
                text="the idle power is the same figure on both sides",
            )
        )
    else:
        powers = sorted((mine.mean_w, theirs.mean_w))
        accuracy = max(mine.accuracy, theirs.accuracy) * (1 - powers[0] / powers[1])
        parts.append(
            Component(
                source="meter-accuracy",
                standard=accuracy,
                text="the maker's accuracy, as far as the two powers differ",
            )
        )
    return tuple(part for part in parts if part.standard > 0)
