"""Doubts about what the trials gave: figures that are missing, too few, or not alike."""

from __future__ import annotations

from ullage.analysis.comparison import losses, pairing, systems
from ullage.analysis.comparison.model import Doubt
from ullage.analysis.comparison.pairing import Draft
from ullage.analysis.comparison.words import if_extreme, pairs
from ullage.stats import LEAST_PAIRS

SPLIT = 10.0
"""A pair is split when its trials are so many times further apart than usual …"""
SPLIT_LEAST_S = 1.0
"""… and by so much: the two of a duet begin within microseconds of each other."""


def doubts(d: Draft) -> list[Doubt | None]:
    """Those of one comparison."""
    return [
        _emulated(d),
        *_unequal(d),
        _failures(d),
        _missing(d),
        _alone(d),
        _no_ratio(d),
        _too_few(d),
        _few_generations(d),
        _no_spread(d),
        _split(d),
    ]


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
            advice=f"Make {systems.plain(nuisance)} equal to compare the environments alone.",
        )
        for nuisance in d.unequal
    ]


def _failures(d: Draft) -> Doubt | None:
    lost = d.environment_cell.without_figures + d.baseline_cell.without_figures
    if not lost:
        return None
    if d.fails_often:
        return Doubt(
            code="too-many-failures",
            message=f"No verdict, {d.no_verdict}: what is left may not be typical.",
            advice="Read the reasons of the failed trials, mend the cause, and run again.",
        )
    trials = d.environment_cell.trials + d.baseline_cell.trials
    return Doubt(
        code="some-failures",
        message=f"{lost} of {trials} trials gave no figures; their pairs are left out."
        f"{if_extreme(losses.of_draft(d))}",
        advice="Read the reasons of the failed trials.",
    )


def _missing(d: Draft) -> Doubt | None:
    if not d.paired.missing or d.nothing_common:
        return None
    return Doubt(
        code="metric-missing",
        message=f"{d.metric.name} is missing in {pairs(d.paired.missing)}."
        f"{if_extreme(losses.of_draft(d))}",
        advice="Look at the raw outputs of these trials.",
    )


def _alone(d: Draft) -> Doubt | None:
    """Trials that are not there at all."""
    if not (alone := losses.alone(d)):
        return None
    every = d.environment_series.keys() | d.baseline_series.keys()
    return Doubt(
        code="metric-missing",
        message=f"{len(alone)} of {len(every)} blocks have a trial of one side only; they are "
        f"left out.{if_extreme(losses.of_draft(d))}",
        advice="Find out what became of the others: a comparison of the survivors may flatter.",
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
    if n >= LEAST_PAIRS or d.paired.no_ratio or d.nothing_common:
        return None
    message = f"{pairs(n)}; a verdict needs at least {LEAST_PAIRS}."
    if d.paired.blocks >= LEAST_PAIRS:
        return Doubt(
            code="too-few-blocks",
            message=message,
            advice=f"{d.paired.blocks} blocks were run, and {d.paired.dropped} of them gave no "
            "pair: find out why first, or more blocks will be lost alike.",
        )
    return Doubt(
        code="too-few-blocks",
        message=message,
        advice="Set `blocks: min:` higher or give a larger budget; the blocks that are there keep "
        "their worth when the run is taken up again with a larger `max`.",
    )


def _few_generations(d: Draft) -> Doubt | None:
    """With at least six pairs: under these `too-few-blocks` says enough."""
    makings = len(set(d.generations))
    if not 2 <= makings < LEAST_PAIRS or len(d.paired.pairs) < LEAST_PAIRS:
        return None
    fewer = "" if d.settings.blocks_each == 1 else "fewer blocks under `repeat: instances:`, or "
    return Doubt(
        code="few-generations",
        message=f"The instances were made {makings} times, and the interval counts these, not the "
        f"{pairs(len(d.paired.pairs))}; a verdict needs at least {LEAST_PAIRS}.",
        advice="The interval is honest, and wide. More makings narrow it, more blocks of each do "
        f"not: write {fewer}a larger `blocks: max:`.",
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


def _split(d: Draft) -> Doubt | None:
    usual = pairing.median_gap_s(d.paired.pairs)
    if usual is None:
        return None
    split = [p for p in d.paired.pairs if pairing.gap_s(p) > max(SPLIT * usual, SPLIT_LEAST_S)]
    if not split:
        return None
    worst = max(pairing.gap_s(p) for p in split)
    return Doubt(
        code="pair-split",
        message=f"{pairs(len(split))} split: trials up to {worst:,.0f} s apart, "
        f"usually {usual:.1f} s (a run taken up again?).",
        advice="The machine may have changed in between; more blocks make these count less.",
    )
