"""The energy of the trials, typed: part of the results of a run (`comparison/model.py`)."""

from __future__ import annotations

from typing import Literal

from ullage.analysis.comparison.estimates import Absolute, Budget, Interval
from ullage.runs.records import Method, Record, Scope
from ullage.stats import Verdict


class EnergyFigure(Record):
    """One quantity of a cell's energy."""

    unit: Literal["J", "W", "J s"]
    values: Absolute
    low: float | None
    high: float | None
    """Of the median, by the trials' spread and the meter's own uncertainty together; None: too few
    trials."""
    ratio: Interval | None = None
    """To the baseline's, above 1 is more, from the repetitions; None: the baseline, or no pairs."""
    budget: Budget | None = None
    """Of that ratio, with the meter's own uncertainty."""
    floor: float | None = None
    verdict: Verdict | None = None
    """Of `per_unit` alone, in a family of its own beside the run's. None: it is the baseline's, or
    an estimate, or too many trials lack it."""


class Energy(Record):
    """What the trials of one environment and workload took, by one meter: one method, one scope."""

    environment: str
    environment_label: str
    workload: str
    workload_title: str
    label: str
    """What the plan calls the meter."""
    meter: str
    method: Method
    scope: Scope
    trials: int
    """With figures …"""
    having: int
    """… and with an energy."""
    energy: EnergyFigure
    mean_power: EnergyFigure
    above_idle: EnergyFigure | None
    """Energy less what the idle host took in that time; None: no idle time was measured."""
    metric: str | None
    """The scalar primary metric that the next two are of; None: none is a time or a rate."""
    work: str | None
    """Unit of work, as of `Cost.unit`."""
    per_unit: EnergyFigure | None
    """J for one unit of work."""
    energy_delay: EnergyFigure | None
    """That, times the seconds that the unit takes."""
    relative_u_sampling: float
    relative_u_resolution: float
    relative_u_accuracy: float | None
    """Of one trial: standard uncertainties in parts of its energy, the medians. None: the meter's
    accuracy is not stated."""


class EnergyNote(Record):
    """Something to know about the energies of a meter."""

    code: Literal[
        "energy-missing",
        "energy-shared",
        "energy-of-a-guest",
        "meter-absent",
        "meter-stuck",
        "meter-jump",
        "meter-slow",
        "meters-disagree",
    ]
    label: str
    message: str
    advice: str
