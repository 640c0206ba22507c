"""`ullage clock cost`: what a read of each clock costs, beside the published ratios."""

from __future__ import annotations

from ullage.experiments.clock import lab
from ullage.experiments.clock import view as words
from ullage.experiments.clock.lab import Bar
from ullage.experiments.clock.outcomes import (
    Absent,
    ClockReader,
    CostOptions,
    CostOutcome,
    ReadCost,
)
from ullage.experiments.clock.reports import CostReport, PublishedCost, published
from ullage.experiments.clock.view import ClockSection, View, table

SECONDS, QUICK_SECONDS = 10.0, 1.0
_QUICK = CostOptions(rounds=15, reads=20_000)
_OVER: tuple[ClockReader, ...] = ("counter", "monotonic")


def measure(progress: Bar, *, quick: bool) -> CostReport:
    """Interleaved rounds of all clocks. CLOCK_NOT_MEASURED."""
    advance = progress.stage("what a read costs", QUICK_SECONDS if quick else SECONDS)
    measured = lab.cost(_QUICK if quick else CostOptions(), advance)
    return CostReport(measured=measured, published=published("cost", PublishedCost))


def view(report: CostReport) -> View:
    """A table of all clocks, cheapest first."""
    measured = report.measured
    ordered = sorted(measured.clocks, key=lambda cost: cost.ns.median)
    heads = ("clock", "read by", "a read", "÷ counter", "÷ CLOCK_MONOTONIC")
    reads = table(
        f"Medians with 95 % intervals over {measured.rounds} rounds of {measured.reads:,} reads"
        + (" (fewer than asked for: the time was up)" if measured.capped else ""),
        (*heads, "published ÷ counter", "published ÷ CLOCK_MONOTONIC"),
        [_row(cost, report.published) for cost in ordered],
        texts=("read by",),
    )
    return View(
        "What a read of the clock costs",
        tuple(_answer(measured)),
        (
            ClockSection(
                "Reads",
                lines=(
                    "Nanoseconds are of this hour on this machine; ratios are of the same round. "
                    f"Published beside them: {report.published.source}.",
                ),
                tables=(reads,),
            ),
            *absent(measured.absent),
        ),
    )


def absent(lacks: list[Absent]) -> list[ClockSection]:
    """A section on what could not be measured, if there is something."""
    if not lacks:
        return []
    return [
        ClockSection("Not measured here", lines=tuple(f"{lack.what}: {lack.why}" for lack in lacks))
    ]


def _answer(measured: CostOutcome) -> list[str]:
    sentences = []
    for clock in ("rvec", "rvec-ordered"):
        read = next((cost for cost in measured.clocks if cost.clock == clock), None)
        if read is None:
            continue
        ratios = [
            f"{words.ratio(ratio.ratio)} times {words.NAMES[ratio.over]}"
            for ratio in read.ratios
            if ratio.over in _OVER
        ]
        sentences.append(
            f"A read of {words.NAMES[read.clock]} costs {words.span(read.ns.median)}"
            + (f", {' and '.join(ratios)}." if ratios else ".")
        )
    return sentences


def _row(cost: ReadCost, published: PublishedCost) -> tuple[str, ...]:
    ratios = {ratio.over: words.ratio(ratio.ratio) for ratio in cost.ratios}
    published_ratios = (published.ratio(cost.clock, over) for over in _OVER)
    return (
        words.NAMES[cost.clock],
        cost.how,
        words.spans(cost.ns),
        *(ratios.get(over, "–") for over in _OVER),
        *("–" if ratio is None else f"{ratio:.2f}" for ratio in published_ratios),
    )
