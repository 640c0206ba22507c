"""What no event tells is seen late by a stated share of the wait."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import commands, errors
from ullage.common.errors import UllageError
from ullage.environments.provisioning import probe
from ullage.host import cgroups


class Clock:
    """Time that passes only when somebody sleeps, and a state that is reached at an instant."""

    def __init__(self, reached_s: float) -> None:
        self.now, self.reached_s, self.looks = 0.0, reached_s, 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.now += seconds

    def reached(self) -> bool:
        self.looks += 1
        return self.now >= self.reached_s

    def put_in(self, monkeypatch: pytest.MonkeyPatch, module: object) -> None:
        own = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        monkeypatch.setattr(module, "time", own)
        monkeypatch.setattr(asyncio, "sleep", self.sleep_async)


@given(st.floats(0, 5), st.sampled_from([commands.LONGEST_S, probe.REST_S]))
def test_no_rest_is_longer_than_its_share(at_s: float, longest_s: float) -> None:
    now = 0.0
    while now < at_s:
        now += commands.poll_interval_s(now, longest_s)
    assert now - at_s <= min(longest_s, max(commands.SHORTEST_S, commands.SHARE * at_s)) + 1e-9


@pytest.mark.parametrize("at_s", [0.0, 0.0005, 0.003, 0.02, 0.1, 3.0])
def test_a_control_group_that_is_empty_is_seen_in_time(
    monkeypatch: pytest.MonkeyPatch, at_s: float
) -> None:
    clock = Clock(at_s)

    async def scenario() -> None:
        clock.put_in(monkeypatch, cgroups)
        await cgroups._until(clock.reached, "/x", "empty")

    asyncio.run(scenario())
    share = max(commands.SHORTEST_S, commands.SHARE * at_s)
    assert 0 <= clock.now - at_s <= min(commands.LONGEST_S, share) + 1e-9
    assert clock.looks < 100 + at_s / commands.LONGEST_S


def test_a_control_group_that_never_is_empty_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(float("inf"))

    async def scenario() -> None:
        clock.put_in(monkeypatch, cgroups)
        await cgroups._until(clock.reached, "/x", "empty")

    with pytest.raises(UllageError) as caught:
        asyncio.run(scenario())
    assert caught.value.kind is errors.CGROUP_STUCK
    assert clock.now == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize("opens_s", [0.0, 0.004, 0.03, 1.0])
def test_a_port_that_opens_is_seen_in_time(monkeypatch: pytest.MonkeyPatch, opens_s: float) -> None:
    """The clock begins when somebody is expected, however long nobody was."""
    clock = Clock(0.0)
    instants: dict[str, float] = {}

    async def knock(address: str, port: int, silent_s: float) -> int:
        if "port_closed" not in instants or clock.now < 100 + opens_s:
            return 111  # refused
        return 0

    async def scenario() -> None:
        expected = asyncio.Event()

        def record(step: str) -> None:
            instants[step] = clock.now
            if step == "port_closed":
                clock.now = 100.0
                expected.set()

        clock.put_in(monkeypatch, probe)
        monkeypatch.setattr(probe, "_knock", knock)
        await probe.watch_port("x", 1, record, expected)

    asyncio.run(scenario())
    late_s = instants["port_open"] - 100 - opens_s
    share = max(commands.SHORTEST_S, commands.SHARE * opens_s)
    assert -1e-9 <= late_s <= min(probe.REST_S, share) + 1e-9
