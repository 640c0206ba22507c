"""Doubts about a comparison of a table, each with what to do about it.

The codes are those of a run; the advice is for somebody whose measurements are already made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ullage.analysis.comparison.estimates import Losses
from ullage.analysis.comparison.losses import between
from ullage.analysis.comparison.model import Cell, Doubt
from ullage.analysis.comparison.pairing import BOOTSTRAP_HEARD, disagree
from ullage.analysis.comparison.rounding import share
from ullage.analysis.comparison.words import if_extreme, ratio_words
from ullage.analysis.doubts.readings import MATTERS, coarse
from ullage.analysis.doubts.totals import doubt as doubt_of_totals
from ullage.analysis.tables.evidence import Evidence
from ullage.analysis.tables.pairs import BlockCounts
from ullage.stats import LEAST_PAIRS
from ullage.stats.uncertainty import Floor
from ullage.stats.verdict import MOST_FAILURES

CLEAR = 0.1
"""Rank correlations under this explain less than 1 % of the spread: no doubt, however many rows."""
MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class ComparisonFacts:
    """What is known of a comparison beside its evidence."""

    environment_label: str
    baseline_label: str
    emulated: bool
    again: bool
    environment_cell: Cell
    baseline_cell: Cell
    floor: Floor | None
    again_lost: bool
    """There is a second copy of a side, and it has no figures of this."""
    alpha: float
    """Level of the tests for drift and dependence, already divided by their number."""
    block_name: Callable[[int], str]
    margin: float

    @property
    def sides(self) -> tuple[tuple[str, Cell], ...]:
        """Label and cell of the environment and of the baseline."""
        return (
            (self.environment_label, self.environment_cell),
            (self.baseline_label, self.baseline_cell),
        )


def no_verdict(e: Evidence, f: ComparisonFacts) -> str | None:
    """Why there can be no verdict, or None."""
    for label, cell in f.sides:
        if cell.failure_rate > MOST_FAILURES:
            return f"too many missing figures: {cell.failed:,} of {cell.trials:,} in {label}"
    if e.no_verdict is None and e.counts is not None and _many_alone(e.counts):
        return (
            f"{e.counts.alone:,} of {e.counts.blocks:,} blocks have rows of one side only, and a "
            "block number must mean the same block on both sides"
        )
    return e.no_verdict


def _many_alone(counts: BlockCounts) -> bool:
    """The limit that a run has for pairs without the metric."""
    return counts.alone > MOST_FAILURES * counts.blocks


def of_comparison(e: Evidence, f: ComparisonFacts) -> tuple[Doubt, ...]:
    """All doubts about one comparison."""
    doubts = (
        _emulated(f),
        _failures(e, f),
        _alone(e, f),
        _mixed(e),
        _unbounded(e),
        _no_ratio(e),
        _too_few(e),
        _no_spread(e),
        *_coarse(e, f),
        _crossed(e),
        _drift(e, f),
        _autocorrelated(e, f),
        _outliers(e, f),
        _robust(e),
        _bootstrap(e),
        doubt_of_totals(e.interval, e.totals, f.margin, lost=e.filled is not None),
        _floor(f),
    )
    return tuple(doubt for doubt in doubts if doubt is not None)


def _emulated(f: ComparisonFacts) -> Doubt | None:
    if not f.emulated:
        return None
    return Doubt(
        code="emulated",
        message=f"{f.environment_label}: every instruction is emulated; a user of a hardware "
        "hypervisor gets other figures.",
        advice="Measure on a host with a working KVM.",
    )


def lost(e: Evidence, f: ComparisonFacts) -> Losses | None:
    """The interval with what is missing at its best and at its worst; None: nothing is."""
    if e.filled is None:
        return None
    if e.counts is not None:
        number = e.counts.failed + e.counts.alone
    else:
        number = sum(cell.failed for _, cell in f.sides)
    return between(number, *(end.interval for end in e.filled))


def _failures(e: Evidence, f: ComparisonFacts) -> Doubt | None:
    failed = f.environment_cell.failed + f.baseline_cell.failed
    rows = f.environment_cell.trials + f.baseline_cell.trials
    if not failed:
        return None
    many = any(cell.failure_rate > MOST_FAILURES for cell in (f.environment_cell, f.baseline_cell))
    return Doubt(
        code="too-many-failures" if many else "some-failures",
        message=f"{failed:,} of {rows:,} rows hold no figure; "
        + ("what is left may not be typical." if many else "they are left out.")
        + if_extreme(lost(e, f)),
        advice="Find out why they failed: a failed measurement is often a slow one.",
    )


def _alone(e: Evidence, f: ComparisonFacts) -> Doubt | None:
    if e.counts is None or not e.counts.alone:
        return None
    advice = "Look at what became of the others: a comparison of the survivors may flatter."
    if _many_alone(e.counts):
        advice += (
            " Or the numbers do not match: give what was measured together the same `block` on "
            "both sides, and where the numbers begin anew in each generation the same `generation`"
            " too; without common blocks leave the column out."
        )
    return Doubt(
        code="metric-missing",
        message=f"{e.counts.alone:,} of {e.counts.blocks:,} blocks have rows of one side only; "
        f"they are left out.{if_extreme(lost(e, f))}",
        advice=advice,
    )


def _mixed(e: Evidence) -> Doubt | None:
    if not e.mixed:
        return None
    return Doubt(
        code="few-generations",
        message="Rows of one generation are alike: taken as independent they make the interval of "
        "a quantile too short.",
        advice="Make a table with the quantile of each generation as its `value`, a row for each, "
        "and compare that one without `--quantile`.",
    )


def _unbounded(e: Evidence) -> Doubt | None:
    if e.no_verdict is None or not e.unbounded:
        return None
    return Doubt(
        code="too-few-blocks",
        message=f"{e.no_verdict}, on each side.",
        advice="Measure more values, or ask for a quantile nearer to the median.",
    )


def _no_ratio(e: Evidence) -> Doubt | None:
    if e.no_verdict is None or not e.no_ratio:
        return None
    return Doubt(
        code="no-ratio",
        message=f"{e.no_verdict[0].upper()}{e.no_verdict[1:]}, which have no ratio; a ratio of the "
        "others would be that of a selection.",
        advice="Compare the absolute values"
        + (
            "; without blocks, `--method fieller` compares arithmetic means, in which a cost of "
            "zero may stand."
            if e.fieller
            else "."
        ),
    )


def _too_few(e: Evidence) -> Doubt | None:
    n = e.moments.n if e.moments is not None and e.counts is None else e.units
    if n >= LEAST_PAIRS or e.no_verdict is not None:
        return None
    if e.counts is not None and _many_alone(e.counts):
        return None  # more blocks that do not match do not help
    if e.generations > 1:
        return Doubt(
            code="few-generations",
            message=f"{n} generations are independent of each other; a verdict needs at least "
            f"{LEAST_PAIRS}.",
            advice="Make more instances; more blocks on these ones do not help.",
        )
    unit = "pair" if e.counts is not None else "independent value"
    return Doubt(
        code="too-few-blocks",
        message=f"{n} {unit}{'' if n == 1 else 's'}; a verdict needs at least {LEAST_PAIRS}.",
        advice=f"Measure more {'blocks' if e.counts is not None else 'values of each side'}.",
    )


def _no_spread(e: Evidence) -> Doubt | None:
    if e.moments is None or e.moments.deviation > 0:
        return None
    return Doubt(
        code="no-spread",
        message=f"All {e.units:,} values are the same: they are exact, or too coarse.",
        advice="Check the resolution of the tool that measured, and how the table was rounded.",
    )


def _coarse(e: Evidence, f: ComparisonFacts) -> Iterator[Doubt]:
    for (label, _), step in zip(f.sides, (e.steps.environment, e.steps.baseline), strict=True):
        if step > MATTERS * f.margin:
            yield coarse(
                label,
                step,
                f.margin,
                "More rows do not help, for all are rounded alike, and no difference as small is "
                "called one. Take more digits from the tool, or measure for longer.",
            )


def _crossed(e: Evidence) -> Doubt | None:
    if e.counts is None or not e.counts.crossed:
        return None
    return Doubt(
        code="few-generations",
        message="Every generation shares a block with another one, so that they cannot be told "
        "apart: the interval is about these instances only.",
        advice="Name in `generation` what both sides of a block have in common.",
    )


def _drift(e: Evidence, f: ComparisonFacts) -> Doubt | None:
    trend = e.drift
    if trend is None or trend.p_value > f.alpha or abs(trend.correlation) < CLEAR:
        return None
    way = "rises" if trend.correlation > 0 else "falls"
    return Doubt(
        code="drift",
        message=f"The ratio {way} from block to block (rank correlation "
        f"{trend.correlation:+.2f}): it is not one number.",
        advice="Look at the ratios over time; were the environments interleaved?",
    )


def _autocorrelated(e: Evidence, f: ComparisonFacts) -> Doubt | None:
    neighbours = e.autocorrelation
    if neighbours is None or neighbours.p_value > f.alpha or neighbours.rho < CLEAR:
        return None
    several = e.generations > 1
    return Doubt(
        code="autocorrelated",
        message=f"Neighbouring {'generations' if several else 'blocks'} are alike (correlation "
        f"{neighbours.rho:.2f}): {neighbours.n:,} of them are worth about "
        f"{neighbours.effective:,.0f}.",
        advice="Measure in more sessions, further apart"
        + ("." if several else ", and name the session in `generation`."),
    )


def _outliers(e: Evidence, f: ComparisonFacts) -> Doubt | None:
    if e.outliers is None or e.outliers.size == 0 or e.counts is None:
        return None
    names = ", ".join(f.block_name(int(code)) for code in e.outliers[:MOST_LISTED])
    more = " …" if e.outliers.size > MOST_LISTED else ""
    without = f" Without: {ratio_words(e.without_outliers)}." if e.without_outliers else ""
    return Doubt(
        code="outliers",
        message=f"{e.outliers.size:,} of {e.counts.pairs:,} pairs lie far from the "
        f"others (block {names}{more}); they are kept.{without}",
        advice="Look at what else ran then.",
    )


def _robust(e: Evidence) -> Doubt | None:
    if e.robust is None or not disagree(e.interval, e.robust):
        return None
    return Doubt(
        code="robust-disagrees",
        message=f"The robust estimate reads differently: {ratio_words(e.robust)}.",
        advice="A few blocks decide the result: look at them, and measure more.",
    )


def _bootstrap(e: Evidence) -> Doubt | None:
    if e.bootstrap is None or e.units < BOOTSTRAP_HEARD or not disagree(e.interval, e.bootstrap):
        return None
    return Doubt(
        code="bootstrap-disagrees",
        message=f"The bootstrap reads differently: {ratio_words(e.bootstrap)}.",
        advice="The result is near the edge of what can be said: measure more blocks.",
    )


def _floor(f: ComparisonFacts) -> Doubt | None:
    if f.again_lost and not f.again:
        return Doubt(
            code="no-again",
            message="No A/A comparison has an interval here: the noise floor is unknown.",
            advice="Find out what became of the second copy's figures.",
        )
    if f.again or f.floor is None or not f.floor.biased:
        return None
    return Doubt(
        code="again-differs",
        message="Two equal environments differ here: the apparatus may prefer one of them.",
        advice=f"Look at the A/A comparison; differences up to {share(f.floor.ratio - 1)} may come "
        "from it.",
    )
