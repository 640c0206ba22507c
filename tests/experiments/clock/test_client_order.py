"""Two clients that stamp messages to each other: what their stamps say of their order."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ullage.experiments.clock import stamps
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
