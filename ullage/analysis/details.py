"""All that is known of one comparison, line by line: what `show --details` and the report print."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.analysis.causes import causes
from ullage.analysis.comparison.estimates import Absolute, Budget, Interval, Losses
from ullage.analysis.comparison.model import Analysis, Comparison, Doubt
from ullage.analysis.comparison.rounding import quantity, share
from ullage.analysis.comparison.words import (
    COVERS,
    between,
    blocks,
    counted,
    floor_words,
    lost_between,
    makings,
    ratio_words,
)
from ullage.analysis.sentences import comparison_sentence

LEAST_SHARE = 1e-6
"""Uncertainties under a millionth are told as such."""


@dataclass(frozen=True)
class Detail:
    """One comparison for a reader who wants to know how sure it is."""

    comparison: Comparison
    sentence: str
    facts: tuple[tuple[str, str], ...]
    """Name → what is known."""

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Reasons to trust it less, with what to do."""
        return self.comparison.doubts


def details(analysis: Analysis, workload: str | None = None) -> list[Detail]:
    """Of the primary metrics, A/A comparisons last; workload: of that one alone."""
    return [
        Detail(c, comparison_sentence(analysis, c), _facts(analysis, c))
        for c in (*analysis.comparisons, *analysis.again)
        if c.primary and workload in (None, c.workload)
    ]


def _facts(analysis: Analysis, c: Comparison) -> tuple[tuple[str, str], ...]:
    facts = [
        ("rests on", _rests(analysis, c)),
        ("covers", COVERS[c.precision] if c.interval else ""),
        ("interval", f"{ratio_words(c.interval)}, {c.interval.method}" if c.interval else ""),
        ("with what was lost", _lost(c.losses)),
        ("against the second copy", ratio_words(c.other_copy) if c.other_copy else ""),
        ("memory", _memory(c)),
        *_uncertainty(c.budget, analysis.confidence),
        ("precision", _precision(analysis, c.interval)),
        ("robust variant", _variant(c.robust, disagrees=c.robust_disagrees)),
        ("bootstrap", _variant(c.bootstrap, disagrees=_doubted(c, "bootstrap-disagrees"))),
        ("without outliers", _without(c)),
        ("p-values", _p_values(c)),
        ("what changed with it", causes.described(c.causes) if c.causes else ""),
        ("noise floor", f"{floor_words(c.floor)}{_biased(c)}" if c.floor is not None else ""),
        ("mean of the baseline", _mean(c.baseline_values, c.unit)),
        ("mean of the environment", _mean(c.environment_values, c.unit)),
    ]
    return tuple((name, value) for name, value in facts if value)


def _rests(analysis: Analysis, c: Comparison) -> str:
    """How many pairs, and what became of the others."""
    text = counted(c)
    if c.dropped:
        text = f"{text}; {blocks(c.dropped)} gave no pair"
    lost = c.environment_cell.without_figures + c.baseline_cell.without_figures
    if lost:
        trials = c.environment_cell.trials + c.baseline_cell.trials
        text = f"{text}, {lost} of {trials} trials have no figures"
    if analysis.stop.widening > 1:
        text = (
            f"{text}; intervals are widened {analysis.stop.widening:.2f} times for having looked "
            "at the precision on the way"
        )
    return text


def _lost(losses: Losses | None) -> str:
    if losses is None:
        return ""
    return f"{lost_between(losses)}, from the best to the worst that it may have been"


def _uncertainty(budget: Budget | None, confidence: float) -> list[tuple[str, str]]:
    """Type A and Type B apart, then together (GUM 4.2, 4.3, 5.1)."""
    if budget is None:
        return []
    repeats = f"standard uncertainty {_percent(budget.type_a)}, from the repetitions"
    if budget.within is not None:
        repeats += f"; single pairs vary by {_percent(budget.within)} on the same instances"
    if budget.between is not None:
        repeats += f", making the instances anew adds {_percent(budget.between)}"
    parts = [f"{part.source} {_percent(part.standard)}: {part.text}" for part in budget.components]
    instruments = f"standard uncertainty {_percent(budget.type_b)}, from the instruments"
    together = Interval(
        estimate=(budget.low * budget.high) ** 0.5,
        low=budget.low,
        high=budget.high,
        confidence=confidence,
        n=1,
        method="",
    )
    return [
        ("Type A", repeats),
        ("Type B", "; ".join([instruments, *parts]) if parts else "none is known"),
        ("both together", f"{between(together)}, {share(confidence)} interval"),
    ]


def _memory(c: Comparison) -> str:
    """Said only where it was found."""
    if c.memory == 1:
        return ""
    return (
        f"neighbouring blocks of {c.environment_label} are alike: standard errors are taken "
        f"{c.memory:.2f} times as large"
    )


def _percent(log: float) -> str:
    """An uncertainty of a log-ratio, which for a small one is its share of the ratio."""
    return share(log) if log >= LEAST_SHARE or log == 0 else f"under {share(LEAST_SHARE)}"


def _precision(analysis: Analysis, interval: Interval | None) -> str:
    """Half width, relative: what the plan asked for and what was reached."""
    if interval is None:
        return ""
    reached = f"± {share(interval.relative_half_width)} reached"
    target = analysis.stop.target_half_width
    return reached if target is None else f"± {share(target)} asked for, {reached}"


def _variant(interval: Interval | None, *, disagrees: bool) -> str:
    if interval is None:
        return ""
    verb = "disagrees" if disagrees else "agrees"
    return f"{ratio_words(interval)}, {verb}; {interval.method}"


def _doubted(c: Comparison, code: str) -> bool:
    return any(doubt.code == code for doubt in c.doubts)


def _without(c: Comparison) -> str:
    out = sum(point.outlier for point in c.points)
    if not out:
        return ""
    interval = ratio_words(c.without_outliers) if c.without_outliers else "no interval"
    return f"{interval}, {out} of {c.pairs} pairs left out; all other figures keep them"


def _p_values(c: Comparison) -> str:
    if c.p_difference is None or c.p_equivalence is None:
        return ""
    text = f"difference {_p(c.p_difference)}, equivalence {_p(c.p_equivalence)}"
    if c.p_difference_adjusted is None or c.p_equivalence_adjusted is None:
        return text
    corrected = f"{_p(c.p_difference_adjusted)} and {_p(c.p_equivalence_adjusted)}"
    return f"{text}; corrected for the family {corrected}"


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def _biased(c: Comparison) -> str:
    return ", and the equal environments themselves differ" if c.floor_biased else ""


def _mean(values: Absolute | None, unit: str) -> str:
    """With the kind of mean that the figure asks for: harmonic for rates."""
    if values is None:
        return ""
    return f"{quantity(values.mean, unit)}, {values.mean_kind}, of {values.n} trials"


def run_facts(analysis: Analysis) -> list[tuple[str, str]]:
    """How the run was laid out, for whoever wants to judge it."""
    designs = {
        "solo": "trials one after another, all environments of a workload back to back",
        "duet": "pairs of trials side by side, each on half of the CPUs: they load each other",
    }
    times = makings(analysis.generations)
    anew = f", anew after every {blocks(analysis.blocks_each)}" if analysis.blocks_each else ""
    mean = ""
    if analysis.iterations > 1:
        mean = f"; each figure is the mean of {analysis.iterations} iterations within its trial"
    return [("design", designs[analysis.design]), ("levels", f"{times}{anew}{mean}")]
