"""Writes folders of elastic runs that no machine has run, through the records of the real ones.

A small model decides as ElasticMovie does: the fullest node that has room, one allocation at a
time, a node released when its last viewer leaves.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ullage.experiments.elastic import folder
from ullage.experiments.elastic.folder import (
    Act,
    Ready,
    Release,
    RepetitionDone,
    RepetitionOutcome,
    Requested,
)
from ullage.runs.events import Reason, Started
from ullage.runs.readings import Channel, Opened, Reading
from ullage.runs.records import (
    JOURNAL,
    PLAN,
    RESOLVED,
    EnergyMeterRecord,
    EnvironmentRecord,
    Record,
)

NS = 1_000_000_000
ZERO = 1_000 * NS
"""When every repetition starts, by the global clock."""


@dataclass(frozen=True)
class SyntheticEnvironment:
    """What a made-up environment is like."""

    label: str = ""
    tar_s: float = 1.0
    tlr_s: float = 0.2
    stall: float = 0.0
    """Chance that a served viewer has a violation."""
    fails: frozenset[int] = frozenset()
    """Repetitions that fail."""
    late: frozenset[int] = frozenset()
    """Repetitions whose generator was too late."""
    bound_ns: int = 0
    boot_delay_s: float = 0.0
    max_nodes: int | None = None
    provider: str = "lxc"
    more: Callable[[int], Iterable[Act]] = field(default=lambda _: ())
    """Further acts of a repetition."""
    again_of: str | None = None


@dataclass(frozen=True)
class SyntheticRun:
    """What a made-up run is like."""

    environments: dict[str, SyntheticEnvironment] = field(
        default_factory=lambda: {
            "lxc": SyntheticEnvironment(tar_s=0.5),
            "qemu": SyntheticEnvironment(tar_s=2.0, stall=0.02),
        }
    )
    repetitions: int = 8
    viewers: int = 60
    rate_hz: float = 4.0
    length_s: float = 6.0
    room: int = 5
    patience_s: float = 1.0
    time_scale: float = 60.0
    seed: int = 5
    baseline: str | None = "lxc"
    name: str = "made"
    finished: bool = True
    done: int | None = None
    """Repetitions that were reached; None: all."""
    why: str = "cut off"
    """What the failed repetitions say."""
    node: str = "10.0.0.1:80"
    users_time: dict[str, Any] = field(default_factory=dict)
    """More of it: patience, arrivals."""
    watts: float | None = None
    """What a meter at the wall says all the time; None: there is none."""


def make(root: Path, plan: SyntheticRun | None = None) -> Path:
    """A run folder under `root`; its path."""
    plan = plan or SyntheticRun()
    path = root / f"20260101T000000-{plan.name}"
    path.mkdir(parents=True)
    (path / PLAN).write_text(f"name: {plan.name}\n")
    put(path / RESOLVED, resolved(plan, path.name))
    events: list[Record] = [
        Started(epoch_ns=1_767_225_600 * NS, start_ns=1, pid=1, tag="t", resumed=False, boot_id="b")
    ]
    reached = plan.repetitions if plan.done is None else plan.done
    for number in range(reached):
        for order, (key, environment) in enumerate(plan.environments.items()):
            events.append(_repetition(path, plan, key, environment, number, order))
    if plan.finished:
        events.append(
            folder.ElasticFinished(epoch_ns=1_767_225_700 * NS, seconds=100.0, reason="repetitions")
        )
    put_lines(path / JOURNAL, events)
    if plan.watts is not None:
        put_meter(path, plan.watts)
    return path


WALL = Channel(
    name="wall", kind="power", method="measured", scope="wall", observer="host", resolution=0.1
)


def put_meter(path: Path, watts: float, session: str = "t", last_s: int = 300) -> None:
    """A constant power, read each second from one before the repetitions."""
    (path / "meters").mkdir()
    opened = Opened(
        session=session,
        label="wall",
        meter="nut",
        options={},
        every_s=1.0,
        channels=(WALL,),
        epoch_ns=1_767_225_600 * NS,
        at_ns=ZERO - NS,
    )
    read = (
        Reading(at_ns=ZERO + second * NS, within_ns=1000, values={"wall": watts})
        for second in range(-1, last_s)
    )
    put_lines(path / "meters" / "wall.jsonl", [opened, *read])


def resolved(plan: SyntheticRun, run: str) -> folder.ElasticResolved:
    """`resolved.json` of the plan."""
    return folder.ElasticResolved(
        ullage="0.0",
        run=run,
        tag="t",
        name=plan.name,
        seed=plan.seed,
        baseline=plan.baseline,
        confidence=0.95,
        repetitions=plan.repetitions,
        time_scale=plan.time_scale,
        room=plan.room,
        arrivals={"kind": "poisson", "rate_hz": plan.rate_hz, "count": plan.viewers},
        patience_s=plan.patience_s,
        buffer_s=0.5,
        video=folder.Video(
            bytes=int(plan.length_s * 1e5),
            bitrate_bps=8e5,
            length_s=plan.length_s,
            kind="bytes",
            sha256="0" * 64,
            made_by="tests",
        ),
        users_time={"length_s": plan.length_s * plan.time_scale, **plan.users_time},
        resources={"cpus": 1},
        budgets={},
        settings={
            key: folder.Setting(
                boot_delay_s=environment.boot_delay_s,
                machine={
                    "room": plan.room,
                    "max_nodes": environment.max_nodes,
                    "min_nodes": 0,
                    "allocation": "one_at_a_time",
                    "placement": "fullest",
                    "waiting_room": None,
                },
                policy={"name": "elastic-movie"},
            )
            for key, environment in plan.environments.items()
        },
        energy_meters=()
        if plan.watts is None
        else (
            EnergyMeterRecord(label="wall", meter="nut", options={}, every_s=1.0, channels=(WALL,)),
        ),
        environments=tuple(
            EnvironmentRecord(
                key=key,
                label=environment.label or key,
                provider=environment.provider,
                again_of=environment.again_of,
            )
            for key, environment in plan.environments.items()
        ),
    )


def _repetition(
    path: Path,
    plan: SyntheticRun,
    key: str,
    environment: SyntheticEnvironment,
    number: int,
    order: int,
) -> RepetitionDone:
    place = folder.repetition_folder(path, key, number)
    place.mkdir(parents=True)
    failed = number in environment.fails
    done = RepetitionDone(
        environment=key,
        repetition=number,
        epoch_ns=(1_767_225_601 + number) * NS,
        seconds=10.0,
        status="failed" if failed else "ok",
        reason=Reason(code="made", message=plan.why) if failed else None,
    )
    if failed:
        return done
    sessions, acts, end = played(plan, environment, number)
    put_lines(place / folder.CONTROLLER_LOG, [*acts, *environment.more(number)])
    (place / folder.SESSIONS).write_text("".join(json.dumps(s) + "\n" for s in sessions))
    late = number in environment.late
    viewers = {
        "valid": not late,
        "why": ["p99 lateness 0.2 s"] if late else [],
        "due": len(sessions),
        "lateness_s": {"count": float(len(sessions)), "p99": 0.0002, "max": 0.001},
    }
    (place / folder.VIEWERS).write_text(json.dumps(viewers))
    outcome = RepetitionOutcome(
        environment=key,
        repetition=number,
        order=order,
        seed=plan.seed + number,
        status="ok",
        epoch_ns=(1_767_225_601 + number) * NS,
        start_ns=ZERO,
        end_ns=end,
        clock_bound_ns=environment.bound_ns,
    )
    put(place / folder.OUTCOME, outcome)
    return done


@dataclass
class _Node:
    number: int
    watching: int = 0
    ready: bool = False
    gone: bool = False


class _Model:
    """The decisions, by an event heap in nanoseconds."""

    def __init__(
        self, plan: SyntheticRun, environment: SyntheticEnvironment, chance: random.Random
    ) -> None:
        self.plan, self.environment, self.chance = plan, environment, chance
        self.nodes: list[_Node] = []
        self.queue: list[dict[str, Any]] = []
        self.acts: list[Act] = []
        self.heap: list[tuple[int, int, Callable[[int], None]]] = []
        self.order = itertools.count()

    def at(self, when: int, do: Callable[[int], None]) -> None:
        heapq.heappush(self.heap, (when, next(self.order), do))

    def run(self) -> int:
        now = ZERO
        while self.heap:
            now, _, do = heapq.heappop(self.heap)
            do(now)
        return now

    def come(self, session: dict[str, Any], now: int) -> None:
        session["asked_ns"] = now
        self.queue.append(session)
        self.serve(now)
        if session in self.queue:
            patience = round(self.plan.patience_s * NS)
            self.at(now + patience, lambda then: self.block(session, then))

    def block(self, session: dict[str, Any], now: int) -> None:
        if session in self.queue:
            self.queue.remove(session)
            session |= {"ended_ns": now, "outcome": "blocked"}

    def serve(self, now: int) -> None:
        while self.queue:
            free = [n for n in self.nodes if n.ready and not n.gone]
            free = [n for n in free if n.watching < self.plan.room]
            if not free:
                self.allocate(now)
                return
            self.watch(self.queue.pop(0), max(free, key=lambda n: n.watching), now)

    def watch(self, session: dict[str, Any], node: _Node, now: int) -> None:
        node.watching += 1
        session |= {"answered_ns": now, "node": self.plan.node, "first_byte_ns": now + 1000}
        stop = now + round(self.plan.length_s * NS)
        if self.chance.random() < self.environment.stall:
            session["violations"] = [{"at_ns": now + NS, "length_ns": NS // 2}]
            stop += NS // 2
        self.at(stop, lambda then: self.leave(session, node, then))

    def leave(self, session: dict[str, Any], node: _Node, now: int) -> None:
        size = int(self.plan.length_s * 1e5)
        session |= {"ended_ns": now, "outcome": "served", "bytes": size}
        node.watching -= 1
        self.serve(now)
        if node.watching == 0:
            node.gone = True
            self.acts.append(
                Release(
                    node=node.number,
                    instance=f"n{node.number}",
                    front_ns=now,
                    asked_ns=now + 1000,
                    at_ns=now + 1000 + self.long(self.environment.tlr_s),
                )
            )

    def allocate(self, now: int) -> None:
        if any(not n.ready for n in self.nodes):
            return
        standing = sum(not n.gone for n in self.nodes)
        if self.environment.max_nodes is not None and standing >= self.environment.max_nodes:
            return
        node = _Node(len(self.nodes))
        self.nodes.append(node)
        name = f"n{node.number}"
        self.acts.append(Requested(node=node.number, instance=name, front_ns=now, at_ns=now + 1000))
        up = now + self.long(self.environment.tar_s)
        self.at(up, lambda then: self.ready(node, now, then))

    def ready(self, node: _Node, asked_ns: int, now: int) -> None:
        node.ready = True
        took_s = (now - asked_ns) / NS
        self.acts.append(
            Ready(
                node=node.number,
                instance=f"n{node.number}",
                address=self.plan.node,
                asked_ns=asked_ns + 1000,
                made_ns=(asked_ns + now) // 2,
                serving_ns=now,
                at_ns=now,
                injected_s=self.environment.boot_delay_s,
                stages={
                    "TeF": 0.1 * took_s,
                    "TcI": 0.3 * took_s,
                    "TiI": 0.4 * took_s,
                    "application": 0.2 * took_s,
                },
            )
        )
        self.serve(now)

    def long(self, seconds: float) -> int:
        return round(NS * seconds * self.chance.uniform(0.8, 1.2))


def played(
    plan: SyntheticRun, environment: SyntheticEnvironment, number: int
) -> tuple[list[dict[str, Any]], list[Act], int]:
    """Sessions, acts and end of one repetition; the arrivals are the same in all environments."""
    arrivals = random.Random(plan.seed + number)
    model = _Model(plan, environment, random.Random(f"{environment.tar_s} {number}"))
    sessions: list[dict[str, Any]] = []
    due = ZERO
    for client in range(plan.viewers):
        due += round(NS * arrivals.expovariate(plan.rate_hz))
        session = {"client": client, "due_ns": due}
        sessions.append(session)
        model.at(due, lambda now, who=session: model.come(who, now))  # type: ignore[misc]
    end = model.run()
    model.acts += (
        Release(
            node=n.number, instance=f"n{n.number}", front_ns=end, asked_ns=end, at_ns=end, end=True
        )
        for n in model.nodes
        if not n.gone  # nobody came to it
    )
    return sessions, model.acts, end


def put(file: Path, record: Record) -> None:
    """A record as a file."""
    file.write_text(record.model_dump_json(indent=1))


def put_lines(file: Path, records: Iterable[Record]) -> None:
    """Records as lines."""
    file.write_text("".join(record.model_dump_json() + "\n" for record in records))
