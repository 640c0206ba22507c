"""The results of a run, typed: what tables, sentences and the report are made from.

Ratios are oriented so that above 1 is worse than the baseline. Everything dumps to JSON
(`model_dump(mode="json")`): there is no infinity and no NaN; what cannot be said is None.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from ullage.analysis.comparison.energy_model import Energy, EnergyNote
from ullage.analysis.comparison.estimates import (
    Absolute,
    Budget,
    Interval,
    Losses,
    Precision,
    Tail,
)
from ullage.runs.pairs import comparison_key
from ullage.runs.records import Better, Coordinate, Correction, Design, Record, Resource
from ullage.stats import RULES, Verdict, Why
from ullage.stats.multiple import holm

DoubtCode = Literal[
    "too-few-blocks",
    "too-many-failures",
    "some-failures",
    "metric-missing",
    "no-ratio",
    "no-spread",
    "drift",
    "outliers",
    "robust-disagrees",
    "bootstrap-disagrees",
    "no-again",
    "again-differs",
    "steal",
    "pair-split",
    "emulated",
    "nuisance-unequal",
    "curve-mixed",
    "curve-ragged",
    "not-finished",
    "host-shared",
    "warm-up",
    "autocorrelated",
    "frequency",
    "throttled",
    "pressure",
    "co-tenant",
    "host-emulated",
    "link-down",
    "never-swapped",
    "bimodal",
    "coarse",
    "systematic",
    "few-generations",
    "totals-disagree",
]


class Doubt(Record):
    """A reason to trust a figure less, and what to do about it."""

    code: DoubtCode
    message: str
    advice: str


class Cell(Record):
    """How often one environment × workload gave figures."""

    environment: str
    workload: str
    trials: int
    ok: int
    failed: int
    invalid: int
    reasons: tuple[str, ...] = ()
    """Codes of the reasons, each once. Untrusted text stays in the trials."""

    @property
    def without_figures(self) -> int:
        """Trials that count as failures: failed or invalid."""
        return self.failed + self.invalid

    @property
    def failure_rate(self) -> float:
        """Share of the trials that count as failures."""
        return self.without_figures / self.trials if self.trials else 0.0


class Point(Record):
    """The ratio of one pair."""

    block: int
    trial: str
    baseline_trial: str
    ratio: float
    generation: int = 0
    """Making of the instances that it is of."""
    epoch_ns: int
    """When the environment's trial started."""
    gap_s: float
    """From the start of the earlier of the two trials to the start of the later."""
    outlier: bool


class CurvePoint(Record):
    """A curve's ratio at one coordinate, with a band that holds for all coordinates together."""

    coordinate: float
    ratio: float
    low: float | None
    high: float | None
    baseline_median: float
    environment_median: float
    pairs: int
    """Pairs that have it: fewer than the curve has where some lack a point."""


class Cause(Record):
    """A counter that changed along with a figure that is worse."""

    counter: str
    """`kernel.interrupts`: meter and quantity; `programs.…`, or `symbols.…` for a place."""
    words: str
    unit: str
    environment_mean: float
    baseline_mean: float
    ratio: Interval
    """Of the two; with the counter's floor added to each where one is next to nothing. It holds
    together with those of all counters looked at."""
    difference: float
    difference_low: float
    difference_high: float
    """Of their means, with an interval of the same confidence."""
    from_nothing: bool
    """One of the two is next to nothing: the difference says more than the ratio."""


class Causes(Record):
    """What changed along with a figure that is worse."""

    looked: int
    """Counters that were looked at."""
    differing: int
    """Of these, so many changed."""
    found: tuple[Cause, ...]
    """The three that changed most."""
    confidence: float
    """Of all intervals together."""


class Comparison(Record):
    """One metric of one workload in one environment, against its baseline."""

    environment: str
    environment_label: str
    baseline: str
    """The plan's baseline; for an A/A comparison the environment that this is a second copy of."""
    baseline_label: str
    workload: str
    workload_title: str
    resource: Resource
    metric: str
    description: str
    unit: str
    better: Better
    primary: bool
    part: bool = False
    """As of `runs.Metric`."""
    again: bool
    """An A/A comparison: two equal environments. It has no verdict; it makes the noise floor."""
    emulated: bool
    unequal: tuple[str, ...]
    """Nuisances that differ between the two, allowed by the plan: every sentence names them."""
    ratio: float | None
    """Geometric mean of the pairs' ratios; of a curve: over the coordinates too."""
    interval: Interval | None
    budget: Budget | None
    precision: Precision
    """What the interval covers: more blocks on these instances, or on instances made anew."""
    generations: int
    """Makings of the instances that have a pair; from two on they are what the interval counts."""
    bootstrap: Interval | None
    robust: Interval | None
    robust_disagrees: bool
    without_outliers: Interval | None
    """Set only where a pair was flagged; the flagged pairs are kept everywhere else."""
    totals: Interval | None = None
    """Ratio of the arithmetic means, above 1 is worse: what all trials together took. None of a
    curve, and under two pairs."""
    tail: Tail | None = None
    """None: too few blocks to bound it, or instances made several times."""
    pairs: int
    dropped: int
    """Blocks of which no pair could be made."""
    losses: Losses | None = None
    """None: none were lost, or there is no interval."""
    points: tuple[Point, ...]
    coordinate: Coordinate | None
    curve: tuple[CurvePoint, ...]
    baseline_values: Absolute | None
    environment_values: Absolute | None
    baseline_cell: Cell
    environment_cell: Cell
    pair_gap_s: float | None
    """Median time between the starts of a pair's trials."""
    floor: float | None
    """Noise floor as a ratio above 1; nothing under it is called a difference."""
    floor_biased: bool
    memory: float = 1.0
    """Factor on standard errors for what the environment keeps from block to block."""
    other_copy: Interval | None = None
    """The ratio to the second copy of the baseline, where that shows less; None: there is none."""
    p_difference: float | None
    p_equivalence: float | None
    p_difference_adjusted: float | None
    p_equivalence_adjusted: float | None
    """After the correction for the family, as the plan has it."""
    verdict: Verdict | None
    """None: not a primary metric, an A/A comparison, or `no_verdict` says why."""
    why: Why | None
    no_verdict: str | None
    blocks_to_settle: int | None
    """More blocks after which a verdict is likely; None: decided, or no number of them would."""
    makings_to_settle: int | None = None
    """The same in makings of the instances; None: it is blocks that count."""
    causes: Causes | None = None
    """None: the verdict is not `worse`."""
    doubts: tuple[Doubt, ...]


class ResourceSummary(Record):
    """One barrel: what one environment leaves of one resource."""

    environment: str
    environment_label: str
    resource: Resource
    ratio: float | None
    interval: Interval | None
    members: tuple[tuple[str, str], ...]
    """(workload, metric) of the comparisons in it."""
    pairs: int
    """Blocks in which all of its members have a pair."""
    precision: Precision
    generations: int
    verdict: Verdict | Literal["mixed"] | None
    """That of its members when all have the same; None: one has none."""
    emulated: bool
    unequal: tuple[str, ...]
    floor: float | None


class Cost(Record):
    """What a unit of work costs in one environment: its price, times how long the work takes."""

    environment: str
    environment_label: str
    workload: str
    workload_title: str
    metric: str
    unit: str
    """Of the work: `B` or `1` of a rate in them per second, `run` of a time."""
    currency: str
    per_hour: float
    """Price of one instance."""
    instances: int
    """So many of the environment did the work together; all are paid."""
    cost: float
    """Of one unit, from the mean of the trials: what all of them cost, over their number."""
    low: float | None
    high: float | None
    """The interval of that mean, which covers skew; None: too few values for a bound."""
    ratio: Interval | None = None
    """To the baseline's cost, above 1 is dearer; None: it is the baseline, or has no price in this
    currency."""


class Stop(Record):
    """Why the run ended, and the precision that it reached."""

    reason: str | None
    """None: it has not ended in order."""
    message: str = ""
    """Of the error that it ended by; it may hold what a guest said."""
    target_half_width: float | None
    widest_half_width: float | None
    widest: str | None
    """`environment/workload/metric` of the widest primary interval."""
    widening: float
    """Factor on every standard error that pays for having looked after each block."""

    @classmethod
    def with_widest(cls, comparisons: Iterable[Comparison], **fields: Any) -> Stop:
        """With the precision that the primary ones of these reached."""
        widths = [
            (c.interval.relative_half_width, c) for c in comparisons if c.primary and c.interval
        ]
        width, c = max(widths, key=lambda pair: pair[0], default=(None, None))
        key = comparison_key(c.environment, c.workload, c.metric) if c else None
        return cls(widest_half_width=width, widest=key, **fields)


def apart(again: Iterable[Comparison]) -> list[Comparison]:
    """A/A comparisons that differ by more than chance lets one of so many differ (Holm)."""
    primary = [c for c in again if c.primary and c.interval and c.p_difference is not None]
    adjusted = holm([c.p_difference or 0.0 for c in primary])
    return [
        c
        for c, p in zip(primary, adjusted, strict=True)
        if c.interval is not None and p <= 1 - c.interval.confidence
    ]


class Rejudged(Record):
    """A verdict that an older ullage would have given otherwise."""

    environment_label: str
    workload_title: str
    metric: str
    before: Verdict
    now: Verdict
    why: Why


class Analysis(Record):
    """The answer of a run."""

    format: Literal[1] = 1
    run: str
    name: str
    baseline: str
    baseline_label: str
    confidence: float
    margin: float
    design: Design
    several_machines: bool = Field(False, exclude_if=operator.not_)
    """Its instances stood on machines that the plan names; where they did not, nothing is said."""
    correction: Correction
    rules: int = RULES
    """Those that the verdicts are of."""
    rejudged: tuple[Rejudged, ...] = ()
    """Verdicts that were others under the rules of the ullage that made the run."""
    started_epoch_ns: int | None
    seconds: float
    """Of all sessions, first event to last, without the pauses between them."""
    blocks: int
    generations: int = 1
    """How often the instances were made for these blocks."""
    blocks_each: int | None = None
    """Blocks after which the plan makes all instances anew; None: they are made once."""
    iterations: int = 1
    """How often each trial does its work; its figure is their mean."""
    trials: int
    failed: int
    """Trials without figures."""
    stop: Stop
    floor: float | None
    """The largest noise floor of a primary metric."""
    again_total: int
    """A/A comparisons of primary metrics …"""
    again_differing: int
    """… and how many of them exclude 1: about 1 − confidence of them do so by chance."""
    family: int
    """Comparisons that the correction covers."""
    comparisons: tuple[Comparison, ...]
    again: tuple[Comparison, ...]
    resources: tuple[ResourceSummary, ...]
    cells: tuple[Cell, ...]
    money: tuple[Cost, ...] = ()
    """Of the environments that have a price."""
    money_notes: tuple[str, ...] = ()
    """Which bills there are not, and why."""
    energy: tuple[Energy, ...] = ()
    """By the run's energy meters; the baseline's first, of each workload and meter."""
    energy_notes: tuple[EnergyNote, ...] = ()
    doubts: tuple[Doubt, ...]
    """About the run as a whole."""

    def primary(self) -> tuple[Comparison, ...]:
        """The comparisons that have, or should have, a verdict."""
        return tuple(c for c in self.comparisons if c.primary)

    def dump(self) -> dict[str, Any]:
        """As plain JSON values."""
        return self.model_dump(mode="json")
