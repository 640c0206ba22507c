"""Who is before whom: two synchronised nodes stamp one message after the other.

What is received was sent before. So where the receiver's stamp is not the larger one, the two
clocks tell the order of these instants wrongly; each of the nodes sends and receives in turn, as a
clock that is behind is seen in one direction only.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any, Final

from ullage.experiments.clock.reports import ClientOrder
from ullage.host import clock

_STAMP: Final = struct.Struct("!q")
_ANSWER: Final = struct.Struct("!qq")
_SILENT_S: Final = 10.0


def opened(address: str) -> socket.socket:
    """Where another node's messages come in."""
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.settimeout(_SILENT_S)
    own.bind((address, 0))
    return own


def answer(own: socket.socket, synced: clock.Synced, count: int) -> dict[str, Any]:
    """To so many messages: when each came, and when the answer goes."""
    try:
        for _ in range(count):
            _, sender = own.recvfrom(64)
            came = synced.now_ns()
            own.sendto(_ANSWER.pack(came, synced.now_ns()), sender)
    except OSError as error:
        return {"failed": f"no message: {error}"}
    return {"bound_ns": synced.now().hard_ns}


def ask(own: socket.socket, other: str, synced: clock.Synced, count: int) -> dict[str, Any]:
    """So many messages, each after the answer to the one before; all four stamps of each."""
    host, _, port = other.rpartition(":")
    stamps = []
    try:
        for _ in range(count):
            sent = synced.now_ns()
            own.sendto(_STAMP.pack(sent), (host, int(port)))
            came, answered = _ANSWER.unpack(own.recv(64))
            stamps.append((sent, came, answered, synced.now_ns()))
    except (OSError, struct.error) as error:
        return {"failed": f"no answer: {error}"}
    return {"stamps": stamps, "bound_ns": synced.now().hard_ns}


def outcome(questions: dict[str, Any], answers: dict[str, Any]) -> ClientOrder:
    """Of the two nodes' accounts."""
    steps = [*_steps(questions["stamps"])]
    there, back = ([step for way, step in steps if way == one] for one in (0, 1))
    bounds = [node["bound_ns"] for node in (questions, answers)]
    return ClientOrder(
        messages=len(steps),
        backward=sum(step < 0 for _, step in steps),
        equal=sum(step == 0 for _, step in steps),
        worst_ns=max(0, -min(step for _, step in steps)),
        shortest_ns=(min(there), min(back)),
        bound_ns=None if None in bounds else sum(bounds),
    )


def _steps(stamps: list[list[int]]) -> Iterator[tuple[int, int]]:
    """Its way, and how much later a message was received than sent."""
    for sent, came, answered, back in stamps:
        yield 0, came - sent
        yield 1, back - answered
