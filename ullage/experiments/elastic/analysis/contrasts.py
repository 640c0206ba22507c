"""How environments compare: each metric of one beside the same of its baseline, and the verdicts.

Environments of one run are paired by repetition, in which they had the same arrivals; those of two
runs are paired where the seeds are the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ullage.experiments.elastic.analysis.definitions import DEFINITIONS, Definition
from ullage.experiments.elastic.analysis.metrics import RepetitionFigures, measured
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.runs.records import Record
from ullage.stats import LEAST_PAIRS, Verdict, Why
from ullage.stats.interval import Moments, moments, t_quantile
from ullage.stats.verdict import FamilyMember, Judgement, judge, p_values


@dataclass(frozen=True)
class EnvironmentSide:
    """One environment of one run, with the figures of its repetitions."""

    key: str
    label: str
    ended: int
    """Repetitions that came to an end, with figures or without."""
    figures: Mapping[int, RepetitionFigures]
    """Repetition → figures, of those that have any."""
    again_of: str | None = None
    """The baseline, of which this is the second copy."""

    def of(self, metric: str) -> dict[int, float]:
        """Repetition → figure of a metric."""
        return {n: m.figures[metric] for n, m in self.figures.items() if metric in m.figures}

    def seed(self, repetition: int) -> int | None:
        outcome = self.figures[repetition].repetition.outcome
        return None if outcome is None else outcome.seed


def sides(run: ElasticRun) -> tuple[EnvironmentSide, ...]:
    """Every environment with its figures."""
    return tuple(
        EnvironmentSide(
            e.key,
            e.label,
            sum(r.status != "unfinished" for r in run.of(e.key)),
            {r.number: measured(r, run.resolved) for r in run.of(e.key) if r.counts},
            e.again_of,
        )
        for e in run.resolved.environments
    )


MARGIN: Final = 0.02
"""A ratio within this is called equivalent; of differences see `Definition.margin`."""
NOT_KEPT: Final = 0.1
"""No verdict where more than this part of the repetitions has no figures."""


class Contrast(Record):
    """One metric of an environment beside the same of its baseline."""

    metric: str
    environment: str
    environment_label: str
    baseline: str
    baseline_label: str
    kind: Literal["ratio", "difference"]
    paired: bool
    """By repetition; else two independent samples."""
    n: int
    """Pairs, or the repetitions of the side that has fewer."""
    sizes: tuple[int, int]
    """Repetitions that have the figure, on each side."""
    estimate: float | None
    """Above 1 (ratio) or above 0 (difference) is worse, where one direction is better."""
    low: float | None
    high: float | None
    primary: bool
    verdict: Verdict | None
    """None: not a primary metric, too many repetitions have no figures, or `again`."""
    why: Why | None
    more: int | None
    """About so many more repetitions would settle it."""
    note: str = ""
    """Why there is no estimate, no interval or no verdict."""
    again: bool = False
    """The baseline's second copy against the baseline: the noise floor, never judged."""


def contrasts(
    pairs: Sequence[tuple[EnvironmentSide, EnvironmentSide]], confidence: float
) -> tuple[Contrast, ...]:
    """Every metric of each (environment, baseline), judged as one family."""
    drafts = _drafts(pairs)
    primary = [draft for draft in drafts if draft.definition.primary]
    judged = judge([draft.case for draft in primary], MARGIN, confidence) if primary else []
    verdicts = {id(draft): judgement for draft, judgement in zip(primary, judged, strict=True)}
    return tuple(_contrast(draft, verdicts.get(id(draft)), confidence) for draft in drafts)


def floor(
    pairs: Sequence[tuple[EnvironmentSide, EnvironmentSide]], confidence: float
) -> tuple[Contrast, ...]:
    """Every metric of each (second copy, baseline), outside of any family: what chance makes."""
    return tuple(_contrast(draft, None, confidence, again=True) for draft in _drafts(pairs))


def _drafts(pairs: Sequence[tuple[EnvironmentSide, EnvironmentSide]]) -> list[_Draft]:
    return [
        _draft(d, mine, theirs)
        for mine, theirs in pairs
        for d in DEFINITIONS
        if mine.of(d.name) or theirs.of(d.name)
    ]


@dataclass(frozen=True)
class _Draft:
    """A comparison before its verdict, which depends on the others."""

    definition: Definition
    mine: EnvironmentSide
    theirs: EnvironmentSide
    paired: bool
    units: tuple[float, ...]
    """Log-ratios or differences of the pairs, or none."""
    moments: Moments | None
    n: int
    centre: float | None
    note: str

    @property
    def scale(self) -> float:
        """What a difference is multiplied with so that its margin is that of the log-ratios."""
        if self.definition.scale == "ratio":
            return 1.0
        return math.log1p(MARGIN) / self.definition.margin

    @property
    def case(self) -> FamilyMember:
        m = self.moments
        if m is None or self.note:
            return FamilyMember(None, None, None, pairs=self.n)
        k = self.scale
        scaled = Moments(m.n, k * m.mean, k * m.error, k * m.deviation)
        return FamilyMember(
            scaled, p_values(scaled, MARGIN), None, pairs=self.n, systematic=self.systematic
        )

    @property
    def systematic(self) -> float:
        """What the clocks' bound may add to the mean, both sides, in the family's units."""
        if not self.definition.two_clocks:
            return 0.0
        bounds = [
            max((m.clock_share for m in side.figures.values()), default=0.0)
            for side in (self.mine, self.theirs)
        ]
        if self.definition.scale == "difference":
            return self.scale * sum(bounds)
        means = [
            np.mean(list(side.of(self.definition.name).values()))
            for side in (self.mine, self.theirs)
        ]
        return float(sum(b / m for b, m in zip(bounds, means, strict=True) if m > 0))


def _draft(d: Definition, mine: EnvironmentSide, theirs: EnvironmentSide) -> _Draft:
    a, b = mine.of(d.name), theirs.of(d.name)
    both = sorted(a.keys() & b.keys())
    same = [n for n in both if mine.seed(n) == theirs.seed(n)]
    paired = bool(same) and len(same) == len(both)
    n = len(same) if paired else min(len(a), len(b))
    if d.scale == "ratio" and any(v <= 0 for v in (*a.values(), *b.values())):
        return _Draft(d, mine, theirs, paired, (), None, n, None, "a figure is 0: it has no ratio")
    if d.scale == "difference" and not any((*a.values(), *b.values())) and a and b:
        none = "it is 0 in every repetition of both"
        return _Draft(d, mine, theirs, paired, (), None, n, 0.0, none)
    if not a or not b:
        none = mine.label if not a else theirs.label
        return _Draft(d, mine, theirs, paired, (), None, 0, None, f"{none} has no figure of it")
    x, y = ([_oriented(d, v[k]) for k in sorted(v)] for v in (a, b))
    if paired:
        units = tuple(_oriented(d, a[k]) - _oriented(d, b[k]) for k in same)
        centre = math.fsum(units) / n
        return _Draft(
            d, mine, theirs, True, units, moments(units) if n > 1 else None, n, centre, ""
        )
    centre = math.fsum(x) / len(x) - math.fsum(y) / len(y)
    return _Draft(d, mine, theirs, False, (), _unpaired(x, y), n, centre, "")


def _oriented(d: Definition, value: float) -> float:
    """So that more is worse."""
    turned = -1.0 if d.better == "higher" else 1.0
    return turned * (math.log(value) if d.scale == "ratio" else value)


def _unpaired(x: Sequence[float], y: Sequence[float]) -> Moments | None:
    """Difference of two means with Welch's error; degrees of freedom those of the smaller sample.

    That is less than Welch–Satterthwaite gives, so the interval covers at least as often.
    """
    if min(len(x), len(y)) < 2:
        return None
    a, b = moments(x), moments(y)
    n, error = min(a.n, b.n), math.hypot(a.error, b.error)
    return Moments(n, a.mean - b.mean, error, error * math.sqrt(n))


def _contrast(
    draft: _Draft, judged: Judgement | None, confidence: float, *, again: bool = False
) -> Contrast:
    d, m = draft.definition, draft.moments
    low = high = None
    if m is not None and m.deviation > 0:
        half = t_quantile(0.5 + confidence / 2, m.df) * m.error
        low, high = d.within(m.mean - half, m.mean + half)
    note = draft.note if again else draft.note or _no_verdict(draft)
    judgement = judged if not note else None
    logs = d.scale == "ratio"
    return Contrast(
        metric=d.name,
        environment=draft.mine.key,
        environment_label=draft.mine.label,
        baseline=draft.theirs.key,
        baseline_label=draft.theirs.label,
        kind=d.scale,
        paired=draft.paired,
        n=draft.n,
        sizes=(len(draft.mine.of(d.name)), len(draft.theirs.of(d.name))),
        estimate=_back(draft.centre, logs=logs),
        low=_back(low, logs=logs),
        high=_back(high, logs=logs),
        primary=d.primary and not again,
        verdict=judgement.verdict if judgement else None,
        why=judgement.why if judgement else None,
        more=judgement.blocks_to_settle if judgement else None,
        note=note,
        again=again,
    )


def _no_verdict(draft: _Draft) -> str:
    """Over a tenth of the repetitions without figures: what is left may be a choice.

    Where there are too few for a verdict anyway, that is the reason to give.
    """
    if not draft.definition.primary or draft.n < LEAST_PAIRS:
        return ""
    for side in (draft.mine, draft.theirs):
        lost = side.ended - len(side.figures)
        if lost > NOT_KEPT * side.ended:
            return f"{lost} of {side.ended} repetitions of {side.label} have no figures"
    return ""


def _back(value: float | None, *, logs: bool) -> float | None:
    if value is None or not logs:
        return value
    return math.exp(value) if value < 700 else None
