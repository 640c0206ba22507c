"""One record of viewers who came from several machines, on the run's clock.

What comes from a machine is untrusted: every field is checked, nobody may tell of another machine's
viewers, and no instant may lie outside of what was seen from here, or before the one that it
follows. The summary of all is made by `ullage.experiments.elastic.run.merging`.
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
from ullage.environments.agent.client import Finished
from ullage.environments.agent.clock import WORST_PPB, ClockMap
from ullage.environments.agent.frames import FrameError
from ullage.experiments.clock.view import span
from ullage.experiments.elastic.analysis.reading import Session, disorder
from ullage.runs.records import Nanoseconds

# What each machine says of its viewers, and one summary of all.
#
# Counts, CPU time and memory are summed, and what follows from sums (bytes in a second, the memory
# of a viewer) is worked out from them. The lengths of violations are in the records, so their
# quantiles are those of all. The quantiles of lateness, of turns and of the viewers' rates, and the
# errors of rates, are told without what they were made of, so they cannot be put together: the
# worst machine's stand, and what each machine said is in a file of its own. Every field is there;
# of a machine's reasons against itself the first few.

Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Signed = Annotated[float, Field(ge=-1e18, le=1e18, allow_inf_nan=False)]
Quantity = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=40, pattern=r"^[a-z0-9.-]+$")]
Counts = Annotated[dict[Name, Count], Field(max_length=64)]
Quantiles = Annotated[dict[Name, Quantity], Field(max_length=16)]

_MOST_WHY: Final = 8


class Violated(BaseModel):
    """Violations, as viewers count them."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    count: Count
    viewers: Count
    served: Count


class Memory(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    peak_bytes: Count
    per_viewer_bytes: Quantity | None


class Told(BaseModel):
    """The summary of a machine's viewers (docs/guide/elastic-viewers.md), and no less of it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    valid: bool
    why: Annotated[list[str], Field(max_length=2000)]
    interrupted: bool
    started_ns: Nanoseconds
    ended_ns: Nanoseconds
    due: Count
    outcomes: Counts
    whys: Counts
    violations: Violated
    shards: Count
    bytes: Count
    requests: Count
    behind: Count
    reopened: Count
    asked_again: Count
    untold: Count
    most_at_once: Count
    most_playing: Count
    lateness_s: Quantiles
    lateness_limit_s: Quantity
    rate_error: Signed | None
    rate_error_of_viewers: Quantiles
    delivered_error: Signed | None
    delivered_error_of_viewers: Quantiles
    turn_s: Quantiles
    cpu_s: Quantity
    cpu_share: Quantity
    memory: Memory


_SUMMED: Final = (
    *("due", "shards", "bytes", "requests", "behind", "reopened", "asked_again", "untold"),
    *("most_at_once", "most_playing", "cpu_s"),
)
_SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def together(
    of: Mapping[str, Told], span_ns: tuple[int, int], lengths_ns: Iterable[int]
) -> dict[str, Any]:
    """One of all machines, who are told by name.

    span_ns: from when to when, by the run's clock; lengths_ns: of all violations in the records.
    """
    (zero_ns, ended_ns), told = span_ns, [*of.values()]
    seconds = (ended_ns - zero_ns) / 1e9
    summed = {name: sum(getattr(one, name) for one in told) for name in _SUMMED}
    violations = {
        name: sum(getattr(one.violations, name) for one in told) for name in Violated.model_fields
    }
    return {
        "format": 1,
        "mode": "fleet",
        "valid": all(one.valid for one in told),
        "why": [
            f"{name}: {clean(why, 300)}" for name, one in of.items() for why in one.why[:_MOST_WHY]
        ],
        "interrupted": any(one.interrupted for one in told),
        "started_ns": zero_ns,
        "ended_ns": ended_ns,
        "seconds": seconds,
        **summed,
        "bytes_per_s": summed["bytes"] / seconds if seconds > 0 else 0.0,
        "outcomes": _sum(one.outcomes for one in told),
        "whys": _sum(one.whys for one in told),
        "violations": {**violations, "length_s": _quantiles(sorted(ns / 1e9 for ns in lengths_ns))},
        "lateness_s": _worst(one.lateness_s for one in told),
        "lateness_limit_s": max(one.lateness_limit_s for one in told),
        "rate_error": _farthest(one.rate_error for one in told),
        "rate_error_of_viewers": _worst(one.rate_error_of_viewers for one in told),
        "delivered_error": _farthest(one.delivered_error for one in told),
        "delivered_error_of_viewers": _worst(one.delivered_error_of_viewers for one in told),
        "turn_s": _worst(one.turn_s for one in told),
        "cpu_share": max(one.cpu_share for one in told),
        "memory": _memory(told),
    }


def _sum(each: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in each:
        total.update(one)
    return dict(total)


def _worst(each: Iterable[dict[str, float]]) -> dict[str, float]:
    """`count` is no quantile: of how many all of them are."""
    worst: dict[str, float] = {}
    for one in each:
        for name, value in one.items():
            before = worst.get(name, 0.0)
            worst[name] = before + value if name == "count" else max(before, value)
    return worst


def _farthest(each: Iterable[float | None]) -> float | None:
    """From 0, with its sign; None: nobody tells."""
    return max((one for one in each if one is not None), key=abs, default=None)


def _quantiles(ordered: Sequence[float]) -> dict[str, float]:
    """As viewers tell them: values that there are, and the count alone of none."""
    count = len(ordered)
    if not count:
        return {"count": 0}
    ranks = {name: max(math.ceil(share * count), 1) for name, share in _SHARES.items()}
    return {"count": count, **{name: ordered[rank - 1] for name, rank in ranks.items()}}


def _memory(told: Sequence[Told]) -> dict[str, float | None]:
    """What each viewer added to all: a machine tells it of as many as it had at once."""
    grown = [
        (one.most_at_once, one.memory.per_viewer_bytes)
        for one in told
        if one.memory.per_viewer_bytes is not None
    ]
    viewers = sum(most for most, _ in grown)
    return {
        "peak_bytes": sum(one.memory.peak_bytes for one in told),
        "per_viewer_bytes": sum(most * each for most, each in grown) / viewers if viewers else None,
    }


_EARLY_NS: Final = 1_000_000
"""What is written down about one instant may be read just before it; see `engine/program.py`."""


class NotToBelieveError(Exception):
    """What a machine says of its viewers cannot be so."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason


_SESSION: Final = TypeAdapter(Session)


@dataclass(frozen=True)
class Came:
    """What came from one machine."""

    name: str
    clock: ClockMap
    """Closed by a look after its viewers were gone."""
    finished: Finished
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
    each = [
        _One.read(one, number, len(came), zero_ns, most_bytes) for number, one in enumerate(came)
    ]
    _check_shares(each)
    ended_ns = max(one.ended_ns for one in each)
    summary = together(
        {one.came.name: one.told for one in each},
        (zero_ns, ended_ns),
        [ns for one in each for ns in one.lengths_ns],
    )
    summary["generators"] = [one.record() for one in each]
    bound_ns = max(one.bound_ns for one in each)
    return Merged(summary, b"".join(one.lines for one in each), bound_ns, _note(each, bound_ns))


@dataclass(frozen=True)
class _One:
    """One machine, believed."""

    came: Came
    told: Told
    off_ns: int
    """So much after the agreed instant its schedule began: no more than clocks can be off."""
    ended_ns: int
    bound_ns: int
    lines: bytes
    """Of its viewers, on the run's clock."""
    lengths_ns: tuple[int, ...]
    """Of their violations."""

    @classmethod
    def read(cls, came: Came, number: int, of: int, zero_ns: int, most_bytes: int) -> _One:
        try:
            told = Told.model_validate_json(came.summary)
        except ValidationError as error:
            raise NotToBelieveError(came.name, f"its summary: {first_fault(error)}") from None
        if (told.valid and told.why) or (not told.valid and not told.why):
            raise NotToBelieveError(came.name, "it says both that it is valid and why it is not")
        way = _Way(came, zero_ns)
        off_ns, ended_ns = way.zero(told.started_ns), way.instant(told.ended_ns)
        lines, lengths_ns = _lines(came, told, way, (number, of), most_bytes)
        return cls(came, told, off_ns, ended_ns, way.bound_ns, lines, lengths_ns)

    def record(self) -> dict[str, Any]:
        """What is kept of it beside the figures of all."""
        done, ours, told = self.came.finished, self.came.clock, self.told
        return {
            "name": self.came.name,
            "valid": told.valid,
            "due": told.due,
            "process_started_ns": done.start_ns,
            "process_late_ns": done.late_ns,
            "zero_off_ns": self.off_ns,
            "ended_ns": self.ended_ns,
            "clock_shared": ours.shared,
            "clock_bound_ns": self.bound_ns,
            "lateness_s": told.lateness_s,
            "rate_error": told.rate_error,
            "delivered_error": told.delivered_error,
            "turn_s": told.turn_s,
            "cpu_share": told.cpu_share,
        }


class _Way:
    """From a machine's instants to the run's, with the widest bound on the way."""

    def __init__(self, came: Came, zero_ns: int) -> None:
        self._came, self._zero_ns = came, zero_ns
        self._first_ns, self._last_ns = zero_ns - _EARLY_NS, came.finished.arrived_ns + _EARLY_NS
        self.bound_ns = 0

    def instant(self, local_ns: int) -> int:
        """The same on the run's clock. NotToBelieveError: nothing of it can have been then."""
        try:
            found = self._came.clock.to_controller(local_ns)
        except FrameError as error:
            raise NotToBelieveError(self._came.name, f"it tells {error}") from None
        self.bound_ns = max(self.bound_ns, found.hard_ns)
        early, late = self._first_ns - found.hard_ns, self._last_ns + found.hard_ns
        if not early <= found.ns <= late:
            raise NotToBelieveError(
                self._came.name,
                f"it tells of an instant {(found.ns - self._first_ns) / 1e9:+.3f} s from the start,"
                f" where its end was seen {(self._last_ns - self._first_ns) / 1e9:.3f} s after it",
            )
        return found.ns

    def zero(self, local_ns: int) -> int:
        """How long after the agreed instant its schedule began. NotToBelieveError: too long."""
        off_ns = self.instant(local_ns) - self._zero_ns
        # It was told the instant by the look before, from which the clocks went apart until then.
        told, most_ns = self._came.clock.first.fix, self.bound_ns
        if not self._came.clock.shared:
            most_ns += told.half_ns + abs(self._zero_ns - told.local_ns) * WORST_PPB // 10**9
        if abs(off_ns) > most_ns:
            raise NotToBelieveError(
                self._came.name,
                f"its schedule began {off_ns / 1e9:+.3f} s from the agreed instant",
            )
        return off_ns

    def session(self, told: Session) -> Session:
        """The same of a viewer."""

        def maybe(local_ns: int | None) -> int | None:
            return None if local_ns is None else self.instant(local_ns)

        return told.model_copy(
            update={
                "due_ns": self.instant(told.due_ns),
                "asked_ns": self.instant(told.asked_ns),
                "answered_ns": maybe(told.answered_ns),
                "first_byte_ns": maybe(told.first_byte_ns),
                "ended_ns": self.instant(told.ended_ns),
                "violations": tuple(
                    each.model_copy(update={"at_ns": self.instant(each.at_ns)})
                    for each in told.violations
                ),
                "node": None if told.node is None else clean(told.node, 60),
                "why": None if told.why is None else clean(told.why, 60),
            }
        )


def _lines(
    came: Came, told: Told, way: _Way, share: tuple[int, int], most_bytes: int
) -> tuple[bytes, tuple[int, ...]]:
    """Its viewers' records, and how long their violations were.

    NotToBelieveError where one is missing, or is not of this machine.
    """
    number, of = share
    seen: set[int] = set()
    lengths_ns: list[int] = []
    found: list[str] = []
    *lines, rest = came.sessions.split(b"\n")
    if rest:
        raise NotToBelieveError(came.name, "its last record is cut off")
    for place, line in enumerate(lines, start=1):
        try:
            session = _SESSION.validate_json(line)
        except ValidationError as error:
            raise NotToBelieveError(came.name, f"record {place}: {first_fault(error)}") from None
        strange = told.valid and session.client // of >= told.due
        if session.client % of != number or strange or session.client in seen:
            why = f"record {place}: viewer {session.client} is not one of its own, or came twice"
            raise NotToBelieveError(came.name, why)
        if fault := disorder(session) or _impossible(session, most_bytes):
            raise NotToBelieveError(came.name, f"record {place}: {fault}")
        seen.add(session.client)
        lengths_ns += (each.length_ns for each in session.violations)
        found.append(json.dumps(way.session(session).model_dump(mode="json")))
    if told.valid and len(found) != told.due:
        raise NotToBelieveError(
            came.name, f"of {told.due} viewers who were due {len(found)} have a record"
        )
    return "".join(f"{line}\n" for line in found).encode(), tuple(lengths_ns)


def _impossible(told: Session, most_bytes: int) -> str:
    """What no viewer does, and would make a wait, a standstill or a bandwidth of any size; empty:
    nothing.
    """
    if told.asked_ns < told.due_ns:
        return "it asked before it was due"
    if any(each.at_ns + each.length_ns > told.ended_ns for each in told.violations):
        return "a violation outlasts its viewer"
    if told.bytes > most_bytes:
        return f"its viewer got {told.bytes:,} bytes of a film, of which {most_bytes:,} can come"
    if told.bytes and told.first_byte_ns is None:
        return "its viewer got bytes, and never the first"
    return ""


def _check_shares(each: Sequence[_One]) -> None:
    """NotToBelieveError unless viewers came in turn from all: where all came, shares are equal."""
    due = [one.told.due for one in each]
    fair = [-(-(sum(due) - number) // len(each)) for number in range(len(each))]
    if due != fair and all(one.told.valid for one in each):
        wrong = next(
            number
            for number, (one, other) in enumerate(zip(due, fair, strict=True))
            if one != other
        )
        raise NotToBelieveError(
            each[wrong].came.name,
            f"of {many(sum(due), 'viewer')} who were due from all machines {due[wrong]:,} came from"
            f" it, whose share is {fair[wrong]:,}: it or another tells of too few",
        )


def _note(each: Sequence[_One], bound_ns: int) -> str:
    """How well all of them did, in a sentence."""
    starts = [one.came.finished.start_ns for one in each]
    shared = sum(one.came.clock.shared for one in each)
    clocks = f"{shared} of {len(each)} clocks are the run's own"
    if shared < len(each):
        clocks += f", the others' instants were corrected and are off by at most {span(bound_ns)}"
    apart = span(max(starts) - min(starts))
    told = f"the viewers came from {many(len(each), 'machine')}, started within {apart}; {clocks}"
    late = [span(1e9 * p99) for one in each if (p99 := one.told.lateness_s.get("p99")) is not None]
    if not late:
        return told
    whose = "of each" if len(late) == len(each) else "of each that sent anything"
    return f"{told}; {whose} one send in a hundred was later than {', '.join(late)}"
