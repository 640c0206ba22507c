"""Real nodes, synchronised in a topology: a process each, on the loopback or in a namespace.

`python -m ullage.experiments.clock.nodes` is one: it serves its clock and obeys lines of JSON on
standard input, the run token first, and answers each by a line, until the input ends.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import IO, Any, Final

from ullage.common.errors import CLOCK_NOT_MEASURED, UllageError
from ullage.experiments.clock import stamps
from ullage.experiments.clock.outcomes import (
    Binomial,
    Flat,
    KAry,
    Synchronisation,
    Topology,
    TwoLevel,
)
from ullage.experiments.clock.reports import ClientOrder
from ullage.host import clock

PATIENCE_S: Final = 30.0


@dataclass(frozen=True)
class Location:
    """Where a node runs."""

    address: str
    namespace: Path | None = None


LOOPBACK: Final = Location("127.0.0.1")


@dataclass(frozen=True)
class Round:
    """All nodes, synchronised once."""

    elapsed_ns: int
    """From the beginning of the first synchronisation to the end of the last."""
    messages: int
    hard_ns: int
    """Of the worst node, as it was right after its own synchronisation."""
    failed: int
    """Nodes that were not synchronised, those below them included."""


def server_of(topology: Topology, number: int, nodes: int) -> int:
    """The node that serves node `number`, which is not the first."""
    match topology:
        case Flat():
            return 0
        case TwoLevel(groups=number_of_groups):
            groups = max(
                1, min(isqrt(nodes) if number_of_groups is None else number_of_groups, nodes - 1)
            )
            return 0 if number <= groups else 1 + (number - 1) % groups
        case Binomial():
            return number ^ (1 << (number.bit_length() - 1))
        case KAry(children=children):
            return (number - 1) // children


class _NodeProcess:
    def __init__(self, location: Location, key: str) -> None:
        argv = [sys.executable, "-m", "ullage.experiments.clock.nodes"]
        if location.namespace is not None:
            argv = ["nsenter", f"--net={location.namespace}", *argv]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.location = location
        self._write(key)
        self.address = ""

    def begin(self) -> None:
        self.tell({"serve": f"{self.location.address}:0"})
        self.address = self.hear()["address"]

    def tell(self, order: dict[str, str | int]) -> None:
        self._write(json.dumps(order))

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def hear(self) -> dict[str, Any]:
        """Its next answer. CLOCK_NOT_MEASURED."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.output, selectors.EVENT_READ)
            if not selector.select(PATIENCE_S):
                raise _failed(f"a node said nothing for {PATIENCE_S:.0f} s")
        line = self.output.readline()
        if not line:
            assert self.process.stderr is not None
            stderr = self.process.stderr.read().decode(errors="replace").strip().splitlines()
            raise _failed(f"a node ended: {stderr[-1] if stderr else 'without a word'}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        try:
            self.process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


def _failed(reason: str) -> UllageError:
    return UllageError(
        CLOCK_NOT_MEASURED,
        what="scaling",
        reason=reason,
        suggestion="ask for fewer --processes, or look at the limits of this container or cgroup",
    )


class NodePool:
    """Processes that wait for orders; `started` makes it."""

    def __init__(self, nodes: Sequence[_NodeProcess]) -> None:
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def exchange(self, count: int, advance: Callable[[int, int], None]) -> list[Synchronisation]:
        """The second node with the first, so often, one after the other. CLOCK_NOT_MEASURED."""
        first, second = self._nodes[:2]
        first.tell({"lead": ""})
        first.hear()
        exchanges = []
        for number in range(count):
            second.tell({"sync": first.address})
            answer = second.hear()
            advance(number + 1, count)
            if "failed" in answer:
                raise _failed(answer["failed"])
            exchanges.append(
                Synchronisation(
                    ns=answer["took_ns"],
                    messages=answer["messages"],
                    round_trip_ns=answer["round_trip_ns"],
                )
            )
        return exchanges

    def synchronise(self, topology: Topology, count: int) -> Round:
        """The first `count` nodes: who is synchronised serves its own, one after the other."""
        nodes = self._nodes[:count]
        waiting: dict[int, deque[int]] = {number: deque() for number in range(count)}
        for number in range(1, count):
            waiting[server_of(topology, number, count)].append(number)
        nodes[0].tell({"lead": ""})
        nodes[0].hear()
        answers: list[dict[str, Any]] = []
        with selectors.DefaultSelector() as selector:

            def serve(server: int) -> None:
                if waiting[server]:
                    client = waiting[server].popleft()
                    nodes[client].tell({"sync": nodes[server].address})
                    selector.register(nodes[client].output, selectors.EVENT_READ, (client, server))

            serve(0)
            while selector.get_map():
                events = selector.select(PATIENCE_S)
                if not events:
                    raise _failed(f"nodes said nothing for {PATIENCE_S:.0f} s")
                for key, _ in events:
                    client, server = key.data
                    selector.unregister(key.fileobj)
                    answer = nodes[client].hear()
                    serve(server)
                    if "failed" not in answer:
                        answers.append(answer)
                        serve(client)
        return _round(answers, count)

    def order(self, count: int) -> ClientOrder | str:
        """Two clients, synchronised with the first node, exchange so many stamped messages.

        Or why there is none: a datagram may be lost. CLOCK_NOT_MEASURED: a node ended.
        """
        if failed := self.synchronise(Flat(), 3).failed:
            return f"{failed} of the two clients could not be synchronised"
        one, other = self._nodes[1:3]
        other.tell({"answer": count, "at": other.location.address})
        one.tell({"ask": count, "at": one.location.address, "of": other.hear()["address"]})
        questions, answers = one.hear(), other.hear()
        for account in (questions, answers):
            if "failed" in account:
                return str(account["failed"])
        return stamps.outcome(questions, answers)


def _round(answers: list[dict[str, Any]], count: int) -> Round:
    if not answers:
        raise _failed("not one node was synchronised")
    ended, began = max(a["ended_ns"] for a in answers), min(a["began_ns"] for a in answers)
    return Round(
        elapsed_ns=ended - began,
        messages=sum(a["messages"] for a in answers),
        hard_ns=max(a["hard_ns"] for a in answers),
        failed=count - 1 - len(answers),
    )


@contextmanager
def started(
    locations: Sequence[Location], advance: Callable[[int, int], None]
) -> Iterator[NodePool]:
    """One process a place; all are gone in the end. CLOCK_NOT_MEASURED."""
    with ExitStack() as stack:
        key, nodes = secrets.token_hex(16), list[_NodeProcess]()
        for location in locations:
            try:
                node = _NodeProcess(location, key)
            except OSError as error:
                raise _failed(f"cannot start process {len(nodes) + 1}: {error}") from error
            stack.callback(node.end)
            nodes.append(node)
        for number, node in enumerate(nodes, 1):
            node.begin()
            advance(number, len(nodes))
        yield NodePool(nodes)


def fitting() -> int:
    """As many processes as this host has room for: 50 MB and some of a core each."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0))
    return int(max(2, min(8 * cores, free // 2 // (50 << 20), 64)))


def main() -> None:
    key = bytes.fromhex(sys.stdin.readline().strip())
    synced = clock.Synced()
    servers = []
    for line in sys.stdin:
        order = json.loads(line)
        if "serve" in order:
            servers.append(clock.UdpServer(order["serve"], key))
            _say({"address": servers[-1].address})
        elif "lead" in order:
            synced.lead()
            _say({})
        elif "answer" in order or "ask" in order:
            _stamp(synced, order)
        else:
            _say(_synchronise(synced, order["sync"], key))
    for server in servers:
        server.stop()


def _stamp(synced: clock.Synced, order: dict[str, Any]) -> None:
    with stamps.opened(order["at"]) as own:
        if "ask" in order:
            _say(stamps.ask(own, order["of"], synced, order["ask"]))
            return
        host, port = own.getsockname()
        _say({"address": f"{host}:{port}"})
        _say(stamps.answer(own, synced, order["answer"]))


def _synchronise(synced: clock.Synced, server: str, key: bytes) -> dict[str, Any]:
    """Times are CLOCK_MONOTONIC's, which all processes of a kernel share."""
    disruptions, began = synced.disruptions(), time.monotonic_ns()
    try:
        outcome = clock.synchronise_udp(server, key)
        ended = time.monotonic_ns()
        synced.learn(outcome, disruptions=disruptions)
    except (clock.NoAnswerError, clock.ContradictionError, OSError) as error:
        return {"failed": str(error)}
    return {
        "began_ns": began,
        "ended_ns": ended,
        "took_ns": outcome.took_ns,
        "messages": outcome.counts.sent + outcome.counts.answers,
        "round_trip_ns": outcome.fix.rtt_ns,
        "hard_ns": outcome.fix.half_ns,
    }


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
