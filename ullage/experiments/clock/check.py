"""`ullage clock check`: what the clock may promise here, explained, and put to the test."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ullage.common.clock_model import CounterFacts, Promise
from ullage.common.clock_reasons import ADVICE
from ullage.experiments.clock import lab
from ullage.experiments.clock import view as words
from ullage.experiments.clock.cost import absent
from ullage.experiments.clock.lab import Bar
from ullage.experiments.clock.outcomes import (
    EcpOptions,
    EcpOutcome,
    Loop,
    LoopsOptions,
    LoopsOutcome,
    Placement,
    StrictOptions,
    Timed,
)
from ullage.experiments.clock.reports import CheckReport
from ullage.experiments.clock.view import Chart, ClockSection, View, table
from ullage.host import clock

if TYPE_CHECKING:
    from ullage.report.charts.lanes import Drawing

_QUICK_ECP = EcpOptions(iterations=5_000, runs=10)
_QUICK_LOOPS = LoopsOptions(samples=300, keep=0)
_QUICK_STRICT = StrictOptions(reads=20_000_000, comparisons=500_000, cap_s=20)
_PLACES: dict[Placement, str] = {
    "pinned": "on one core",
    "moves-itself": "moves itself",
    "is-moved": "is moved at any moment",
}


def measure(progress: Bar, *, quick: bool) -> CheckReport:
    """Half a minute, or a few seconds. CLOCK_NOT_MEASURED."""
    promise = clock.promise()
    advance = progress.stage("precision (ECP)", 1 if quick else 5)
    ecp = lab.ecp(_QUICK_ECP if quick else EcpOptions(), advance)
    advance = progress.stage("loops of known length", 1 if quick else 10)
    loops = lab.loops(_QUICK_LOOPS if quick else LoopsOptions(keep=0), advance)
    advance = progress.stage("strictness", 3 if quick else 90)
    strict = lab.strict(_QUICK_STRICT if quick else StrictOptions(), advance)
    reasons = dict.fromkeys([*promise.reasons, *clock.check()])
    return CheckReport(
        facts=clock.facts(),
        promise=promise,
        advice={reason: ADVICE[reason] for reason in reasons},
        ecp=ecp,
        loops=loops,
        strict=strict,
    )


def view(report: CheckReport) -> View:
    """The machine in words, then the tests."""
    verdict = (
        "The tests found nothing against this."
        if report.kept
        else "The tests found the clock wrong: do not rely on it here, see below."
    )
    return View(
        "The clock of this machine",
        (*explain(report.promise), verdict),
        (
            *_why_not_more(report.advice),
            _facts(report.facts),
            _precision(report.ecp),
            _loops(report.loops),
            _strictness(report),
            *absent([*report.ecp.absent, *report.strict.absent]),
        ),
    )


def explain(promise: Promise) -> list[str]:
    """What the clock is and what it promises, to a person."""
    rate = promise.rate
    if promise.source == "counter":
        source = (
            f"Time is read from the processor's counter, which runs at"
            f" {rate.millihertz / 1e9:,.6f} MHz"
        )
        if rate.bound_ppb is not None:
            day = words.span(rate.bound_ppb / 1e9 * 86_400e9)
            source += (
                f"; that is known to {words.rate(rate.bound_ppb)} of the kernel's"
                f" CLOCK_MONOTONIC_RAW, at most {day} a day"
            )
    else:
        source = (
            "Time is read from the kernel's CLOCK_MONOTONIC_RAW, which is slower than a counter:"
            " this machine's is not to be relied upon"
        )
    return [
        f"{source}.",
        "The values of one thread strictly increase, whatever core it runs on.",
        _between_threads(promise),
        "How far its second is from a true one, only another machine's clock can tell:"
        " `ullage clock sync`.",
    ]


def _between_threads(promise: Promise) -> str:
    if promise.ordered_ns is None:
        return "Values of different threads cannot be compared: their cores' counters are apart."
    cores = "" if promise.cores is None else f" ({promise.cores} cores were compared)"
    if promise.ordered_ns == 0:
        return f"Ordered values of different threads never go back{cores}."
    return (
        "Ordered values of different threads never go back by more than"
        f" {words.span(promise.ordered_ns)}{cores}."
    )


def _why_not_more(advice: dict[str, str]) -> list[ClockSection]:
    if not advice:
        return []
    lines = (f"{reason}: {clock.REASONS[reason]}. To do: {do}." for reason, do in advice.items())
    return [ClockSection("Why it promises no more, and what to do", lines=tuple(lines))]


def _facts(facts: CounterFacts) -> ClockSection:
    def yes(value: bool) -> str:
        return "yes" if value else "no"

    rows = [
        ("this process may read the counter", yes(facts.readable)),
        ("its rate does not depend on power states", yes(facts.invariant)),
        ("counter and core can be read in one go", yes(facts.paired)),
        ("the kernel keeps time by it", yes(facts.kernel_uses)),
        ("the kernel has given it up", yes(facts.kernel_distrusts)),
        ("virtual machine", yes(facts.virtual_machine)),
        ("live migrations are told (vmclock)", yes(facts.vmclock)),
    ]
    for name, rate in (("rate, as stated", facts.stated), ("rate, as measured", facts.rate)):
        frequency = (
            "unknown" if rate is None else f"{rate.millihertz / 1e9:,.6f} MHz ({rate.source})"
        )
        rows.append((name, frequency))
    if facts.synchrony is not None:
        cores = facts.synchrony
        compared = f"{len(cores.cpus)}, no two further apart than {words.span(cores.bound_ns)}"
        rows.append(("cores whose counters were compared", compared))
        rows.append(("cores that could not be compared", str(cores.missed)))
    tables = (table("", ("fact", "here"), rows, texts=("here",)),)
    return ClockSection("What was found out about the counter", tables=tables)


def _precision(ecp: EcpOutcome) -> ClockSection:
    rows = []
    for placed in ecp.placements:
        for elapsed in placed.clocks:
            durations = elapsed.durations
            rows.append(
                (
                    words.NAMES[elapsed.clock],
                    _PLACES[placed.placement],
                    "–" if durations is None else words.span(durations.p50_ns),
                    "–" if durations is None else words.span(durations.p99_ns),
                    f"{elapsed.zero:,}",
                    f"{elapsed.backward:,}",
                    f"{elapsed.migrations:,}",
                )
            )
    heads = ("clock", "thread", "median", "99 %", "zero", "negative", "migrations")
    return ClockSection(
        "Is even the shortest piece of work told to take time? (ECP)",
        lines=(
            f"{ecp.additions} additions between two reads, {ecp.iterations:,} times in each of"
            f" {ecp.runs} runs of each clock. Zero or negative: the clock is not precise.",
        ),
        tables=(table("Elapsed times", heads, rows, texts=("thread",)),),
    )


def _loops(loops: LoopsOutcome) -> ClockSection:
    lines = []
    if loops.external is None:
        why = "; ".join(one.why for one in loops.absent) or "not looked for"
        lines.append(f"Independent clock: absent. Looked for: {why}.")
    else:
        independent = {True: "independent", False: "not independent", None: "perhaps independent"}
        external = loops.external
        lines.append(
            f"Beside it: {external.device} ({external.name}),"
            f" {independent[external.independent]}: {external.why}."
        )
        if external.passed_over:
            lines.append(f"Passed over: {'; '.join(external.passed_over)}.")
    lines.append(f"CLOCK_MONOTONIC_RAW as a witness: {loops.raw_is}.")
    for name, apart in (
        ("CLOCK_MONOTONIC_RAW", loops.raw_apart),
        ("the independent clock", loops.external_apart),
    ):
        if apart is not None:
            faster = "faster" if apart.ppb >= 0 else "slower"
            lines.append(
                f"Over {words.span(apart.over_ns)} the clock ran {words.rate(abs(apart.ppb))}"
                f" {faster} than {name} (± {words.rate(apart.bound_ppb)})."
            )
    heads = ("instructions", "by", "median", "25 % to 75 %", "99 %", "most")
    durations = table("Durations of the loops", heads, _rows(loops), texts=("by",))
    charts = tuple(
        Chart(
            partial(_draw, loop),
            f"Loop of {loop.instructions:,} instructions: how often it took how long.",
            f"Histogram of the loop of {loop.instructions:,} instructions by each clock.",
        )
        for loop in loops.loops
        if loop.instructions
    )
    return ClockSection(
        "How long do loops of known length take?",
        lines=tuple(lines),
        tables=(durations,),
        charts=charts,
    )


def _rows(loops: LoopsOutcome) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for loop in loops.loops:
        for name, timed in _clocks(loop):
            took = timed.durations
            middle = f"{words.span(took.p25_ns)} to {words.span(took.p75_ns)}"
            rows.append(
                (
                    f"{loop.instructions:,}" if loop.instructions else "none: the reads",
                    name,
                    words.span(took.p50_ns),
                    middle,
                    words.span(took.p99_ns),
                    words.span(took.max_ns),
                )
            )
    return rows


def _clocks(loop: Loop) -> list[tuple[str, Timed]]:
    clocks = [("ours", loop.rvec), ("CLOCK_MONOTONIC_RAW", loop.raw)]
    return clocks if loop.external is None else [*clocks, ("independent clock", loop.external)]


def _draw(loop: Loop) -> Drawing:
    from ullage.experiments.clock import page

    return page.draw([(name, timed.histogram) for name, timed in _clocks(loop)])


def _strictness(report: CheckReport) -> ClockSection:
    strict = report.strict
    lines = []
    if alone := strict.alone:
        moved = f"moved {alone.moves:,} times from core to core"
        lines.append(
            f"{alone.reads:,} reads in {alone.threads} threads that were {moved}:"
            f" {alone.backward:,} values less than the one before, {alone.equal:,} equal to it."
            + (" The time was up before all were made." if alone.capped else "")
        )
    heads = ("clock", "comparisons", "went back", "by at most", "promised")
    promised = words.span(strict.promised_ns) if strict.promised_ns is not None else "nothing"
    rows = tuple(
        (
            words.NAMES[cores.clock],
            f"{cores.comparisons:,}",
            f"{cores.backward:,}",
            words.span(cores.worst_ns) if cores.backward else "–",
            promised if cores.clock == "rvec-ordered" else "nothing",
        )
        for cores in strict.across
    )
    if rows:
        lines.append(
            "Across cores, a read is held against a value that another core has passed on. The"
            " unfenced counter beside it does go back, which shows that the test can fail."
        )
    tables = (table("Across cores", heads, rows),) if rows else ()
    return ClockSection(
        "Does every value exceed the one before?", lines=tuple(lines), tables=tables
    )
