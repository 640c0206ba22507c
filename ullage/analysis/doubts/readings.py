"""Doubts about what was computed of the pairs: does another way to look at them say the same?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ullage.analysis.comparison import losses, pairing, systematic
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.model import CurvePoint, Doubt
from ullage.analysis.comparison.pairing import Draft
from ullage.analysis.comparison.rounding import share
from ullage.analysis.comparison.words import NO_FIGURES, capital, if_extreme, ratio_words
from ullage.stats.uncertainty import Floor

MATTERS = 0.25
"""Part of the margin from which on a systematic uncertainty, or a step of the figures, is told."""
MOST_PLACES = 5
"""Places of a curve that are named."""


@dataclass(frozen=True)
class ComparisonFigures:
    """What `overhead` has computed for a comparison by the time it is doubted."""

    interval: Interval | None
    bootstrap: Interval | None
    robust: Interval | None
    without_outliers: Interval | None
    curve: tuple[CurvePoint, ...]
    floor: Floor | None
    drift_alpha: float
    """Level of the tests over time, already divided by the number of comparisons."""
    totals: Interval | None = None


def doubts(d: Draft, f: ComparisonFigures) -> list[Doubt | None]:
    """Those of one comparison."""
    return [
        _outliers(d, f),
        _robust(d, f),
        _bootstrap(d, f),
        *_coarse(d),
        _systematic(d),
        *_curve(d, f),
        _floor(d, f.floor),
    ]


def _outliers(d: Draft, f: ComparisonFigures) -> Doubt | None:
    marked = pairing.flagged(d)
    if not any(marked):
        return None
    blocks = [str(p.block) for p, far in zip(d.paired.pairs, marked, strict=True) if far]
    without = (
        f" Without: {ratio_words(f.without_outliers)}." if f.without_outliers is not None else ""
    )
    return Doubt(
        code="outliers",
        message=f"{len(blocks)} of {len(marked)} pairs lie far from the others (block "
        f"{', '.join(blocks[:8])}{' …' if len(blocks) > 8 else ''}); they are kept.{without}",
        advice="Look at what else ran then: steal time, other work on the host. Where both "
        f"readings agree nothing is lost; where not, {_more(d)}: single ones then count less.",
    )


def _more(d: Draft) -> str:
    """What would tell more of what the interval counts."""
    return "make the instances more often" if d.precision == "intermediate" else "run more blocks"


def _robust(d: Draft, f: ComparisonFigures) -> Doubt | None:
    if f.interval is None or f.robust is None or not pairing.disagree(f.interval, f.robust):
        return None
    return Doubt(
        code="robust-disagrees",
        message=f"The robust estimate reads differently: {ratio_words(f.robust)}.",
        advice=f"A few blocks decide the result: look at the points, and {_more(d)}.",
    )


def _bootstrap(d: Draft, f: ComparisonFigures) -> Doubt | None:
    if f.interval is None or f.bootstrap is None or f.interval.n < pairing.BOOTSTRAP_HEARD:
        return None
    if not pairing.disagree(f.interval, f.bootstrap):
        return None
    return Doubt(
        code="bootstrap-disagrees",
        message=f"The bootstrap reads differently: {ratio_words(f.bootstrap)}.",
        advice=f"The result is near the edge of what can be said: {_more(d)}.",
    )


def _coarse(d: Draft) -> Iterator[Doubt]:
    """Steps that noise does not average out, so large that both sides' halves matter."""
    for (environment, _), steps in zip(d.sides, systematic.steps_of_sides(d), strict=True):
        step = max(steps, default=0.0)
        if step > MATTERS * d.settings.margin:
            yield coarse(
                environment.label,
                step,
                d.settings.margin,
                "More blocks do not help, for all are rounded alike; the uncertainty budget counts "
                "it. Make trials longer, so that the tool counts more, or compare a metric that it "
                "prints with more digits.",
            )


def coarse(label: str, step: float, margin: float, advice: str) -> Doubt:
    """The figures of one side are rounded, in steps of this part of their mean."""
    return Doubt(
        code="coarse",
        message=f"The figures of {label} come in steps of {share(step)} of their mean and vary "
        f"less than that (margin {share(margin)}): the ratio may be off by {share(step / 2)}, and "
        "its interval does not show it.",
        advice=advice,
    )


def _systematic(d: Draft) -> Doubt | None:
    parts = systematic.components(d)
    expanded = systematic.expanded(parts)
    if expanded <= MATTERS * d.settings.margin:
        return None
    largest = max(parts, key=lambda part: part.standard)
    return Doubt(
        code="systematic",
        message=f"No number of blocks tells this ratio better than ± {share(expanded)} (margin "
        f"{share(d.settings.margin)}); most of it: {largest.text}.",
        advice="Differences under this are not called real. Longer trials make it smaller: both "
        "clocks and steps count less in a longer time.",
    )


def _curve(d: Draft, f: ComparisonFigures) -> list[Doubt]:
    curve_doubts = []
    worse = any(p.low is not None and p.low > 1 for p in f.curve)
    better = any(p.high is not None and p.high < 1 for p in f.curve)
    if d.metric.coordinate is not None and worse and better:
        curve_doubts.append(
            Doubt(
                code="curve-mixed",
                message="Worse at some places of the curve and better at others: "
                "one number does not tell it.",
                advice="Read the curve, not its mean.",
            )
        )
    if d.paired.thin or d.paired.holes:
        curve_doubts.append(_ragged(d))
    return curve_doubts


def _ragged(d: Draft) -> Doubt:
    """Trials of a curve that lack points: which places have too few pairs, and which have some."""
    paired, advice = d.paired, "Set the values in the plan, so that every trial takes them all."
    if d.nothing_common:
        return Doubt(
            code="curve-ragged",
            message=f"No value of {d.coordinate} has enough pairs: nothing can be compared.",
            advice=f"Look at the raw outputs of trials without points. {advice}",
        )
    parts = []
    if paired.thin:
        few = ", ".join(f"{x:g}: {n}" for x, n in paired.thin[:MOST_PLACES])
        more = " …" if len(paired.thin) > MOST_PLACES else ""
        parts.append(
            f"{len(paired.thin)} of {len(paired.thin) + len(paired.coordinates)} values of "
            f"{d.coordinate} have too few pairs ({few}{more}): they are left out, and nothing is "
            "called equivalent"
        )
    if paired.holes:
        points = len(paired.pairs) * len(paired.coordinates)
        parts.append(
            f"of the others {paired.holes} of {points} points are missing"
            if paired.thin
            else f"{paired.holes} of {points} points along {d.coordinate} are missing; each value "
            "is compared over the pairs that have it"
        )
    return Doubt(
        code="curve-ragged",
        message=capital(f"{'; '.join(parts)}.{if_extreme(losses.of_draft(d))}"),
        advice=f"A point that is missing may be a slow one: look at the raw outputs. {advice}",
    )


def _floor(d: Draft, floor: Floor | None) -> Doubt | None:
    if d.environment.again_of is not None or not d.metric.primary:
        return None
    if floor is None:
        return Doubt(
            code="no-again",
            message="No A/A comparison has an interval here: the noise floor is unknown.",
            advice=NO_FIGURES
            if d.settings.again
            else "Leave the second copy of the baseline in the plan.",
        )
    if not floor.biased:
        return None
    return Doubt(
        code="again-differs",
        message="Two equal environments differ here: the apparatus may prefer one of them.",
        advice=f"Look at the A/A comparison; {_more(d)}.",
    )
