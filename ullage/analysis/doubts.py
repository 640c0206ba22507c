"""Doubts: typed warnings, each with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ullage.analysis import compare
from ullage.analysis.compare import Draft
from ullage.analysis.model import Cell, Comparison, CurvePoint, Doubt, Interval
from ullage.analysis.rounding import ratio, share
from ullage.folder import RunFolder
from ullage.pairs import Series
from ullage.runs import HOST_SHARED
from ullage.stats.drift import drift
from ullage.stats.floor import Floor
from ullage.stats.verdict import LEAST_PAIRS

MOST_FAILURES = 0.1
"""Share of failed trials in a cell above which there is no verdict."""
STEAL = 0.01
"""Share of CPU time that the hypervisor took, above which we say so."""
SPLIT = 10.0
"""A pair is split when its trials are so many times further apart than usual."""


@dataclass(frozen=True)
class Figures:
    """What `overhead` has computed for a comparison by the time it is doubted."""

    interval: Interval | None
    bootstrap: Interval | None
    robust: Interval | None
    without_outliers: Interval | None
    curve: tuple[CurvePoint, ...]
    floor: Floor | None
    drift_alpha: float
    """Level of the drift test, already divided by the number of comparisons."""


def of_comparison(d: Draft, f: Figures) -> tuple[Doubt, ...]:
    """All doubts about one comparison."""
    found = [
        _emulated(d),
        *_unequal(d),
        _failures(d),
        _missing(d),
        _no_ratio(d),
        _too_few(d),
        _no_spread(d),
        _drift(d, f.drift_alpha),
        _outliers(d, f),
        _robust(f),
        _bootstrap(f),
        _split(d),
        _steal(d),
        *_curve(d, f),
        _floor(d, f.floor),
    ]
    return tuple(doubt for doubt in found if doubt is not None)


def no_verdict(d: Draft) -> str | None:
    """Why there can be no verdict, `too many failures: 3 of 14 in container (crun)`, or None."""
    for label, cell in (
        (d.environment.label, d.environment_cell),
        (d.baseline.label, d.baseline_cell),
    ):
        if _failure_rate(cell) > MOST_FAILURES:
            return f"too many failures: {cell.without_figures} of {cell.trials} in {label}"
    paired = d.paired
    if paired.no_ratio:
        return f"zero or negative figures in {paired.no_ratio} of {paired.blocks} pairs"
    if paired.missing and paired.missing / paired.blocks > MOST_FAILURES:
        return f"{d.metric.name} is missing in {paired.missing} of {paired.blocks} pairs"
    return None


def _failure_rate(cell: Cell) -> float:
    return cell.without_figures / cell.trials if cell.trials else 0.0


def _emulated(d: Draft) -> Doubt | None:
    if not d.environment.emulated:
        return None
    return Doubt(
        code="emulated",
        message=f"{d.environment.label}: every instruction is emulated; a user of a hardware "
        "hypervisor gets other figures.",
        advice="Run the plan on a host where `ullage doctor` finds a working KVM.",
    )


def _unequal(d: Draft) -> list[Doubt]:
    return [
        Doubt(
            code="nuisance-unequal",
            message=f"{d.environment.label} and {d.baseline.label} differ in {nuisance}; "
            "the plan allows it.",
            advice=f"Make {nuisance} equal to compare the environments alone.",
        )
        for nuisance in d.unequal
    ]


def _failures(d: Draft) -> Doubt | None:
    lost = d.environment_cell.without_figures + d.baseline_cell.without_figures
    if not lost:
        return None
    why = no_verdict(d)
    if why and max(map(_failure_rate, (d.environment_cell, d.baseline_cell))) > MOST_FAILURES:
        return Doubt(
            code="too-many-failures",
            message=f"No verdict, {why}: what is left may not be typical.",
            advice="Read the reasons of the failed trials, mend the cause, and run again.",
        )
    trials = d.environment_cell.trials + d.baseline_cell.trials
    return Doubt(
        code="some-failures",
        message=f"{lost} of {trials} trials gave no figures; their pairs are left out.",
        advice="Read the reasons of the failed trials.",
    )


def _missing(d: Draft) -> Doubt | None:
    if not d.paired.missing:
        return None
    return Doubt(
        code="metric-missing",
        message=f"{d.metric.name} is missing in {_pairs(d.paired.missing)}.",
        advice="Look at the raw outputs of these trials.",
    )


def _no_ratio(d: Draft) -> Doubt | None:
    if not d.paired.no_ratio:
        return None
    return Doubt(
        code="no-ratio",
        message=f"{d.paired.no_ratio} of {d.paired.blocks} pairs hold a zero or a negative "
        "figure, which has no ratio; a ratio of the others would be that of a selection.",
        advice="Compare the absolute values; a longer trial may count more than nothing.",
    )


def _too_few(d: Draft) -> Doubt | None:
    n = len(d.paired.pairs)
    if n >= LEAST_PAIRS or d.paired.no_ratio:
        return None
    return Doubt(
        code="too-few-blocks",
        message=f"{_pairs(n)}; a verdict needs at least {LEAST_PAIRS}.",
        advice="Set `blocks: min:` higher or give a larger budget.",
    )


def _no_spread(d: Draft) -> Doubt | None:
    m = d.moments
    if m is None or m.deviation > 0:
        return None
    return Doubt(
        code="no-spread",
        message=f"All {m.n} pairs have the same ratio: the figures are exact, or too coarse.",
        advice="Check the resolution of the tool; a longer trial makes the figures finer.",
    )


def _drift(d: Draft, alpha: float) -> Doubt | None:
    pairs = d.paired.pairs
    if len(pairs) < LEAST_PAIRS:
        return None
    found = drift([p.environment.epoch_ns for p in pairs], d.log_ratios)
    if found.p_value > alpha:
        return None
    way = "rises" if found.correlation > 0 else "falls"
    return Doubt(
        code="drift",
        message=f"The ratio {way} during the run (rank correlation with time "
        f"{found.correlation:+.2f}): it is not one number.",
        advice="Let the machine warm up or cool down first, and look at the points over time.",
    )


def _outliers(d: Draft, f: Figures) -> Doubt | None:
    marked = compare.flagged(d)
    if not any(marked):
        return None
    blocks = [str(p.block) for p, far in zip(d.paired.pairs, marked, strict=True) if far]
    without = ""
    if f.without_outliers is not None:
        middle, low, high = ratio(f.without_outliers)
        without = f" Without: {middle} ({low} to {high})."
    return Doubt(
        code="outliers",
        message=f"{len(blocks)} of {len(marked)} pairs lie far from the others (block "
        f"{', '.join(blocks[:8])}{' …' if len(blocks) > 8 else ''}); they are kept.{without}",
        advice="Look at what else ran then: steal time, other work on the host.",
    )


def _robust(f: Figures) -> Doubt | None:
    if f.interval is None or f.robust is None or not compare.disagree(f.interval, f.robust):
        return None
    middle, low, high = ratio(f.robust)
    return Doubt(
        code="robust-disagrees",
        message=f"The robust estimate reads differently: {middle} ({low} to {high}).",
        advice="A few blocks decide the result: look at the points, and run more blocks.",
    )


def _bootstrap(f: Figures) -> Doubt | None:
    """Only from ten blocks on: under that the bootstrap's interval is known to be too short."""
    if f.interval is None or f.bootstrap is None or f.interval.n < 10:
        return None
    if not compare.disagree(f.interval, f.bootstrap):
        return None
    middle, low, high = ratio(f.bootstrap)
    return Doubt(
        code="bootstrap-disagrees",
        message=f"The bootstrap reads differently: {middle} ({low} to {high}).",
        advice="The result is near the edge of what can be said: run more blocks.",
    )


def _split(d: Draft) -> Doubt | None:
    usual = compare.median_gap_s(d.paired.pairs)
    if usual is None:
        return None
    split = [p for p in d.paired.pairs if compare.gap_s(p) > SPLIT * usual]
    if not split:
        return None
    worst = max(compare.gap_s(p) for p in split)
    return Doubt(
        code="pair-split",
        message=f"{_pairs(len(split))} split: trials up to {worst:,.0f} s apart, "
        f"usually {usual:.1f} s (a run taken up again?).",
        advice="The machine may have changed in between; more blocks make these count less.",
    )


def _steal(d: Draft) -> Doubt | None:
    mine, theirs = _mean_steal(d.environment_series), _mean_steal(d.baseline_series)
    if mine is None or theirs is None or abs(mine - theirs) <= STEAL:
        return None
    return Doubt(
        code="steal",
        message=f"The hypervisor under this host took {share(mine)} of the CPU time while "
        f"{d.environment.label} ran, and {share(theirs)} while {d.baseline.label} ran.",
        advice="Use a host of your own, or a quieter hour.",
    )


def _mean_steal(series: Series) -> float | None:
    found = [t.host["steal"] for t in series.values() if "steal" in t.host]
    return float(np.mean(found)) if found else None


def _curve(d: Draft, f: Figures) -> list[Doubt]:
    found = []
    worse = any(p.low is not None and p.low > 1 for p in f.curve)
    better = any(p.high is not None and p.high < 1 for p in f.curve)
    if d.metric.coordinate is not None and worse and better:
        found.append(
            Doubt(
                code="curve-mixed",
                message="Worse at some places of the curve and better at others: "
                "one number does not tell it.",
                advice="Read the curve, not its mean.",
            )
        )
    if d.paired.ragged:
        found.append(
            Doubt(
                code="curve-ragged",
                message=f"Not all trials have the same values of {_name(d)}; "
                f"{len(d.paired.coordinates)} that all have are compared.",
                advice="Set the values in the plan, so that every trial takes them all.",
            )
        )
    return found


def _name(d: Draft) -> str:
    return d.metric.coordinate.name if d.metric.coordinate else "the coordinate"


def _floor(d: Draft, floor: Floor | None) -> Doubt | None:
    if d.environment.again_of is not None or not d.metric.primary:
        return None
    if floor is None:
        return Doubt(
            code="no-again",
            message="No A/A comparison has an interval here: the noise floor is unknown.",
            advice="Leave the A/A pair in the plan; run more blocks.",
        )
    if not floor.biased:
        return None
    return Doubt(
        code="again-differs",
        message="Two equal environments differ here: the apparatus may prefer one of them.",
        advice="Look at the A/A comparison; run more blocks.",
    )


def _pairs(number: int) -> str:
    return "1 pair" if number == 1 else f"{number:,} pairs"


def of_run(folder: RunFolder, again: Sequence[Comparison]) -> tuple[Doubt, ...]:
    """Doubts about the run as a whole."""
    found = []
    if folder.finished is None:
        found.append(
            Doubt(
                code="not-finished",
                message="The run has not ended in order; what it has is shown.",
                advice=f"Take it up: `ullage run --resume {folder.path.name}`.",
            )
        )
    if not any(c.interval for c in again):
        found.append(
            Doubt(
                code="no-again",
                message="There is no A/A comparison: the noise floor is unknown.",
                advice="Leave the second copy of the baseline in the plan.",
            )
        )
    if any(warned.code == HOST_SHARED for warned in folder.warnings):
        found.append(
            Doubt(
                code=HOST_SHARED,
                message="Another run worked on this host at the same time.",
                advice="Run it again, one at a time.",
            )
        )
    steal = [t.host["steal"] for t in folder.trials if "steal" in t.host]
    if steal and float(np.mean(steal)) > STEAL:
        found.append(
            Doubt(
                code="steal",
                message=f"The hypervisor under this host took {share(float(np.mean(steal)))} of "
                "the CPU time during the trials.",
                advice="Use a host of your own, or a quieter hour.",
            )
        )
    return (*found, *_again_differs(again))


def _again_differs(again: Sequence[Comparison]) -> list[Doubt]:
    primary = [c for c in again if c.primary and c.interval is not None]
    differing = [c for c in primary if c.interval and compare.excludes_one(c.interval)]
    found = []
    for c in differing:
        assert c.interval is not None
        middle, low, high = ratio(c.interval)
        chance = share(1 - c.interval.confidence)
        found.append(
            Doubt(
                code="again-differs",
                message=f"{c.baseline_label} differs from its own second copy in "
                f"{c.workload_title}: {middle} ({low} to {high}); {len(differing)} of "
                f"{len(primary)} A/A intervals do, {chance} of them are expected to by chance.",
                advice="If it comes back in another run, something prefers one copy: "
                "its CPU, its place on the disk, its place in the block.",
            )
        )
    return found
