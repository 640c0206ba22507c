"""The folder of an elastic run: what lies where, and the records in it.

    RUN/plan.yaml                           as the user wrote it
    RUN/trace.txt                           the instants of `arrivals: {kind: trace}`, as given
    RUN/resolved.json                       `ElasticResolved`: the plan as it was understood
    RUN/journal.jsonl                       `ElasticEvent`s, fsynced: repetitions, warnings, ends
    RUN/repetitions/ENVIRONMENT/NNN/        one repetition; ENVIRONMENT is `naming.slug(key)`
        front.jsonl                         the front's own log of events and actions
        controller.jsonl                    `Act`s: what was allocated and released, with times
        viewers.json, sessions.jsonl        the viewers' summary, and one record a viewer
        outcome.json                        `RepetitionOutcome`: how the repetition ended
        front.json, viewers-config.json     what the two programs were told
        front.stderr, viewers.stderr        what they said beside
        generators/                         viewers from several machines: all told and said

Instants `*_ns` are nanoseconds of the run's global clock (`ullage.host.clock`) unless the name says
`epoch`; durations are real seconds. `ElasticResolved` has the users' time too, before the division.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from ullage.common.errors import CLOUD_QUOTA
from ullage.common.text import slug
from ullage.runs.events import ProcessClock, Reason, Started, Warned
from ullage.runs.reader import FolderKind, Lines
from ullage.runs.records import (
    Count,
    Digests,
    EnergyMeterRecord,
    EnvironmentRecord,
    Finite,
    ImageRecord,
    Metered,
    Nanoseconds,
    Natural,
    NodeRecord,
    Record,
    Seconds,
    Seed,
    ServicePrice,
    Share,
)

FORMAT: Final = 1
TRACE: Final = "trace.txt"
REPETITIONS: Final = "repetitions"

FRONT_LOG: Final = "front.jsonl"
CONTROLLER_LOG: Final = "controller.jsonl"
VIEWERS: Final = "viewers.json"
SESSIONS: Final = "sessions.jsonl"
OUTCOME: Final = "outcome.json"
FRONT_CONFIG: Final = "front.json"
VIEWERS_CONFIG: Final = "viewers-config.json"
FRONT_STDERR: Final = "front.stderr"
VIEWERS_STDERR: Final = "viewers.stderr"
GENERATORS: Final = "generators"

Status = Literal["ok", "failed", "invalid"]
"""`failed`: it did not come to its end; `invalid`: it did, and its figures mean nothing."""


class Video(Record):
    """What every viewer watches, in real time."""

    bytes: Count
    """Of the whole clip."""
    bitrate_bps: Finite
    """Bits a second at which it is watched."""
    length_s: Seconds
    """Real seconds from its first frame to its last."""
    kind: Literal["h264", "bytes"]
    """A real clip, or bytes of the right number."""
    sha256: str
    made_by: str
    """`ffmpeg 5.1.9 …`, or what made the bytes."""
    sent_bps: Finite | None = Field(None, exclude_if=lambda given: given is None)
    """At which it is read; None: as it is watched."""


class AllocationDraw(Record):
    """What nodes are made to take from their request, in real seconds; drawn for each."""

    mean_s: Seconds
    deviation_s: Seconds


class Capacity(Record):
    """Where a room was measured: a run whose workload looked for the largest number of viewers."""

    run: str
    environment: str
    """Of that run."""
    viewers: Natural
    """The median of its trials, rounded down."""
    trials: Natural
    """That had a figure."""
    lowest: Natural
    highest: Natural


class Setting(Record):
    """What an environment has for itself."""

    boot_delay_s: Seconds
    """Real seconds that every node was held back after it was there: injected, not measured."""
    allocation: AllocationDraw | None = None
    """Nodes were held back until they took so long from their request."""
    machine: dict[str, Any]
    """`config` of the decisions, as the front was given it: room, bounds of nodes, allocation."""
    policy: dict[str, Any]
    """`policy` of the decisions, as the front was given it."""
    room: Natural | None = None
    """Viewers that a node takes; None: as many as the run's."""
    capacity: Capacity | None = None
    """Where that was measured; None: the plan says it."""
    price: ServicePrice | None = Field(None, exclude_if=lambda given: given is None)
    place: str = Field("", exclude_if=lambda given: not given)
    """How its nodes were spread over the machines; empty: the plan names none."""


class ElasticResolved(Record):
    """`resolved.json`: the plan as it was understood, with all that was found out."""

    format: Literal[1] = 1
    kind: Literal["elastic"] = "elastic"
    ullage: str
    run: str
    tag: str
    name: str
    seed: Seed
    baseline: str | None
    """None: environments are shown side by side and not compared."""
    confidence: Share
    repetitions: Count
    """That were planned, of each environment."""
    time_scale: Finite
    """The users' seconds in one real second."""
    room: Count
    """Viewers that a node takes, unless its environment has a number of its own."""
    arrivals: dict[str, Any]
    """As the viewers were given it, in real time, without the seed."""
    patience_s: Seconds
    """Real seconds that a viewer waits for a node."""
    buffer_s: Seconds
    """Seconds of video that a viewer holds before it plays: real ones, whatever the scale."""
    video: Video
    users_time: dict[str, Any]
    """Length, patience, boot delay, arrivals as the plan has them: the users' time."""
    resources: dict[str, Any]
    """Of a node, unless its environment has its own."""
    budgets: dict[str, Any]
    settings: dict[str, Setting]
    """Environment → its own."""
    environments: tuple[EnvironmentRecord, ...]
    generators: dict[str, Any] | None = None
    """The machines from which the viewers came: how many, what they are; None: from the host."""
    machines: dict[str, NodeRecord] = Field({}, exclude_if=lambda given: not given)
    """Those that the nodes stood on, as the plan calls them; empty: the controller's alone."""
    between: str = Field("", exclude_if=lambda given: not given)
    """How their networks were joined; empty: there are none."""
    energy_meters: tuple[EnergyMeterRecord, ...] = ()
    image: ImageRecord | None = None
    programs: dict[str, str] = Field(default_factory=dict)
    """Agent, front and viewers: name → `sha256:…`."""
    host: dict[str, Any] = Field(default_factory=dict)

    def room_of(self, environment: str) -> int:
        """Viewers that a node of it takes."""
        return self.settings[environment].room or self.room


Machine = Annotated[str, Field(max_length=200, exclude_if=lambda given: not given)]
"""That a node was made on, or was to be, as the plan calls it; empty: the plan names none."""


class Requested(Record):
    """The front asked for a node, and the controller began to make it."""

    event: Literal["asked"] = "asked"
    node: Natural
    instance: str
    front_ns: Nanoseconds
    """When the front decided so."""
    at_ns: Nanoseconds
    """When the controller had heard it: TaR counts from here, for the provider's part."""


FULL: Final = CLOUD_QUOTA.code
"""Of the error: a cloud has no room for one more, or we may not have it."""


class Retried(Record):
    """An allocation or a release failed, or hung until its limit, and was tried again."""

    event: Literal["retried"] = "retried"
    node: Natural
    instance: str
    machine: Machine = ""
    what: Literal["allocate", "release"]
    attempt: Natural
    """From 1: the one that failed."""
    at_ns: Nanoseconds
    why: str
    code: str = Field("", exclude_if=lambda given: not given)
    """Of the error; empty: it was none of ours."""


class Ready(Record):
    """A node streams: its port was seen open."""

    event: Literal["ready"] = "ready"
    node: Natural
    instance: str
    machine: Machine = ""
    address: str
    """`ip:port` on the run's bridge."""
    asked_ns: Nanoseconds
    """When the attempt began that succeeded."""
    made_ns: Nanoseconds
    """The provider's instance was there: its agent had said hello."""
    serving_ns: Nanoseconds
    """Its server was there: the port was seen open from outside."""
    at_ns: Nanoseconds
    """The front was told: after the boot delay that the plan injects, if any."""
    attempts: Natural = 1
    injected_s: Seconds = 0.0
    """How long it was held back on purpose."""
    stages: dict[str, Finite] = Field(default_factory=dict)
    """Parts of the allocation in seconds: `TeF`, `TcI`, `TiI`, and `application` after them."""
    steps: dict[str, Nanoseconds] = Field(default_factory=dict)
    """Every step of it, by the names in docs/guide/allocation.md, and when it happened."""


class NotReady(Record):
    """A node could not be allocated; the front was told."""

    event: Literal["not-ready"] = "not-ready"
    node: Natural
    instance: str
    machine: Machine = ""
    asked_ns: Nanoseconds
    at_ns: Nanoseconds
    attempts: Natural
    why: str
    code: str = Field("", exclude_if=lambda given: not given)
    """Of the error; empty: it was none of ours."""


class Lost(Record):
    """A node that streamed is gone; the front was told."""

    event: Literal["lost"] = "lost"
    node: Natural
    instance: str
    machine: Machine = ""
    at_ns: Nanoseconds
    why: str


class TakenBack(Record):
    """The front wanted it no more before it streamed: nothing of it is left."""

    event: Literal["taken-back"] = "taken-back"
    node: Natural
    instance: str
    front_ns: Nanoseconds
    at_ns: Nanoseconds


class Release(Record):
    """A node was removed again."""

    event: Literal["released"] = "released"
    node: Natural
    instance: str
    machine: Machine = ""
    front_ns: Nanoseconds
    asked_ns: Nanoseconds
    """When the controller began to remove it."""
    at_ns: Nanoseconds
    """Nothing of it was left."""
    attempts: Natural = 1
    left: str = ""
    """What could not be removed, and why; that its machine was gone, so that nobody knows when it
    went; empty when all was seen to go."""
    end: bool = False
    """At the end of the repetition, not because the front asked for it."""


class FrontEnded(Record):
    """The front ended before it was told to; it was started again on the same log."""

    event: Literal["front-ended"] = "front-ended"
    at_ns: Nanoseconds
    back_ns: Nanoseconds
    """When it listened again."""
    how: str


Act = Annotated[
    Requested | Retried | Ready | NotReady | Lost | TakenBack | Release | FrontEnded,
    Field(discriminator="event"),
]
"""A line of `controller.jsonl`."""


class RepetitionOutcome(Record):
    """`outcome.json`: how a repetition ended."""

    format: Literal[1] = 1
    environment: str
    repetition: Natural
    order: Natural
    """Place among the environments of this repetition."""
    seed: Seed
    """Of the arrivals: the same for every environment of a repetition."""
    status: Status
    reason: Reason | None = None
    """Why it has no figures."""
    notes: tuple[str, ...] = ()
    """What a reader of its figures must know: the front was restarted, nodes were lost …"""
    epoch_ns: Nanoseconds
    start_ns: Nanoseconds
    """The first instant at which a viewer may arrive; of a failed one, when it began."""
    end_ns: Nanoseconds
    """The last viewer was gone; of a failed one, when it was given up."""
    clock: ProcessClock | None = None
    """Of the controller, at the end."""
    clock_bound_ns: Nanoseconds = 0
    """No instant of the front or of the viewers is further off."""
    meters: Metered = Field(default_factory=dict)
    """Meter → quantity → value, over the repetition."""


class Violation(Record):
    """A time in which a viewer's player had nothing to play."""

    at_ns: Nanoseconds
    length_ns: Nanoseconds


class ViewerSession(Record):
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


def disorder(s: ViewerSession) -> str:
    """What cannot be about a viewer's instants among themselves; empty when all is well."""
    instants = (s.asked_ns, s.answered_ns, s.first_byte_ns, s.ended_ns)
    present = [t for t in instants if t is not None]
    if present != sorted(present):
        return "its instants are not in order"
    if s.outcome == "served" and (s.answered_ns is None or s.first_byte_ns is None):
        return "it was served, but has no answer or no first byte"
    return ""


class RepetitionDone(Record):
    """A repetition ended, one way or the other: the journal's line."""

    event: Literal["repetition"] = "repetition"
    environment: str
    repetition: Natural
    epoch_ns: Nanoseconds
    seconds: Seconds
    status: Status
    reason: Reason | None = None
    files: Digests = Field(default_factory=dict)
    """All that it left, as it was when it ended; of older runs it is not known."""


class ElasticFinished(Record):
    """The run ended in order."""

    event: Literal["finished"] = "finished"
    epoch_ns: Nanoseconds
    seconds: Seconds
    reason: Literal["repetitions", "interrupted", "failed"]
    message: str = ""


ElasticEvent = Annotated[
    Started | RepetitionDone | Warned | ElasticFinished, Field(discriminator="event")
]
"""A line of `journal.jsonl`."""

ELASTIC: Final = FolderKind(
    "elastic", FORMAT, ElasticResolved, TypeAdapter[ElasticEvent](ElasticEvent), REPETITIONS
)
begun, chosen, find, newest = ELASTIC.begun, ELASTIC.chosen, ELASTIC.find, ELASTIC.newest
read_events, read_resolved = ELASTIC.read_events, ELASTIC.read_resolved

_ACT: Final[TypeAdapter[Act]] = TypeAdapter(Act)


def repetition_folder(run: Path, environment: str, repetition: int) -> Path:
    """Where the files of a repetition lie; repetitions count from 0."""
    return run / REPETITIONS / slug(environment) / f"{repetition:03d}"


def read_log(repetition: Path) -> Lines[Act]:
    """What the controller did in a repetition; nothing when it came to nothing."""
    return ELASTIC.read_lines(repetition, CONTROLLER_LOG, _ACT)


def read_acts(repetition: Path) -> tuple[Act, ...]:
    """The acts alone."""
    return read_log(repetition).records


def read_outcome(repetition: Path) -> RepetitionOutcome | None:
    """How a repetition ended; None when it did not."""
    return ELASTIC.read(repetition, OUTCOME, RepetitionOutcome)
