"""Two clients that stamp messages to each other: what their stamps say of their order."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ullage.experiments.clock import nodes, scaling, stamps
from ullage.host import clock


def synced(offset_ns: int) -> clock.Synced:
    """A clock that is wrong by so much, and promises 100 ns."""
    return cast(
        clock.Synced,
        SimpleNamespace(
            now_ns=lambda: clock.now_ns() + offset_ns, now=lambda: SimpleNamespace(hard_ns=100)
        ),
    )


def exchanged(offset_ns: int, count: int = 50) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a client says and one whose clock is `offset_ns` ahead of it."""
    answers: list[dict[str, Any]] = []
    with stamps.opened("127.0.0.1") as one, stamps.opened("127.0.0.1") as other:
        host, port = other.getsockname()
        serving = threading.Thread(
            target=lambda: answers.append(stamps.answer(other, synced(offset_ns), count))
        )
        serving.start()
        questions = stamps.ask(one, f"{host}:{port}", synced(0), count)
        serving.join()
    return questions, answers[0]


def test_clocks_that_agree() -> None:
    order = stamps.outcome(*exchanged(0))
    assert (order.messages, order.backward, order.equal, order.worst_ns) == (100, 0, 0, 0)
    assert min(order.shortest_ns) > 0 and order.bound_ns == 200


@pytest.mark.parametrize("offset_s", [-10, 10])
def test_a_clock_that_is_ahead_or_behind_is_seen_in_one_direction(offset_s: int) -> None:
    order = stamps.outcome(*exchanged(offset_s * 1_000_000_000))
    assert order.backward == 50, "those of one direction"
    there, back = order.shortest_ns
    assert (there - back) / 2e9 == pytest.approx(offset_s, abs=1)
    assert order.worst_ns > 9_000_000_000


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "_SILENT_S", 0.05)
    with stamps.opened("127.0.0.1") as own, stamps.opened("127.0.0.1") as other:
        host, port = other.getsockname()
        assert "no answer" in stamps.ask(own, f"{host}:{port}", synced(0), 1)["failed"]
        assert "no message" in stamps.answer(own, synced(0), 1)["failed"]


class Stubborn:
    """A node that answers as it is told to."""

    location, address = nodes.LOOPBACK, "127.0.0.1:1"

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)

    def tell(self, order: dict[str, Any]) -> None:
        pass

    def hear(self) -> dict[str, Any]:
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("failed", "lost", "reason"),
    [
        (1, False, "1 of the two clients could not be synchronised"),
        (0, True, "no answer: timed out"),
    ],
)
def test_a_lost_datagram_does_not_cost_what_was_measured_before(
    monkeypatch: pytest.MonkeyPatch, failed: int, lost: bool, reason: str
) -> None:
    round_ = nodes.Round(elapsed_ns=1, messages=2, hard_ns=1, failed=failed)
    monkeypatch.setattr(nodes.NodePool, "synchronise", lambda *_: round_)
    asking = Stubborn({"failed": "no answer: timed out"} if lost else {"stamps": []})
    answering = Stubborn({"address": "127.0.0.1:2"}, {"bound_ns": 100})
    pool = nodes.NodePool(cast(Any, [Stubborn(), asking, answering]))
    assert pool.order(10) == reason
    assert scaling._order(None, reason) == [
        f"Two clients of one server did not stamp messages to each other: {reason}."
    ]
    assert scaling._order(None, None) == []
