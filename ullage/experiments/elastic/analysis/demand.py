"""The curves of one repetition: who was offered, what that demands, and what there was.

The demand is known exactly, which elsewhere takes a search for the capacity: a node takes `room`
viewers, so n viewers demand ⌈n / room⌉ nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ullage.experiments.elastic.analysis.curves import StepCurve
from ullage.experiments.elastic.analysis.elasticity import Span
from ullage.experiments.elastic.analysis.reading import Repetition
from ullage.experiments.elastic.folder import (
    FULL,
    Act,
    ElasticResolved,
    Lost,
    NotReady,
    Ready,
    Release,
    Requested,
    Retried,
    TakenBack,
)


@dataclass(frozen=True)
class Curves:
    """Everything that is drawn, and integrated, of a repetition."""

    over: Span
    """From the first instant at which a viewer may come until the last one offered would be gone,
    had all been served at once: the same in every environment of a repetition."""
    offered: StepCurve
    """Viewers that are due and would not have seen the video to its end, had each been served at
    once: the load, which no environment can change (Erlang's offered traffic)."""
    demanded: StepCurve
    """Nodes that they need: d(t)."""
    present: StepCurve
    """Viewers that are there, waiting or watching, until they end or give up."""
    waiting: StepCurve
    """Viewers that wait for a node."""
    supplied: StepCurve
    """Nodes that take viewers: from the instant at which the front knows of it until it decides to
    release the node, or the node is lost: s(t)."""
    allocated: StepCurve
    """Instances that are paid for: from the request until nothing of it is left. What a cloud had
    no room for is none."""
    last_ns: int
    """When the last viewer and the last node that was not kept to the end were gone."""


def curves(repetition: Repetition, resolved: ElasticResolved) -> Curves | None:
    """The curves of a repetition with figures; None where nobody came."""
    outcome, sessions = repetition.outcome, repetition.sessions
    if outcome is None or not sessions:
        return None
    length = round(resolved.video.length_s * 1e9)
    offered = StepCurve.counted((s.due_ns, s.due_ns + length) for s in sessions)
    begin = min(outcome.start_ns, *(s.due_ns for s in sessions))
    last = max(outcome.end_ns, *(s.ended_ns for s in sessions))
    supplied, allocated = _nodes(repetition.acts, last)
    return Curves(
        over=Span(begin, max(s.due_ns for s in sessions) + length),
        offered=offered,
        demanded=offered.over(resolved.room_of(repetition.environment)),
        present=StepCurve.counted((s.due_ns, s.ended_ns) for s in sessions),
        waiting=StepCurve.counted(
            (s.due_ns, s.ended_ns if s.answered_ns is None else s.answered_ns) for s in sessions
        ),
        supplied=StepCurve.counted(supplied),
        allocated=StepCurve.counted(allocated),
        last_ns=last,
    )


def window_ns(resolved: ElasticResolved) -> int:
    """Over which the instability asks whether supply moved: a minute of the users' time.

    At most a tenth of the video, below which a demand of short videos would always be moving.
    """
    return max(1, round(1e9 * window_s(resolved.video.length_s, resolved.time_scale)))


def window_s(length_s: float, time_scale: float = 1.0) -> float:
    """The same in seconds, of a video that is so long."""
    return min(60 / time_scale, length_s / 10)


Spans = list[tuple[int, int]]


def _nodes(acts: tuple[Act, ...], last: int) -> tuple[Spans, Spans]:
    """Spans in which nodes took viewers, and in which instances of them were allocated."""
    supplied: Spans = []
    allocated: Spans = []
    for node in _lives(acts):
        allocated += node.instances(last)
        if node.up is not None:
            closed = _closed(node.over)
            supplied.append((node.up.at_ns, last if closed is None else closed))
    return supplied, allocated


Over = list[Release | Lost | NotReady | TakenBack]


@dataclass
class _Life:
    """Of one node: when it was asked for, what failed, its being ready, and what ended it."""

    begin: int
    failures: list[Retried]
    up: Ready | None
    over: Over

    def instances(self, last: int) -> Iterator[tuple[int, int]]:
        """When each was asked for and when nothing of it was left: one an attempt.

        One that its cloud had no room for never was.
        """
        begin = self.begin
        for failure in self.failures:
            if failure.code != FULL:
                yield begin, failure.at_ns
            begin = failure.at_ns
        for act in self.over:
            if isinstance(act, NotReady) and act.code == FULL:
                return
            if isinstance(act, NotReady) and act.attempts <= len(self.failures):
                return  # the last of them is among the failures
        end = _gone(self.over)
        yield begin, last if end is None else end


def _lives(acts: tuple[Act, ...]) -> Iterator[_Life]:
    requested_ns = {a.node: a.at_ns for a in acts if isinstance(a, Requested)}
    ready = {a.node: a for a in acts if isinstance(a, Ready)}
    ends: dict[int, Over] = {}
    failures: dict[int, list[Retried]] = {}
    for act in acts:
        if isinstance(act, Release | Lost | NotReady | TakenBack):
            ends.setdefault(act.node, []).append(act)
        elif isinstance(act, Retried) and act.what == "allocate":
            failures.setdefault(act.node, []).append(act)
    for node in requested_ns.keys() | ready.keys():
        up = ready.get(node)
        begin = requested_ns.get(node, up.asked_ns if up else 0)
        yield _Life(begin, failures.get(node, []), up, ends.get(node, []))


def lived_s(acts: tuple[Act, ...], last: int) -> list[float]:
    """Of each instance that is paid for, from its request until nothing of it was left."""
    spans = (span for node in _lives(acts) for span in node.instances(last))
    return [(end - begin) / 1e9 for begin, end in spans]


def _closed(over: Over) -> int | None:
    """When the front sent nobody to it any more; None: never before the end."""
    return min(map(_closing, over), default=None)


def _closing(act: Release | Lost | NotReady | TakenBack) -> int:
    if not isinstance(act, Release):
        return act.at_ns
    return act.asked_ns if act.end else act.front_ns


def _gone(over: Over) -> int | None:
    """When nothing was left of it: after its release if there was one."""
    released = [a.at_ns for a in over if isinstance(a, Release)]
    return max(released or [a.at_ns for a in over], default=None)
