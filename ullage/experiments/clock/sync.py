"""`ullage clock sync`: another machine's time, how wrong it may be, and how wrong it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from ullage.common.clock_model import FrozenModel
from ullage.common.clock_reasons import ADVICE
from ullage.common.errors import CLOCK_CONTRADICTION, CLOCK_STOPPED_ANSWERING, UllageError
from ullage.common.quantities import many
from ullage.experiments.clock import view as words
from ullage.experiments.clock.peer import ServerAddress, synchronise
from ullage.experiments.clock.view import Chart, ClockSection, View, table
from ullage.host import clock
from ullage.host.clock import Global, Outcome, Reading, Rules, Synced

if TYPE_CHECKING:
    from ullage.report.charts.lanes import Drawing

EVERY_S: Final = 1.0
"""Between two synchronisations: the shortest baseline for a rate that `Drift` has."""
_AGES_S: Final = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)

_STOPS: Final = {
    "alike": ("ways alike", "the shortest round trips were alike: more would tell little more"),
    "messages": ("message limit", "it had sent as many messages as it may"),
    "time": ("time limit", "it had taken as long as it may"),
}
"""What ended a synchronisation: in two words, and in a sentence."""

End = Literal["done", "failed", "contradicted", "interrupted"]
AdvanceSeconds = Callable[[float, float], None]
"""Seconds that have passed, of how many."""


class SyncRecord(FrozenModel):
    local_ns: int
    """When, by this process's clock."""
    offset_ns: int
    """The other clock less this one."""
    bound_ns: int
    """In 99.9 % of all cases the offset is not further off, if the two ways are alike."""
    hard_ns: int
    """It is never further off."""
    round_trip_ns: int
    """The shortest."""
    stop: str
    """alike (the published rule), or the cap that came first: messages, time."""
    messages: int
    lost: int
    took_ns: int
    stratum: int
    """Synchronisations between the server and the root."""
    awake: bool
    """No scheduler had to wake anybody up; else the hard bound is all there is."""
    reasons: list[str]
    """What is to be said of the server's clock."""

    @classmethod
    def of(cls, outcome: Outcome) -> SyncRecord:
        fix, counts = outcome.fix, outcome.counts
        return cls(
            local_ns=fix.local_ns,
            offset_ns=fix.offset_ns,
            bound_ns=fix.sure_ns,
            hard_ns=fix.half_ns,
            round_trip_ns=fix.rtt_ns,
            stop=outcome.stop,
            messages=counts.sent + counts.answers,
            lost=counts.lost,
            took_ns=outcome.took_ns,
            stratum=outcome.stratum,
            awake=outcome.awake,
            reasons=list(outcome.reasons),
        )


class Rated(FrozenModel):
    """How much faster the other clock runs."""

    ppb: float
    unsure_ppb: float


class Foretold(FrozenModel):
    """What was foretold of the other clock without a message, held against the last look at it."""

    by: str
    age_ns: int
    """How old what was known of the other clock was."""
    error_ns: int
    bound_ns: int | None
    hard_ns: int | None
    measured_within_ns: int
    """The last synchronisation's own hard bound: the error is not known better."""


class Corrected(FrozenModel):
    """From the first synchronisation to the last."""

    drifted_ns: int
    """How far the clocks went apart."""
    residual_ns: int | None
    """How far a synchronisation in between was off the line at most; None: there was none."""
    wander_ppb: float


class SyncReport(FrozenModel):
    """What was found out about the other clock."""

    server: str
    protocol: str
    synchronisations: list[SyncRecord]
    messages: int
    took_ns: int
    """Of all synchronisations together."""
    rate: Rated | None
    """None: one synchronisation, or too close together to tell."""
    foretold: list[Foretold]
    corrected: Corrected | None
    reasons: list[str]
    """What is to be said of the global time in the end, the server's reasons included."""
    ages: list[list[int | None]]
    """Age, and then the two bounds at that age, without another message."""
    ended: End
    """done: it went on for as long as was asked."""
    failure: str | None
    """Why it could not go on."""


def measure(
    server: ServerAddress,
    key: bytes,
    *,
    seconds: float,
    tcp: bool = False,
    rules: Rules | None = None,
    advance: AdvanceSeconds = lambda done, of: None,
) -> SyncReport:
    """Synchronise, again every second for so long, and say what that was worth.

    A failure or an interruption after the first synchronisation ends it, and the report says so.
    CLOCK_NO_ANSWER, CLOCK_REFUSED, CLOCK_UNREACHABLE, CLOCK_CONTRADICTION, KeyboardInterrupt.
    """
    rules, synced = rules or Rules(), Synced()
    outcomes: list[Outcome] = []
    ended: End = "done"
    failure = None
    began = time.monotonic()
    try:
        while True:
            disruptions = synced.disruptions()
            outcome = synchronise(server, key, rules, tcp=tcp)
            passed = time.monotonic() - began
            _learn(synced, outcome, disruptions, server)
            outcomes.append(outcome)
            advance(min(passed, seconds), seconds)
            if passed >= seconds:
                break
            time.sleep(min(EVERY_S, max(0.0, seconds - passed)))
    except KeyboardInterrupt:
        if not outcomes:
            raise
        ended = "interrupted"
    except UllageError as error:
        if not outcomes:
            raise
        if error.kind is CLOCK_CONTRADICTION:
            ended, failure = "contradicted", str(error.facts["reason"])
        else:
            ended, failure = "failed", error.message
    return _report(server, outcomes, synced, tcp=tcp, ended=ended, failure=failure)


def _learn(synced: Synced, outcome: Outcome, disruptions: int, server: ServerAddress) -> None:
    try:
        synced.learn(outcome, disruptions=disruptions)
    except clock.ContradictionError as error:
        raise UllageError(CLOCK_CONTRADICTION, address=server, reason=error) from error


def _foretold(before: list[Outcome], last: Outcome) -> list[Foretold]:
    """What the first one foretold, and all before the last one."""
    now = last.fix.local_ns
    ways = [("the first synchronisation alone", [before[0].fix])]
    if len(before) > 1:
        ways.append(("all before the last one", [outcome.fix for outcome in before]))
    forecasts = []
    for by, fixes in ways:
        reading = Global.fit(fixes).at(now)
        forecasts.append(
            Foretold(
                by=by,
                age_ns=now - fixes[-1].local_ns,
                error_ns=reading.ns - (now + last.fix.offset_ns),
                bound_ns=reading.bound_ns,
                hard_ns=reading.hard_ns,
                measured_within_ns=last.fix.half_ns,
            )
        )
    return forecasts


def _report(
    server: ServerAddress,
    outcomes: list[Outcome],
    synced: Synced,
    *,
    tcp: bool,
    ended: End,
    failure: str | None,
) -> SyncReport:
    records = [SyncRecord.of(outcome) for outcome in outcomes]
    rate = synced.rate()
    corrected = None
    if len(outcomes) > 1:
        correction = synced.correction()
        corrected = Corrected(
            drifted_ns=correction.drifted_ns,
            residual_ns=correction.residual_ns,
            wander_ppb=correction.wander_ppb,
        )
    line, end = Global.fit([outcome.fix for outcome in outcomes]), records[-1].local_ns
    readings = [(round(age * 1e9), line.at(end + round(age * 1e9))) for age in _AGES_S]
    return SyncReport(
        server=str(server),
        protocol="TCP" if tcp else "UDP",
        synchronisations=records,
        messages=sum(record.messages for record in records),
        took_ns=sum(record.took_ns for record in records),
        rate=None if rate is None else Rated(ppb=rate[0] / 1e3, unsure_ppb=rate[1] / 1e3),
        foretold=_foretold(outcomes[:-1], outcomes[-1]) if len(outcomes) > 1 else [],
        corrected=corrected,
        reasons=list(synced.now().reasons),
        ages=[_age(age, reading) for age, reading in readings],
        ended=ended,
        failure=failure,
    )


def _age(age_ns: int, reading: Reading) -> list[int | None]:
    return [age_ns, reading.bound_ns, reading.hard_ns]


def view(report: SyncReport) -> View:
    """The last synchronisation in words, then what all of them say."""
    last = report.synchronisations[-1]
    ahead = "ahead of" if last.offset_ns >= 0 else "behind"
    alike = f" ± {words.span(last.bound_ns)} in 99.9 % of all cases if the two ways are alike,"
    bound = alike if last.bound_ns < last.hard_ns else ""
    answer = [
        f"The clock at {report.server} is {words.span(abs(last.offset_ns))} {ahead} this one,"
        f"{bound} ± {words.span(last.hard_ns)} in any case.",
        _effort(report),
        *_rate(report),
        *_reasons(report.reasons),
    ]
    if not last.awake:
        answer.append(
            "Somebody had to be woken up to answer, so only the hard bound counts: it is quieter"
            " with a core to spare on both sides."
        )
    return View(
        f"The clock at {report.server}",
        tuple(answer),
        (*_after(report), _synchronisations(report), _bounds(report)),
    )


def stopped(report: SyncReport) -> UllageError | None:
    """What a report of a failure ends in."""
    if report.failure is None:
        return None
    if report.ended == "contradicted":
        return UllageError(CLOCK_CONTRADICTION, address=report.server, reason=report.failure)
    count = many(len(report.synchronisations), "synchronisation")
    return UllageError(
        CLOCK_STOPPED_ANSWERING, address=report.server, count=count, reason=report.failure
    )


def _effort(report: SyncReport) -> str:
    times = many(len(report.synchronisations), "synchronisation")
    early = " It was interrupted before its time." if report.ended == "interrupted" else ""
    return (
        f"{times} over {report.protocol}: {many(report.messages, 'message')},"
        f" {words.span(report.took_ns)} of asking.{early}"
    )


def _rate(report: SyncReport) -> list[str]:
    if report.rate is None:
        return [
            "Its rate is not known better than the 100 ppm that are assumed: that takes some"
            " seconds (--seconds), and more where the ways are slow or busy."
        ]
    faster = "faster" if report.rate.ppb >= 0 else "slower"
    return [
        f"It runs {words.rate(abs(report.rate.ppb))} {faster} than this one,"
        f" ± {words.rate(report.rate.unsure_ppb)}."
    ]


def _reasons(reasons: list[str]) -> list[str]:
    return [f"{reason}: {clock.REASONS[reason]}. To do: {ADVICE[reason]}." for reason in reasons]


def _after(report: SyncReport) -> list[ClockSection]:
    if report.corrected is None:
        return []
    lines = [
        f"The two clocks went {words.span(report.corrected.drifted_ns)} apart from the first"
        " synchronisation to the last, which a correction takes away."
    ]
    if report.corrected.residual_ns is not None:
        lines.append(
            "Synchronisations in between were off the corrected line by"
            f" {words.span(report.corrected.residual_ns)} at most."
        )
    rows = tuple(
        (
            forecast.by,
            words.span(forecast.age_ns),
            words.span(forecast.error_ns),
            words.span(forecast.bound_ns),
            words.span(forecast.hard_ns),
            words.span(forecast.measured_within_ns),
        )
        for forecast in report.foretold
    )
    heads = ("foretold by", "age", "was wrong by", "bound, 99.9 %", "hard bound", "known within")
    foretold = table("The last offset as foretold, without a message", heads, rows)
    tables = (foretold,) if rows else ()
    return [ClockSection("How good was it in between?", lines=tuple(lines), tables=tables)]


def _synchronisations(report: SyncReport) -> ClockSection:
    first = report.synchronisations[0].local_ns
    rows = tuple(
        (
            words.span(record.local_ns - first),
            words.span(record.offset_ns),
            words.span(record.bound_ns),
            words.span(record.hard_ns),
            words.span(record.round_trip_ns),
            f"{record.messages:,}",
            f"{record.lost:,}",
            words.span(record.took_ns),
            _STOPS[record.stop][0],
        )
        for record in report.synchronisations
    )
    bounds = ("bound, 99.9 %", "hard bound")
    effort = ("round trip", "messages", "lost", "took", "stopped by")
    heads = ("at", "offset", *bounds, *effort)
    tables = (table("All synchronisations", heads, rows, texts=("stopped by",)),)
    met = [
        stop for stop in _STOPS if any(record.stop == stop for record in report.synchronisations)
    ]
    lines = tuple(f"Stopped by {_STOPS[stop][0]}: {_STOPS[stop][1]}." for stop in met)
    return ClockSection("Synchronisations", lines=lines, tables=tables)


def _bounds(report: SyncReport) -> ClockSection:
    rows = tuple((words.span(age), words.span(b), words.span(h)) for age, b, h in report.ages)
    return ClockSection(
        "How the bounds grow without another message",
        lines=("The hard bound grows by what two oscillators may differ at worst, 100 ppm.",),
        tables=(table("", ("age", "bound, 99.9 %", "hard bound"), rows),),
        charts=(
            Chart(
                partial(_draw, report),
                "Bounds by age.",
                "Both bounds over the age of the synchronisation; the same as the table.",
            ),
        ),
    )


def _draw(report: SyncReport) -> Drawing:
    from ullage.report.charts import curve
    from ullage.runs.records import Coordinate

    lines = []
    for place, name in ((1, "99.9 % of all cases, ways alike"), (2, "in any case")):
        points = []
        for row in report.ages:
            age, bound = row[0], row[place]
            if age and bound is not None:
                value = bound / 1e9
                points.append(curve.LinePoint(at=age / 1e9, middle=value, low=value, high=value))
        lines.append(curve.CurveLine(name, tuple(points)))
    coordinate = Coordinate(name="age", unit="s")
    return curve.draw(lines, coordinate, "bound", "s")
