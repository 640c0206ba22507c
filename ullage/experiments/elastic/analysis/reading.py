"""Reads the folder of an elastic run: all that its metrics and its page know.

What lies there may come from elsewhere, so nothing in it is believed: times must be in order, every
viewer and every node stands once, and what the plan does not have is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ullage.analysis.energy.integral import Integral, Missing, integrate
from ullage.analysis.energy.series import FOLDER, Stretch, read, series
from ullage.common.errors import RUN_BAD_FORMAT, UllageError
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.folder import (
    Act,
    Asked,
    Event,
    Finished,
    Outcome,
    Ready,
    RepetitionDone,
    Resolved,
)
from ullage.runs.events import Reason, Started, Warned
from ullage.runs.records import EnergyMeterRecord, Nanoseconds, Record, addable

# What energy a repetition took: by the first meter that was there, over exactly its own time.
#
# The meter sees the whole host, with the viewers, the front and the controller on it; where these
# stand on other machines, it sees the nodes alone.


def meter(resolved: Resolved) -> EnergyMeterRecord | None:
    """The meter whose figure it is: the plan's first that was there."""
    return next((m for m in resolved.energy_meters if m.channels), None)


def in_words(found: EnergyMeterRecord) -> str:
    """`wall (nut): measured, wall`."""
    first = found.channels[0]
    return f"{found.label} ({found.meter}): {first.method}, {first.scope}"


def stretches(path: Path, resolved: Resolved) -> tuple[Stretch, ...]:
    """What that meter said, session by session; nothing where there is none."""
    found = meter(resolved)
    return read(path / FOLDER / f"{found.label}.jsonl") if found else ()


def metered_sessions(events: Iterable[Event]) -> dict[tuple[str, int], str]:
    """(environment, repetition) → the session that ran it."""
    tag, found = "", {}
    for event in events:
        if isinstance(event, Started):
            tag = event.tag
        elif isinstance(event, RepetitionDone):
            found[event.environment, event.repetition] = tag
    return found


def joules(said: Iterable[Stretch], session: str, outcome: Outcome) -> float | None:
    """Energy of all channels of the first one's scope, J.

    None: no stretch of that session covers the whole time without a gap.
    """
    for stretch in said:
        if stretch.opened.session != session:
            continue
        first = stretch.opened.channels[0]
        parts: list[Integral | Missing] = [
            integrate(series(stretch, each.name), outcome.start_ns, outcome.end_ns)
            for each in addable(stretch.opened.channels, first.scope, first.method)
        ]
        known = [part.joules for part in parts if isinstance(part, Integral)]
        if len(known) == len(parts):
            return sum(known)
    return None


LONGEST_NS: Final = 1 << 50
"""No repetition is longer (13 days): a few times that is what a float64 holds to the nanosecond."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class Violation(Record):
    """A time in which a viewer's player had nothing to play."""

    at_ns: Nanoseconds
    length_ns: Nanoseconds


class Session(Record):
    """One viewer, from the instant at which he was due: a line of `sessions.jsonl`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    client: Annotated[int, Field(ge=0, lt=1 << 64)]
    due_ns: Nanoseconds
    """When the plan of arrivals had him come."""
    asked_ns: Nanoseconds
    """When he really asked the front: later, if the generator was late."""
    answered_ns: Nanoseconds | None = None
    """When the front had sent him to a node, or away."""
    node: str | None = None
    first_byte_ns: Nanoseconds | None = None
    ended_ns: Nanoseconds
    outcome: Literal["served", "blocked", "refused", "failed", "cut"]
    why: str | None = None
    bytes: Count = 0
    violations: tuple[Violation, ...] = ()

    @property
    def was_served(self) -> bool:
        """He got some of the video, whatever became of it then."""
        return self.first_byte_ns is not None

    @property
    def was_affected(self) -> bool:
        """He was served, and the video stood still, or broke off before its end."""
        return self.was_served and (bool(self.violations) or self.outcome != "served")


class ViewersSummary(BaseModel):
    """What the generator says of itself: `viewers.json`, as far as it is used here."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    valid: bool
    """False: it was too late, or ran out of something; then no figure of the repetition counts."""
    why: tuple[str, ...] = ()
    due: Count | None = None
    """Viewers who were due."""
    untold: Count = 0
    """Viewers who were gone, and could not tell the front: it has kept their places."""
    lateness_s: dict[str, float] = {}
    """Quantile → seconds after its instant at which a request was sent: `p50`, `p99`, `max`."""


_SESSION: Final = TypeAdapter(Session)


@dataclass(frozen=True)
class Repetition:
    """One repetition in one environment, as it lies in the folder."""

    environment: str
    number: int
    path: Path
    status: Literal["ok", "failed", "invalid", "unfinished"]
    """`invalid`: its generator could not keep its schedule; `unfinished`: the run ended before."""
    reason: Reason | None
    outcome: Outcome | None
    acts: tuple[Act, ...] = ()
    sessions: tuple[Session, ...] = ()
    viewers: ViewersSummary | None = None
    energy_j: float | None = None
    """None: no meter, or not for the whole time."""
    torn: bool = False
    """The last line of `controller.jsonl` is not whole, and left out."""

    @property
    def counts(self) -> bool:
        """Does it have figures?"""
        return self.status == "ok" and self.outcome is not None


@dataclass(frozen=True)
class ElasticRun:
    path: Path
    resolved: Resolved
    events: tuple[Event, ...]
    repetitions: tuple[Repetition, ...]
    """In the order of the environments, then by number; each that was begun."""

    @classmethod
    def open(cls, path: Path) -> ElasticRun:
        """Read the run in `path`. RUN_NOT_FOUND, RUN_BAD_FORMAT.

        A last line without its newline was never acknowledged and is left out, in any of its files.
        """
        resolved = folder.read_resolved(path)
        _check_resolved(path, resolved)
        events = folder.read_events(path)
        if not any(isinstance(e, Started) for e in events):
            raise _bad(path, "its journal is missing, or has no beginning")
        done = _done(path, resolved, events)
        said, sessions = stretches(path, resolved), metered_sessions(events)
        found = (
            _repetition(path, e.key, number, done.get((e.key, number)))
            for e in resolved.environments
            for number in range(resolved.repetitions)
        )
        with_energy = (
            replace(r, energy_j=joules(said, sessions[r.environment, r.number], r.outcome))
            if r.outcome is not None
            else r
            for r in found
            if r is not None
        )
        return cls(path, resolved, events, tuple(with_energy))

    def of(self, environment: str) -> list[Repetition]:
        """The repetitions of an environment, by number."""
        return [r for r in self.repetitions if r.environment == environment]

    def label(self, environment: str) -> str:
        """What tables call it."""
        return next(e.label for e in self.resolved.environments if e.key == environment)

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """What the controller warned of: once, though each session of a run says it again."""
        found: dict[tuple[str, str], Warned] = {}
        for event in self.events:
            if isinstance(event, Warned):
                found.setdefault((event.code, event.message), event)
        return tuple(found.values())

    @property
    def started_epoch_ns(self) -> int | None:
        """Of the first session."""
        return next((e.epoch_ns for e in self.events if isinstance(e, Started)), None)

    @property
    def finished(self) -> Finished | None:
        """How the last session ended; None when it did not, or not in order."""
        for event in reversed(self.events):
            if isinstance(event, Finished | Started):
                return event if isinstance(event, Finished) else None
        return None


def _check_resolved(path: Path, r: Resolved) -> None:
    """Refuse numbers that no plan can have."""
    keys = [e.key for e in r.environments]
    if len(set(keys)) != len(keys) or not keys:
        raise _bad(path, "its environments are none, or one stands twice")
    if r.baseline is not None and r.baseline not in keys:
        raise _bad(path, f"no environment {r.baseline!a}")
    if any(e.again_of not in (None, r.baseline) for e in r.environments):
        raise _bad(path, "an environment is the second copy of one that is not its baseline")
    if not (r.room >= 1 and 0 < r.confidence < 1 and 0 <= r.repetitions < 1_000_000):
        raise _bad(path, "room, confidence or repetitions are out of range")
    positive = (r.time_scale, r.video.length_s, r.video.bitrate_bps)
    if not all(0 < x < math.inf for x in positive) or not 0 <= r.patience_s < math.inf:
        raise _bad(path, "time_scale, the video or the patience are out of range")
    if r.video.length_s * 1e9 < 1:  # instants are whole nanoseconds
        raise _bad(path, "the video is shorter than an instant")
    if set(r.settings) != set(keys):
        raise _bad(path, "its settings are not those of its environments")
    if not all(0 <= s.boot_delay_s < math.inf for s in r.settings.values()):
        raise _bad(path, "a boot delay is out of range")
    if r.video.length_s * 1e9 >= LONGEST_NS:
        raise _bad(path, "the video is longer than a run can be")


def _done(
    path: Path, resolved: Resolved, events: Iterable[Event]
) -> dict[tuple[str, int], RepetitionDone]:
    keys = {e.key for e in resolved.environments}
    found: dict[tuple[str, int], RepetitionDone] = {}
    for event in events:
        if not isinstance(event, RepetitionDone):
            continue
        cell = (event.environment, event.repetition)
        if event.environment not in keys or event.repetition >= resolved.repetitions:
            raise _bad(path, f"repetition {cell[1]} of {cell[0]!a} is not in its plan")
        if cell in found:
            raise _bad(path, f"repetition {cell[1]} of {cell[0]!a} stands in the journal twice")
        found[cell] = event
    return found


def _repetition(
    path: Path, environment: str, number: int, done: RepetitionDone | None
) -> Repetition | None:
    """None when it was not even begun."""
    place = folder.repetition_folder(path, environment, number)
    if done is None:
        if not place.is_dir():
            return None
        return Repetition(environment, number, place, "unfinished", None, None)
    if done.status != "ok":
        # How far it came is told; what it wrote may end anywhere and is not read.
        return Repetition(environment, number, place, done.status, done.reason, None)
    outcome, viewers = folder.read_outcome(place), _viewers(place)
    if outcome is None or viewers is None:
        raise _bad(place, "the journal has it, but its outcome or its viewers' summary is missing")
    if (outcome.environment, outcome.repetition) != (environment, number):
        raise _bad(place, "its outcome is that of another repetition")
    if not outcome.start_ns <= outcome.end_ns < outcome.start_ns + LONGEST_NS:
        raise _bad(place, "it ends before it starts, or lasts for ever")
    _check_meters(place, outcome)
    read = Repetition(
        environment,
        number,
        place,
        "ok" if viewers.valid else "invalid",
        None if viewers.valid else _invalid(viewers),
        outcome,
        _acts(place, outcome),
        _sessions(place, outcome),
        viewers,
        torn=not _whole(place / folder.CONTROLLER_LOG),
    )
    return read


def _invalid(viewers: ViewersSummary) -> Reason:
    said = "; ".join(viewers.why) or "the generator does not say why"
    return Reason(code="viewers-invalid", message=said)


def _check_meters(place: Path, outcome: Outcome) -> None:
    if not all(math.isfinite(x) for of in outcome.meters.values() for x in of.values()):
        raise _bad(place, "a meter's reading is no number")


def _viewers(place: Path) -> ViewersSummary | None:
    file = place / folder.VIEWERS
    if not file.is_file():
        return None
    try:
        return ViewersSummary.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise _bad(place, f"{folder.VIEWERS}: {_first(error)}") from error


def _sessions(place: Path, outcome: Outcome) -> tuple[Session, ...]:
    file = place / folder.SESSIONS
    if not file.is_file():
        raise _bad(place, f"{folder.SESSIONS} is missing")
    *lines, _ = file.read_bytes().split(b"\n")
    found, seen = [], set()
    for number, line in enumerate(lines, start=1):
        where = f"{folder.SESSIONS}, line {number}"
        try:
            session = _SESSION.validate_json(line)
        except ValidationError as error:
            raise _bad(place, f"{where}: {_first(error)}") from error
        if session.client in seen:
            raise _bad(place, f"{where}: viewer {session.client} stands there twice")
        if fault := disorder(session) or _misplaced(session, outcome):
            raise _bad(place, f"{where}: {fault}")
        seen.add(session.client)
        found.append(session)
    return tuple(found)


def disorder(s: Session) -> str:
    """What cannot be about a viewer's instants among themselves; empty when all is well."""
    given = (s.asked_ns, s.answered_ns, s.first_byte_ns, s.ended_ns)
    known = [t for t in given if t is not None]
    if known != sorted(known):
        return "its instants are not in order"
    if s.outcome == "served" and (s.answered_ns is None or s.first_byte_ns is None):
        return "it was served, but has no answer or no first byte"
    return ""


def _misplaced(s: Session, outcome: Outcome) -> str:
    if abs(s.due_ns - outcome.start_ns) >= LONGEST_NS or s.ended_ns - s.due_ns >= LONGEST_NS:
        return "its instants are not of this repetition"
    return ""


def _acts(place: Path, outcome: Outcome) -> tuple[Act, ...]:
    if not (place / folder.CONTROLLER_LOG).is_file():
        raise _bad(place, f"{folder.CONTROLLER_LOG} is missing")
    acts = folder.read_acts(place)
    asked = [act.node for act in acts if isinstance(act, Asked)]
    ready = [act for act in acts if isinstance(act, Ready)]
    if len(set(asked)) != len(asked) or len({act.node for act in ready}) != len(ready):
        raise _bad(place, f"{folder.CONTROLLER_LOG}: a node stands there twice")
    if any(abs(act.at_ns - outcome.start_ns) >= LONGEST_NS for act in acts):
        raise _bad(place, f"{folder.CONTROLLER_LOG}: an instant is not of this repetition")
    for act in ready:
        stages = (act.injected_s, *act.stages.values())
        if not all(0 <= x < math.inf for x in stages):
            raise _bad(place, f"{folder.CONTROLLER_LOG}: node {act.node} has an impossible stage")
    return acts


def _whole(log: Path) -> bool:
    """Does it end with the end of a line?"""
    *_, rest = log.read_bytes().split(b"\n")
    return not rest


def _first(error: ValidationError) -> str:
    """The first complaint, without the input: that may be long, and a guest's."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ascii(".".join(str(part) for part in fault["loc"])[:80]).strip("'")
    return f"{where}: {fault['msg']}" if where else fault["msg"]


def _bad(path: Path, reason: str) -> UllageError:
    form = f"{folder.KIND} {folder.FORMAT}"
    return UllageError(RUN_BAD_FORMAT, path=path, format=form, reason=reason)
