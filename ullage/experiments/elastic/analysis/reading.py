"""Reads the folder of an elastic run: all that its metrics and its page know.

What lies there may come from elsewhere, so nothing in it is believed: times must be in order, every
viewer and every node stands once, and what the plan does not have is refused.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from ullage.analysis.energy.integral import Integral, Missing, integrate
from ullage.analysis.energy.series import FOLDER, Stretch, read, series
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.folder import (
    ELASTIC,
    Act,
    ElasticEvent,
    ElasticFinished,
    ElasticResolved,
    Ready,
    RepetitionDone,
    RepetitionOutcome,
    Requested,
    ViewerSession,
    disorder,
)
from ullage.runs.events import Reason, Started, Warned
from ullage.runs.reader import first_start, last_end
from ullage.runs.records import Count, EnergyMeterRecord, addable

# What energy a repetition took: by the first meter that was there, over exactly its own time.
#
# The meter sees the whole host, with the viewers, the front and the controller on it; where these
# stand on other machines, it sees the nodes alone.


def meter(resolved: ElasticResolved) -> EnergyMeterRecord | None:
    """The meter whose figure it is: the plan's first that was there."""
    return next((m for m in resolved.energy_meters if m.channels), None)


def in_words(record: EnergyMeterRecord) -> str:
    """`wall (nut): measured, wall`."""
    first = record.channels[0]
    return f"{record.label} ({record.meter}): {first.method}, {first.scope}"


def stretches(path: Path, resolved: ElasticResolved) -> tuple[Stretch, ...]:
    """What that meter said, session by session; nothing where there is none."""
    record = meter(resolved)
    return read(path / FOLDER / f"{record.label}.jsonl") if record else ()


def metered_sessions(events: Iterable[ElasticEvent]) -> dict[tuple[str, int], str]:
    """(environment, repetition) → the session that ran it."""
    tag, sessions = "", {}
    for event in events:
        if isinstance(event, Started):
            tag = event.tag
        elif isinstance(event, RepetitionDone):
            sessions[event.environment, event.repetition] = tag
    return sessions


def joules(readings: Iterable[Stretch], session: str, outcome: RepetitionOutcome) -> float | None:
    """Energy of all channels of the first one's scope, J.

    None: no stretch of that session covers the whole time without a gap.
    """
    for stretch in readings:
        if stretch.opened.session != session:
            continue
        first = stretch.opened.channels[0]
        parts: list[Integral | Missing] = [
            integrate(series(stretch, channel.name), outcome.start_ns, outcome.end_ns)
            for channel in addable(stretch.opened.channels, first.scope, first.method)
        ]
        integrals_j = [part.joules for part in parts if isinstance(part, Integral)]
        if len(integrals_j) == len(parts):
            return sum(integrals_j)
    return None


LONGEST_NS: Final = 1 << 50
"""No repetition is longer (13 days): a few times that is what a float64 holds to the nanosecond."""


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


_SESSION: Final = TypeAdapter(ViewerSession)


@dataclass(frozen=True)
class Repetition:
    """One repetition in one environment, as it lies in the folder."""

    environment: str
    number: int
    path: Path
    status: Literal["ok", "failed", "invalid", "unfinished"]
    """`invalid`: its generator could not keep its schedule; `unfinished`: the run ended before."""
    reason: Reason | None
    outcome: RepetitionOutcome | None
    acts: tuple[Act, ...] = ()
    sessions: tuple[ViewerSession, ...] = ()
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
    resolved: ElasticResolved
    events: tuple[ElasticEvent, ...]
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
        if first_start(events) is None:
            raise ELASTIC.bad(path, "its journal is missing, or has no beginning")
        done = _done(path, resolved, events)
        readings, sessions = stretches(path, resolved), metered_sessions(events)
        repetitions = (
            _repetition(path, e.key, number, done.get((e.key, number)))
            for e in resolved.environments
            for number in range(resolved.repetitions)
        )
        with_energy = (
            replace(r, energy_j=joules(readings, sessions[r.environment, r.number], r.outcome))
            if r.outcome is not None
            else r
            for r in repetitions
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
        warnings: dict[tuple[str, str], Warned] = {}
        for event in self.events:
            if isinstance(event, Warned):
                warnings.setdefault((event.code, event.message), event)
        return tuple(warnings.values())

    @property
    def started_epoch_ns(self) -> int | None:
        """Of the first session."""
        started = first_start(self.events)
        return None if started is None else started.epoch_ns

    @property
    def finished(self) -> ElasticFinished | None:
        """How the last session ended; None when it did not, or not in order."""
        return last_end(self.events, ElasticFinished)


def _check_resolved(path: Path, r: ElasticResolved) -> None:
    """Refuse numbers that no plan can have."""
    keys = [e.key for e in r.environments]
    if len(set(keys)) != len(keys) or not keys:
        raise ELASTIC.bad(path, "its environments are none, or one stands twice")
    if r.baseline is not None and r.baseline not in keys:
        raise ELASTIC.bad(path, f"no environment {r.baseline!a}")
    if any(e.again_of not in (None, r.baseline) for e in r.environments):
        raise ELASTIC.bad(path, "an environment is the second copy of one that is not its baseline")
    if not (r.room >= 1 and 0 < r.confidence < 1 and 0 <= r.repetitions < 1_000_000):
        raise ELASTIC.bad(path, "room, confidence or repetitions are out of range")
    sent = r.video.bitrate_bps if r.video.sent_bps is None else r.video.sent_bps
    positive = (r.time_scale, r.video.length_s, r.video.bitrate_bps, sent)
    if not all(0 < x < math.inf for x in positive) or not 0 <= r.patience_s < math.inf:
        raise ELASTIC.bad(path, "time_scale, the video or the patience are out of range")
    if r.video.length_s * 1e9 < 1:  # instants are whole nanoseconds
        raise ELASTIC.bad(path, "the video is shorter than an instant")
    if set(r.settings) != set(keys):
        raise ELASTIC.bad(path, "its settings are not those of its environments")
    if not all(0 <= s < math.inf for own in r.settings.values() for s in _held(own)):
        raise ELASTIC.bad(path, "a boot delay is out of range")
    if r.video.length_s * 1e9 >= LONGEST_NS:
        raise ELASTIC.bad(path, "the video is longer than a run can be")


def _held(own: folder.Setting) -> tuple[float, ...]:
    """Seconds that an environment's nodes are held back by."""
    allocation = own.allocation
    drawn = () if allocation is None else (allocation.mean_s, allocation.deviation_s)
    return (own.boot_delay_s, *drawn)


def _done(
    path: Path, resolved: ElasticResolved, events: Iterable[ElasticEvent]
) -> dict[tuple[str, int], RepetitionDone]:
    keys = {e.key for e in resolved.environments}
    done: dict[tuple[str, int], RepetitionDone] = {}
    for event in events:
        if not isinstance(event, RepetitionDone):
            continue
        cell = (event.environment, event.repetition)
        if event.environment not in keys or event.repetition >= resolved.repetitions:
            raise ELASTIC.bad(path, f"repetition {cell[1]} of {cell[0]!a} is not in its plan")
        if cell in done:
            raise ELASTIC.bad(
                path, f"repetition {cell[1]} of {cell[0]!a} stands in the journal twice"
            )
        done[cell] = event
    return done


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
    _hold(path, place, done)
    outcome = folder.read_outcome(place)
    viewers = ELASTIC.read(place, folder.VIEWERS, ViewersSummary)
    if outcome is None or viewers is None:
        raise ELASTIC.bad(
            place, "the journal has it, but its outcome or its viewers' summary is missing"
        )
    if (outcome.environment, outcome.repetition) != (environment, number):
        raise ELASTIC.bad(place, "its outcome is that of another repetition")
    if not outcome.start_ns <= outcome.end_ns < outcome.start_ns + LONGEST_NS:
        raise ELASTIC.bad(place, "it ends before it starts, or lasts for ever")
    _check_meters(place, outcome)
    acts, torn = _acts(place, outcome)
    return Repetition(
        environment,
        number,
        place,
        "ok" if viewers.valid else "invalid",
        None if viewers.valid else _invalid(viewers),
        outcome,
        acts,
        _sessions(place, outcome),
        viewers,
        torn=torn,
    )


def _hold(run: Path, place: Path, done: RepetitionDone) -> None:
    """What is read of a repetition is what the journal has of it, in the run's own folder."""
    if place.resolve() != run.resolve() / place.relative_to(run):
        raise ELASTIC.bad(run, f"{place.relative_to(run)} leads elsewhere")
    for name in (folder.OUTCOME, folder.VIEWERS, folder.SESSIONS, folder.CONTROLLER_LOG):
        ELASTIC.hold(run, str((place / name).relative_to(run)), done.files)


def _invalid(viewers: ViewersSummary) -> Reason:
    why = "; ".join(viewers.why) or "the generator does not say why"
    return Reason(code="viewers-invalid", message=why)


def _check_meters(place: Path, outcome: RepetitionOutcome) -> None:
    if not all(math.isfinite(x) for of in outcome.meters.values() for x in of.values()):
        raise ELASTIC.bad(place, "a meter's reading is no number")


def _sessions(place: Path, outcome: RepetitionOutcome) -> tuple[ViewerSession, ...]:
    if not os.path.lexists(place / folder.SESSIONS):
        raise ELASTIC.bad(place, f"{folder.SESSIONS} is missing")
    sessions: dict[int, ViewerSession] = {}
    lines = ELASTIC.read_lines(place, folder.SESSIONS, _SESSION).records
    for number, session in enumerate(lines, start=1):
        where = f"{folder.SESSIONS}, line {number}"
        if session.client in sessions:
            raise ELASTIC.bad(place, f"{where}: viewer {session.client} stands there twice")
        if fault := disorder(session) or _misplaced(session, outcome):
            raise ELASTIC.bad(place, f"{where}: {fault}")
        sessions[session.client] = session
    return tuple(sessions.values())


def _misplaced(s: ViewerSession, outcome: RepetitionOutcome) -> str:
    if abs(s.due_ns - outcome.start_ns) >= LONGEST_NS or s.ended_ns - s.due_ns >= LONGEST_NS:
        return "its instants are not of this repetition"
    return ""


def _acts(place: Path, outcome: RepetitionOutcome) -> tuple[tuple[Act, ...], bool]:
    """What the controller did; and whether its last line is not whole."""
    if not os.path.lexists(place / folder.CONTROLLER_LOG):
        raise ELASTIC.bad(place, f"{folder.CONTROLLER_LOG} is missing")
    log = folder.read_log(place)
    acts = log.records
    asked_nodes = [act.node for act in acts if isinstance(act, Requested)]
    ready = [act for act in acts if isinstance(act, Ready)]
    if len(set(asked_nodes)) != len(asked_nodes) or len({act.node for act in ready}) != len(ready):
        raise ELASTIC.bad(place, f"{folder.CONTROLLER_LOG}: a node stands there twice")
    if any(abs(act.at_ns - outcome.start_ns) >= LONGEST_NS for act in acts):
        raise ELASTIC.bad(place, f"{folder.CONTROLLER_LOG}: an instant is not of this repetition")
    for act in ready:
        stages = (act.injected_s, *act.stages.values())
        if not all(0 <= x < math.inf for x in stages):
            raise ELASTIC.bad(
                place, f"{folder.CONTROLLER_LOG}: node {act.node} has an impossible stage"
            )
    return acts, log.torn
