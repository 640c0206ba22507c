"""The answer of a table: every environment in it against the baseline, as of a run.

The same effect, intervals, corrections, verdicts and words; `ullage.analysis.tables.table` reads
the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from ullage.analysis.comparison import losses
from ullage.analysis.comparison.estimates import Absolute, Interval
from ullage.analysis.comparison.model import Analysis, Cell, Comparison, Doubt, Stop
from ullage.analysis.comparison.pairing import disagree, excludes_one
from ullage.analysis.tables import contrasts as tablecontrasts
from ullage.analysis.tables import doubts, evidence
from ullage.analysis.tables.contrasts import TableContrast
from ullage.analysis.tables.evidence import Evidence
from ullage.analysis.tables.figures import si
from ullage.analysis.tables.file import quoted
from ullage.analysis.tables.request import Criteria, IntervalMethod, TableRequest
from ullage.analysis.tables.table import Rows, Sheet
from ullage.analysis.tables.workers import RunCalls, go_over
from ullage.common.errors import TABLE_NO_ROWS, UllageError
from ullage.common.text import clean
from ullage.stats.interval import IntervalEstimate
from ullage.stats.memory import Courses
from ullage.stats.multiple import adjust
from ullage.stats.uncertainty import Floor, noise_floor
from ullage.stats.unseen import SlowTrials, together
from ullage.stats.verdict import Against, FamilyMember, Judgement, judge

ALPHA: Final = 0.05
"""Of the tests for drift and for dependence between blocks, over the whole table."""


@dataclass(frozen=True)
class Answer:
    """The analysis of a table, and what was done to its rows on the way."""

    analysis: Analysis
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Source:
    """What all comparisons are made from."""

    sheet: Sheet
    request: TableRequest
    absolutes: Mapping[tuple[str, int], Absolute | None]
    cells: Mapping[tuple[str, int], Cell]
    titles: Sequence[str]
    """Of the figures."""
    alpha: float
    memory: Mapping[str, float]
    """Environment → factor on standard errors for what it keeps from block to block."""


def analyse(sheet: Sheet, request: TableRequest) -> Answer:
    """Compare everything in a table with its baseline.

    TABLE_NO_ENVIRONMENT for a baseline or a second copy that the table does not hold, TABLE_NO_ROWS
    where it has no pair of environments. Metrics of which the table does not say otherwise are
    primary: one family.
    """
    baseline = sheet.has(request.baseline)
    again = {
        sheet.has(name): sheet.has(of) for name, of in {**sheet.again, **request.again}.items()
    }
    if baseline in again:  # two equal environments are so whichever is named first
        again[again.pop(baseline)] = baseline
    contrasts = list(tablecontrasts.contrasts(sheet, baseline, again))
    if not contrasts:
        lacking = f"no measurement of {quoted(baseline)} beside one of another environment"
        raise UllageError(TABLE_NO_ROWS, file=sheet.file, what=lacking)
    cells = list(
        dict.fromkeys((name, c.at) for c in contrasts for name in (c.environment, c.baseline))
    )
    absolutes, evidences = go_over(
        sheet.rows,
        [partial(_absolute, sheet, *cell, request.criteria) for cell in cells],
        [partial(_evidence, sheet, c, request.criteria) for c in contrasts],
    )
    pairs, factors = _remembering(request.criteria, list(zip(contrasts, evidences, strict=True)))
    nulls = [(c, e) for c, e in pairs if c.again]
    drafts = [(c, e) for c, e in pairs if not c.again]
    alpha = ALPHA / max(1, len(drafts))
    source = _Source(
        sheet=sheet,
        request=request,
        absolutes=dict(zip(cells, absolutes, strict=True)),
        cells={(name, at): _cell(sheet, name, at) for name, at in cells},
        titles=tablecontrasts.titles(sheet),
        alpha=alpha,
        memory=factors,
    )
    apart = _apart(nulls, request)
    floors = [_floor(c, nulls, apart) for c, _ in drafts]
    judged = _judge(source, drafts, nulls)
    comparisons = tuple(
        _comparison(source, c, e, floor, judgement)
        for (c, e), floor, judgement in zip(drafts, floors, judged, strict=True)
    )
    again_made = tuple(_comparison(source, c, e, None, None) for c, e in nulls)
    analysis = _whole(source, comparisons, again_made)
    return Answer(analysis, (*sheet.notes, *_notes(sheet, request, pairs)))


def _evidence(sheet: Sheet, c: TableContrast, criteria: Criteria, run: RunCalls) -> Evidence:
    mine, theirs = sheet.cell(c.environment, c.at), sheet.cell(c.baseline, c.at)
    if criteria.quantile is not None:
        return evidence.of_quantile(mine, theirs, c.figure, criteria)
    if mine.block is None:
        return evidence.independent(mine, theirs, c.figure, criteria)
    return evidence.paired(mine, theirs, c.figure, criteria, run)


def _absolute(sheet: Sheet, name: str, at: int, criteria: Criteria) -> Absolute | None:
    figure = sheet.figures[at]
    factor = si(figure.unit)[1]
    return evidence.absolute(sheet.cell(name, at), figure, criteria.confidence, factor)


def _remembering(
    criteria: Criteria, pairs: Sequence[tuple[TableContrast, Evidence]]
) -> tuple[list[tuple[TableContrast, Evidence]], Mapping[str, float]]:
    """With the memory of each environment, from its primary comparisons together; the factors."""
    courses = Courses()
    for c, e in pairs:
        if c.figure.primary:
            courses.add(c.environment, c.figure.workload, e.course)
    factors = courses.factors()
    return [
        (c, evidence.remembering(e, factors.get(c.environment, 1.0), criteria)) for c, e in pairs
    ], factors


def _apart(
    nulls: Sequence[tuple[TableContrast, Evidence]], request: TableRequest
) -> list[TableContrast]:
    """A/A comparisons that differ by more than chance lets one of so many differ."""
    primary = [(c, e.p) for c, e in nulls if c.figure.primary and e.p is not None]
    adjusted = adjust([p.difference for _, p in primary], request.correction)
    alpha = 1 - request.criteria.confidence
    return [c for (c, _), p in zip(primary, adjusted, strict=True) if p <= alpha]


def _floor(
    c: TableContrast,
    nulls: Sequence[tuple[TableContrast, Evidence]],
    apart: Sequence[TableContrast],
) -> Floor | None:
    """Noise floor of a comparison, as of a run; infinite where its A/A tells nothing."""
    of_sides = [e for null, e in nulls if _of_sides(null, c)]
    floor = noise_floor(_bare(e.interval) for e in of_sides if e.interval)
    if floor is not None:
        floor = replace(floor, biased=any(_of_sides(null, c) for null in apart))
    return _LOST if floor is None and _again(c, nulls) else floor


_LOST: Final = Floor(math.inf, biased=False)


def _again(c: TableContrast, nulls: Sequence[tuple[TableContrast, Evidence]]) -> bool:
    """Is there a second copy of the baseline anywhere in the table?"""
    return any(null.baseline == c.baseline for null, _ in nulls)


def _of_sides(null: TableContrast, c: TableContrast) -> bool:
    """Is it a second copy of a side of this comparison, in the same figure?"""
    return null.at == c.at and null.baseline in (c.baseline, c.environment)


def _copies(
    source: _Source, c: TableContrast, nulls: Sequence[tuple[TableContrast, Evidence]]
) -> tuple[Against, ...]:
    """The same comparison with the second copy of a side in the place of the first."""
    copies = []
    for null, _ in nulls:
        if not _of_sides(null, c):
            continue
        swaps_baseline = null.baseline == c.baseline
        mine = source.sheet.cell(c.environment if swaps_baseline else null.environment, c.at)
        theirs = source.sheet.cell(null.environment if swaps_baseline else c.baseline, c.at)
        factor = source.memory.get(c.environment, 1.0)
        copies.append(
            evidence.against_copy(mine, theirs, c.figure, source.request.criteria, factor)
        )
    return tuple(copy for copy in copies if copy is not None)


def _bare(i: Interval) -> IntervalEstimate:
    return IntervalEstimate(i.estimate, i.low, i.high, i.confidence, i.n, i.method)


def _judge(
    source: _Source,
    drafts: Sequence[tuple[TableContrast, Evidence]],
    nulls: Sequence[tuple[TableContrast, Evidence]],
) -> list[Judgement | None]:
    """Judgements of the primary comparisons, one family; None for the others."""
    criteria = source.request.criteria
    primary = [(c, e) for c, e in drafts if c.figure.primary]
    slow = _slow_trials(primary)

    def family(end: int | None = None) -> list[Judgement]:
        """The verdicts; end: with what is missing at its best (0) or at its worst (1)."""
        members = ((c, e if end is None else evidence.at_its(end, e)) for c, e in primary)
        cases = [_member(source, c, e, nulls, slow) for c, e in members]
        return judge(cases, criteria.margin, criteria.confidence, source.request.correction)

    results, lossy = family(), [e.filled is not None for _, e in primary]
    if any(lossy):
        results = losses.upheld(results, lossy, (family(end) for end in (0, 1)))
    judged = iter(results)
    return [next(judged) if c.figure.primary else None for c, _ in drafts]


def _member(
    source: _Source,
    c: TableContrast,
    e: Evidence,
    nulls: Sequence[tuple[TableContrast, Evidence]],
    slow: Mapping[str, SlowTrials],
) -> FamilyMember:
    copies = _copies(source, c, nulls)
    lost = _LOST if not copies and _again(c, nulls) else None
    if doubts.no_verdict(e, _facts(source, c, lost)):
        # It stays in the family: it was asked for.
        return FamilyMember(None, None, lost)
    return FamilyMember(
        e.moments,
        e.p,
        lost,
        copies=copies,
        pairs=e.units,
        systematic=e.steps.expanded,
        sides=e.sides,
        slow=slow.get(c.environment),
    )


def _slow_trials(drafts: Sequence[tuple[TableContrast, Evidence]]) -> Mapping[str, SlowTrials]:
    """Environment → what its rows show of rare slow ones, over all workloads."""
    cells: dict[str, dict[str, list[SlowTrials]]] = {}
    for c, e in drafts:
        if e.slow is not None:
            of_environment = cells.setdefault(c.environment, {})
            of_environment.setdefault(c.figure.workload, []).append(e.slow)
    return {environment: together(of.values()) for environment, of in cells.items()}


def _facts(source: _Source, c: TableContrast, floor: Floor | None) -> doubts.ComparisonFacts:
    sheet = source.sheet
    return doubts.ComparisonFacts(
        environment_label=sheet.label(c.environment),
        baseline_label=sheet.label(c.baseline),
        emulated=c.environment in sheet.emulated,
        again=c.again,
        environment_cell=source.cells[c.environment, c.at],
        baseline_cell=source.cells[c.baseline, c.at],
        floor=floor,
        again_lost=floor is not None and math.isinf(floor.ratio),
        alpha=source.alpha,
        block_name=sheet.block_name,
        margin=source.request.criteria.margin,
    )


def _cell(sheet: Sheet, environment: str, at: int) -> Cell:
    rows: Rows = sheet.cell(environment, at)
    missing = int(np.count_nonzero(np.isnan(rows.value)))
    return Cell(
        environment=sheet.label(environment),
        workload=sheet.figures[at].workload,
        trials=rows.value.size,
        ok=rows.value.size - missing,
        failed=missing,
        invalid=0,
    )


def _comparison(
    source: _Source,
    c: TableContrast,
    e: Evidence,
    floor: Floor | None,
    judgement: Judgement | None,
) -> Comparison:
    finite = floor if floor and math.isfinite(floor.ratio) else None
    facts = _facts(source, c, floor)
    no_verdict = doubts.no_verdict(e, facts) if judgement else None
    decided = judgement if no_verdict is None else None
    settle = decided.blocks_to_settle if decided else None
    pairs = e.counts.pairs if e.counts is not None else 0
    nested = e.precision == "intermediate"
    rows = pairs if e.counts is not None else min(facts.environment_cell.ok, facts.baseline_cell.ok)
    a_generation = math.ceil(max(rows, 1) / e.generations)
    return Comparison(
        environment=facts.environment_label,
        environment_label=facts.environment_label,
        baseline=facts.baseline_label,
        baseline_label=facts.baseline_label,
        workload=c.figure.workload,
        workload_title=source.titles[c.at],
        resource="other",
        metric=c.figure.metric,
        description="",
        unit=si(c.figure.unit)[0],
        better=c.figure.better,
        primary=c.figure.primary,
        again=c.again,
        emulated=facts.emulated,
        unequal=(),
        ratio=e.ratio,
        interval=e.interval,
        budget=None,
        precision=e.precision,
        generations=e.generations,
        bootstrap=e.bootstrap,
        robust=e.robust,
        robust_disagrees=disagree(e.interval, e.robust),
        without_outliers=e.without_outliers,
        totals=e.totals,
        tail=e.tail,
        pairs=pairs,
        dropped=e.counts.dropped if e.counts is not None else 0,
        losses=doubts.lost(e, facts),
        points=(),
        coordinate=None,
        curve=(),
        baseline_values=source.absolutes[c.baseline, c.at],
        environment_values=source.absolutes[c.environment, c.at],
        baseline_cell=facts.baseline_cell,
        environment_cell=facts.environment_cell,
        pair_gap_s=None,
        floor=finite.ratio if finite else None,
        floor_biased=finite.biased if finite else False,
        memory=source.memory.get(c.environment, 1.0) if e.counts is not None else 1.0,
        p_difference=e.p.difference if e.p else None,
        p_equivalence=e.p.equivalence if e.p else None,
        p_difference_adjusted=decided.adjusted.difference if decided else None,
        p_equivalence_adjusted=decided.adjusted.equivalence if decided else None,
        verdict=decided.verdict if decided else None,
        why=decided.why if decided else None,
        no_verdict=no_verdict,
        blocks_to_settle=settle * a_generation if settle and nested else settle,
        makings_to_settle=settle if nested else None,
        doubts=doubts.of_comparison(e, facts),
    )


def _whole(
    source: _Source, comparisons: tuple[Comparison, ...], again: tuple[Comparison, ...]
) -> Analysis:
    sheet, request = source.sheet, source.request
    label = sheet.label(request.baseline)
    primary = [c for c in comparisons if c.primary]
    nulls = [c.interval for c in again if c.primary and c.interval]
    return Analysis(
        run=clean(str(sheet.file)),
        name=clean(sheet.file.stem),
        baseline=label,
        baseline_label=label,
        confidence=request.criteria.confidence,
        margin=request.criteria.margin,
        design="solo",
        correction=request.correction,
        started_epoch_ns=None,
        seconds=0.0,
        blocks=sheet.blocks,
        generations=sheet.generations,
        blocks_each=None,
        trials=sheet.rows,
        failed=sum(cell.failed for cell in source.cells.values()),
        # Nobody stopped anything here: only the precision that was reached is known.
        stop=Stop.with_widest(primary, reason=None, target_half_width=None, widening=1.0),
        floor=max((c.floor for c in primary if c.floor is not None), default=None),
        again_total=len(nulls),
        again_differing=sum(map(excludes_one, nulls)),
        family=len(primary),
        comparisons=comparisons,
        again=again,
        resources=(),
        cells=tuple(source.cells.values()),
        doubts=_of_table(again),
    )


def _of_table(again: Sequence[Comparison]) -> tuple[Doubt, ...]:
    if any(c.interval for c in again):
        return ()
    return (
        Doubt(
            code="no-again",
            message="No A/A comparison has an interval: the noise floor is unknown."
            if again
            else "There is no A/A comparison: the noise floor is unknown.",
            advice="Find out what became of the second copy's figures."
            if again
            else "Measure one environment twice under two names, and say so with `--again`.",
        ),
    )


def _notes(
    sheet: Sheet, request: TableRequest, pairs: Sequence[tuple[TableContrast, Evidence]]
) -> Iterator[str]:
    """What was done to the rows, and what had to be taken on trust."""
    criteria = request.criteria
    if criteria.method != "welch" and (sheet.blocks or criteria.quantile is not None):
        instead = "a quantile is compared" if criteria.quantile is not None else "blocks are paired"
        yield (
            f"`--method {criteria.method}` is not used: {instead}"
            + ("" if criteria.quantile is not None else "; it needs a table without `block`")
        )
    if lone := tablecontrasts.without_baseline(sheet, request.baseline):
        reason = f"there are no rows of {quoted(request.baseline)} there"
        yield f"{lone:,} cells are not compared: {reason}"
    for kind, rate in (("arithmetic", False), ("harmonic", True)):
        several = [
            e.counts
            for c, e in pairs
            if e.counts is not None and e.counts.averaged and c.figure.is_rate is rate
        ]
        if several:
            blocks = sum(counts.averaged for counts in several)
            copies = sum(counts.copies for counts in several)
            doubled = f"; {copies:,} of these values are exact copies" if copies else ""
            yield (
                f"in {blocks:,} places a cell has several values in one block: their {kind} mean "
                f"was taken{doubled}"
            )
    if any(e.repeated for _, e in pairs):
        yield "the second half of some cells repeats the first exactly: is the table in it twice?"
    if criteria.quantile is not None:
        if not any(e.mixed for _, e in pairs):  # then there is no interval that rests on it
            yield (
                f"the {criteria.quantile:g} quantile is compared; "
                + ("blocks are not used: " if sheet.blocks else "")
                + "every row is taken as independent of the others"
            )
    elif sheet.blocks:
        yield (
            "a table cannot show whether the environments were interleaved: the intervals assume "
            "that each block was measured back to back, in random order"
        )
    else:
        yield (
            f"without blocks nothing is paired ({_METHODS[criteria.method]}): every "
            f"{'generation' if sheet.generations > 1 else 'row'} is taken as independent of the "
            "others, and drift between the environments counts as a difference"
        )


_METHODS: Final[dict[IntervalMethod, str]] = {
    "welch": "Welch's t on logarithms",
    "fieller": "ratio of means by Fieller",
    "delta": "ratio of means, delta method on its logarithm",
}
