"""An estimate, and how sure it is: intervals, and what is uncertain about a ratio."""

from __future__ import annotations

from typing import Literal

from ullage.runs.records import Record

Precision = Literal["repeatability", "intermediate"]
"""ISO 5725: of the same instances, or of instances made anew. Reproducibility: of other hosts."""


class Interval(Record):
    """An estimate with its interval, on the ratio scale."""

    estimate: float
    low: float
    high: float
    confidence: float
    n: int
    """Independent values that it rests on: blocks, or makings of the instances."""
    method: str

    @property
    def relative_half_width(self) -> float:
        return (self.high - self.low) / (2 * self.estimate)


class Losses(Record):
    """The interval's bounds, should the trials that gave no figure have been the best or the worst.

    They take the least, and then the greatest, ratio that any pair has (without blocks: the best
    and the worst value of their side).
    """

    lost: int
    """Blocks without a pair; without blocks: values that are missing. 0: only points of curves."""
    low: float
    high: float


class Absolute(Record):
    """The values of one metric in one environment, in the metric's own unit.

    Where the instances were made several times median, mean and their intervals are those of the
    makings' medians and means: trials of one making are not independent of each other.
    """

    n: int
    """Trials with a value."""
    mean: float
    mean_kind: Literal["arithmetic", "harmonic"]
    least: float
    q1: float
    median: float
    median_low: float | None
    """Order-statistic interval of the median; None: too few values for the confidence."""
    median_high: float | None
    q3: float
    most: float
    p95: float | None
    """None under 20 values: the tail was not seen."""
    mean_low: float | None = None
    """Interval of the mean that covers skew (`stats.totals`); None: a single value, some not above
    0, or so few that a bound is no number."""
    mean_high: float | None = None


class Tail(Record):
    """The ratio of the slowest trials of both sides."""

    quantile: float
    """0.95 or 0.99: so many of the trials are faster."""
    ratio: Interval


class Component(Record):
    """One systematic part of the uncertainty of a ratio (GUM Type B)."""

    source: Literal[
        "resolution",
        "clock-rate",
        "clock-bound",
        "meter-resolution",
        "meter-accuracy",
        "meter-idle",
    ]
    standard: float
    """Standard uncertainty of the log-ratio."""
    text: str
    """Where it comes from, with the figures that it was made of."""


class Budget(Record):
    """What is uncertain about a ratio, apart and together; all on the log scale."""

    type_a: float
    """Standard error of the mean log-ratio, from the repetitions."""
    type_b: float
    """Root of the sum of squares of the systematic components."""
    components: tuple[Component, ...]
    expanded: float
    """Half width of the interval at the run's confidence with both together."""
    low: float
    high: float
    """That interval, on the ratio scale."""
    precision: Precision
    within: float | None = None
    """Standard deviation of single pairs on the same instances; None: not known."""
    between: float | None = None
    """Standard deviation that making the instances anew adds; None: they were made once."""
