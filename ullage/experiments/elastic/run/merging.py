"""One record of viewers who came from several machines, on the run's clock.

What comes from a machine is untrusted: every field is checked, nobody may tell of another machine's
viewers, and no instant may lie outside of what was seen from here, or before the one that it
follows.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ullage.common.faults import first_fault
from ullage.common.quantities import many
from ullage.common.text import clean
from ullage.engine.program import EARLY_NS
from ullage.environments.agent.client import ProgramEnd
from ullage.environments.agent.clock import WORST_PPB, ClockMap
from ullage.environments.agent.frames import FrameError
from ullage.experiments.clock.view import span
from ullage.experiments.elastic.folder import ViewerSession, disorder
from ullage.runs.records import Nanoseconds

# In the summary of all, counts, CPU time and memory are summed, and what follows from sums (bytes
# in a second, the memory of a viewer) is worked out from them. The lengths of violations are in the
# records, so their quantiles are those of all. The quantiles of lateness, of turns and of the
# viewers' rates, and the errors of rates, are told without what they were made of, so they cannot
# be put together: the worst machine's stand, and what each machine said is in a file of its own.
# Every field is there; of a machine's reasons against itself the first few.

ViewersCount = Annotated[int, Field(ge=0, lt=1 << 53)]
Signed = Annotated[float, Field(ge=-1e18, le=1e18, allow_inf_nan=False)]
BoundedNumber = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
CounterName = Annotated[str, Field(max_length=40, pattern=r"^[a-z0-9.-]+$")]
Counts = Annotated[dict[CounterName, ViewersCount], Field(max_length=64)]
Quantiles = Annotated[dict[CounterName, BoundedNumber], Field(max_length=16)]

_MOST_WHY: Final = 8


class Violated(BaseModel):
    """Violations, as viewers count them."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    count: ViewersCount
    viewers: ViewersCount
    served: ViewersCount


class ViewersMemory(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    peak_bytes: ViewersCount
    per_viewer_bytes: BoundedNumber | None


class MachineSummary(BaseModel):
    """The summary of a machine's viewers (docs/guide/elastic-viewers.md), and no less of it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    valid: bool
    why: Annotated[list[str], Field(max_length=2000)]
    interrupted: bool
    started_ns: Nanoseconds
    ended_ns: Nanoseconds
    due: ViewersCount
    outcomes: Counts
    whys: Counts
    violations: Violated
    shards: ViewersCount
    bytes: ViewersCount
    requests: ViewersCount
    behind: ViewersCount
    reopened: ViewersCount
    asked_again: ViewersCount
    untold: ViewersCount
    most_at_once: ViewersCount
    most_playing: ViewersCount
    lateness_s: Quantiles
    lateness_limit_s: BoundedNumber
    rate_error: Signed | None
    rate_error_of_viewers: Quantiles
    delivered_error: Signed | None
    delivered_error_of_viewers: Quantiles
    turn_s: Quantiles
    cpu_s: BoundedNumber
    cpu_share: BoundedNumber
    memory: ViewersMemory


_SUMMED: Final = (
    *("due", "shards", "bytes", "requests", "behind", "reopened", "asked_again", "untold"),
    *("most_at_once", "most_playing", "cpu_s"),
)
_SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def together(
    of: Mapping[str, MachineSummary], span_ns: tuple[int, int], lengths_ns: Iterable[int]
) -> dict[str, Any]:
    """One of all machines, who are told by name.

    span_ns: from when to when, by the run's clock; lengths_ns: of all violations in the records.
    """
    (zero_ns, ended_ns), summaries = span_ns, [*of.values()]
    seconds = (ended_ns - zero_ns) / 1e9
    summed = {name: sum(getattr(summary, name) for summary in summaries) for name in _SUMMED}
    violations = {
        name: sum(getattr(summary.violations, name) for summary in summaries)
        for name in Violated.model_fields
    }
    return {
        "format": 1,
        "mode": "fleet",
        "valid": all(summary.valid for summary in summaries),
        "why": [
            f"{name}: {clean(why, 300)}"
            for name, summary in of.items()
            for why in summary.why[:_MOST_WHY]
        ],
        "interrupted": any(summary.interrupted for summary in summaries),
        "started_ns": zero_ns,
        "ended_ns": ended_ns,
        "seconds": seconds,
        **summed,
        "bytes_per_s": summed["bytes"] / seconds if seconds > 0 else 0.0,
        "outcomes": _sum(summary.outcomes for summary in summaries),
        "whys": _sum(summary.whys for summary in summaries),
        "violations": {**violations, "length_s": _quantiles(sorted(ns / 1e9 for ns in lengths_ns))},
        "lateness_s": _worst(summary.lateness_s for summary in summaries),
        "lateness_limit_s": max(summary.lateness_limit_s for summary in summaries),
        "rate_error": _farthest(summary.rate_error for summary in summaries),
        "rate_error_of_viewers": _worst(summary.rate_error_of_viewers for summary in summaries),
        "delivered_error": _farthest(summary.delivered_error for summary in summaries),
        "delivered_error_of_viewers": _worst(
            summary.delivered_error_of_viewers for summary in summaries
        ),
        "turn_s": _worst(summary.turn_s for summary in summaries),
        "cpu_share": max(summary.cpu_share for summary in summaries),
        "memory": _memory(summaries),
    }


def _sum(counts_of_each: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in counts_of_each:
        total.update(counts)
    return dict(total)


def _worst(quantiles_of_each: Iterable[dict[str, float]]) -> dict[str, float]:
    """`count` is no quantile: of how many all of them are."""
    worst: dict[str, float] = {}
    for quantiles in quantiles_of_each:
        for name, value in quantiles.items():
            before = worst.get(name, 0.0)
            worst[name] = before + value if name == "count" else max(before, value)
    return worst


def _farthest(errors: Iterable[float | None]) -> float | None:
    """From 0, with its sign; None: nobody tells."""
    return max((error for error in errors if error is not None), key=abs, default=None)


def _quantiles(ordered: Sequence[float]) -> dict[str, float]:
    """As viewers tell them: values that there are, and the count alone of none."""
    count = len(ordered)
    if not count:
        return {"count": 0}
    ranks = {name: max(math.ceil(share * count), 1) for name, share in _SHARES.items()}
    return {"count": count, **{name: ordered[rank - 1] for name, rank in ranks.items()}}


def _memory(summaries: Sequence[MachineSummary]) -> dict[str, float | None]:
    """What each viewer added to all: a machine tells it of as many as it had at once."""
    grown = [
        (summary.most_at_once, summary.memory.per_viewer_bytes)
        for summary in summaries
        if summary.memory.per_viewer_bytes is not None
    ]
    viewers = sum(most for most, _ in grown)
    return {
        "peak_bytes": sum(summary.memory.peak_bytes for summary in summaries),
        "per_viewer_bytes": sum(most * per_viewer for most, per_viewer in grown) / viewers
        if viewers
        else None,
    }


class NotToBelieveError(Exception):
    """What a machine says of its viewers cannot be so."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason


_SESSION: Final = TypeAdapter(ViewerSession)


@dataclass(frozen=True)
class Came:
    """What came from one machine."""

    name: str
    clock: ClockMap
    """Closed by a look after its viewers were gone."""
    finished: ProgramEnd
    summary: bytes
    sessions: bytes


@dataclass(frozen=True)
class Merged:
    """What came from all."""

    summary: dict[str, Any]
    sessions: bytes
    clock_bound_ns: int
    note: str


def merged(came: Sequence[Came], zero_ns: int, most_bytes: int) -> Merged:
    """One of all. NotToBelieveError.

    zero_ns: where the schedule began; most_bytes: what a viewer can have got of the film.
    """
    machines = [
        _Machine.read(machine, number, len(came), zero_ns, most_bytes)
        for number, machine in enumerate(came)
    ]
    _check_shares(machines)
    ended_ns = max(machine.ended_ns for machine in machines)
    summary = together(
        {machine.came.name: machine.summary for machine in machines},
        (zero_ns, ended_ns),
        [ns for machine in machines for ns in machine.lengths_ns],
    )
    summary["generators"] = [machine.record() for machine in machines]
    bound_ns = max(machine.bound_ns for machine in machines)
    return Merged(
        summary,
        b"".join(machine.lines for machine in machines),
        bound_ns,
        _note(machines, bound_ns),
    )


@dataclass(frozen=True)
class _Machine:
    """What a machine says, after it was checked, on the run's clock."""

    came: Came
    summary: MachineSummary
    off_ns: int
    """So much after the agreed instant its schedule began: no more than clocks can be off."""
    ended_ns: int
    bound_ns: int
    lines: bytes
    """Of its viewers, on the run's clock."""
    lengths_ns: tuple[int, ...]
    """Of their violations."""

    @classmethod
    def read(cls, came: Came, number: int, of: int, zero_ns: int, most_bytes: int) -> _Machine:
        try:
            summary = MachineSummary.model_validate_json(came.summary)
        except ValidationError as error:
            raise NotToBelieveError(came.name, f"its summary: {first_fault(error)}") from None
        if (summary.valid and summary.why) or (not summary.valid and not summary.why):
            raise NotToBelieveError(came.name, "it says both that it is valid and why it is not")
        way = _Way(came, zero_ns)
        off_ns, ended_ns = way.zero(summary.started_ns), way.instant(summary.ended_ns)
        lines, lengths_ns = _lines(came, summary, way, (number, of), most_bytes)
        return cls(came, summary, off_ns, ended_ns, way.bound_ns, lines, lengths_ns)

    def record(self) -> dict[str, Any]:
        """What is kept of it beside the figures of all."""
        done, clock, summary = self.came.finished, self.came.clock, self.summary
        return {
            "name": self.came.name,
            "valid": summary.valid,
            "due": summary.due,
            "process_started_ns": done.start_ns,
            "process_late_ns": done.late_ns,
            "zero_off_ns": self.off_ns,
            "ended_ns": self.ended_ns,
            "clock_shared": clock.shared,
            "clock_bound_ns": self.bound_ns,
            "lateness_s": summary.lateness_s,
            "rate_error": summary.rate_error,
            "delivered_error": summary.delivered_error,
            "turn_s": summary.turn_s,
            "cpu_share": summary.cpu_share,
        }


class _Way:
    """From a machine's instants to the run's, with the widest bound on the way."""

    def __init__(self, came: Came, zero_ns: int) -> None:
        self._came, self._zero_ns = came, zero_ns
        self._first_ns, self._last_ns = zero_ns - EARLY_NS, came.finished.arrived_ns + EARLY_NS
        self.bound_ns = 0

    def instant(self, local_ns: int) -> int:
        """The same on the run's clock. NotToBelieveError: nothing of it can have been then."""
        try:
            at = self._came.clock.to_controller(local_ns)
        except FrameError as error:
            raise NotToBelieveError(self._came.name, f"it tells {error}") from None
        self.bound_ns = max(self.bound_ns, at.hard_ns)
        early, late = self._first_ns - at.hard_ns, self._last_ns + at.hard_ns
        if not early <= at.ns <= late:
            raise NotToBelieveError(
                self._came.name,
                f"it tells of an instant {(at.ns - self._first_ns) / 1e9:+.3f} s from the start,"
                f" where its end was seen {(self._last_ns - self._first_ns) / 1e9:.3f} s after it",
            )
        return at.ns

    def zero(self, local_ns: int) -> int:
        """How long after the agreed instant its schedule began. NotToBelieveError: too long."""
        off_ns = self.instant(local_ns) - self._zero_ns
        # It was told the instant by the look before, from which the clocks went apart until then.
        fix, most_ns = self._came.clock.first.fix, self.bound_ns
        if not self._came.clock.shared:
            most_ns += fix.half_ns + abs(self._zero_ns - fix.local_ns) * WORST_PPB // 10**9
        if abs(off_ns) > most_ns:
            raise NotToBelieveError(
                self._came.name,
                f"its schedule began {off_ns / 1e9:+.3f} s from the agreed instant",
            )
        return off_ns

    def session(self, session: ViewerSession) -> ViewerSession:
        """The same of a viewer."""

        def maybe(local_ns: int | None) -> int | None:
            return None if local_ns is None else self.instant(local_ns)

        return session.model_copy(
            update={
                "due_ns": self.instant(session.due_ns),
                "asked_ns": self.instant(session.asked_ns),
                "answered_ns": maybe(session.answered_ns),
                "first_byte_ns": maybe(session.first_byte_ns),
                "ended_ns": self.instant(session.ended_ns),
                "violations": tuple(
                    violation.model_copy(update={"at_ns": self.instant(violation.at_ns)})
                    for violation in session.violations
                ),
                "node": None if session.node is None else clean(session.node, 60),
                "why": None if session.why is None else clean(session.why, 60),
            }
        )


def _lines(
    came: Came, summary: MachineSummary, way: _Way, share: tuple[int, int], most_bytes: int
) -> tuple[bytes, tuple[int, ...]]:
    """Its viewers' records, and how long their violations were.

    NotToBelieveError where one is missing, or is not of this machine.
    """
    number, of = share
    clients: set[int] = set()
    lengths_ns: list[int] = []
    records: list[str] = []
    *lines, cut = came.sessions.split(b"\n")
    if cut:
        raise NotToBelieveError(came.name, "its last record is cut off")
    for place, line in enumerate(lines, start=1):
        try:
            session = _SESSION.validate_json(line)
        except ValidationError as error:
            raise NotToBelieveError(came.name, f"record {place}: {first_fault(error)}") from None
        strange = summary.valid and session.client // of >= summary.due
        if session.client % of != number or strange or session.client in clients:
            why = f"record {place}: viewer {session.client} is not one of its own, or came twice"
            raise NotToBelieveError(came.name, why)
        if fault := disorder(session) or _impossible(session, most_bytes):
            raise NotToBelieveError(came.name, f"record {place}: {fault}")
        clients.add(session.client)
        lengths_ns += (violation.length_ns for violation in session.violations)
        records.append(json.dumps(way.session(session).model_dump(mode="json")))
    if summary.valid and len(records) != summary.due:
        raise NotToBelieveError(
            came.name, f"of {summary.due} viewers who were due {len(records)} have a record"
        )
    return "".join(f"{line}\n" for line in records).encode(), tuple(lengths_ns)


def _impossible(session: ViewerSession, most_bytes: int) -> str:
    """Why no real viewer can have this record; empty: one can. Such a record could make a wait, a
    standstill or a bandwidth of any size.
    """
    if session.asked_ns < session.due_ns:
        return "it asked before it was due"
    if any(
        violation.at_ns + violation.length_ns > session.ended_ns for violation in session.violations
    ):
        return "a violation outlasts its viewer"
    if session.bytes > most_bytes:
        return f"its viewer got {session.bytes:,} bytes of a film, of which {most_bytes:,} can come"
    if session.bytes and session.first_byte_ns is None:
        return "its viewer got bytes, and never the first"
    return ""


def _check_shares(machines: Sequence[_Machine]) -> None:
    """NotToBelieveError unless viewers came in turn from all: where all came, shares are equal."""
    due = [machine.summary.due for machine in machines]
    fair = [-(-(sum(due) - number) // len(machines)) for number in range(len(machines))]
    if due != fair and all(machine.summary.valid for machine in machines):
        wrong = next(
            number
            for number, (came, share) in enumerate(zip(due, fair, strict=True))
            if came != share
        )
        raise NotToBelieveError(
            machines[wrong].came.name,
            f"of {many(sum(due), 'viewer')} who were due from all machines {due[wrong]:,} came from"
            f" it, whose share is {fair[wrong]:,}: it or another tells of too few",
        )


def _note(machines: Sequence[_Machine], bound_ns: int) -> str:
    """How well all of them did, in a sentence."""
    starts = [machine.came.finished.start_ns for machine in machines]
    shared = sum(machine.came.clock.shared for machine in machines)
    clocks = f"{shared} of {len(machines)} clocks are the run's own"
    if shared < len(machines):
        clocks += f", the others' instants were corrected and are off by at most {span(bound_ns)}"
    apart = span(max(starts) - min(starts))
    note = (
        f"the viewers came from {many(len(machines), 'machine')}, started within {apart}; {clocks}"
    )
    late = [
        span(1e9 * p99)
        for machine in machines
        if (p99 := machine.summary.lateness_s.get("p99")) is not None
    ]
    if not late:
        return note
    scope = "of each" if len(late) == len(machines) else "of each that sent anything"
    return f"{note}; {scope} one send in a hundred was later than {', '.join(late)}"
