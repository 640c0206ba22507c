"""An instance's clock, with real agents over pipes.

One host has one counter, so a clock that is made to run falsely (`ULLAGE_CLOCK_DISTORT`) is known
to the nanosecond: it turns the controller's own line about its anchor.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.peer import Peer, play
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.agent import clock as agent_clock
from ullage.environments.agent.client import AgentClient, Command
from ullage.environments.agent.clock import ClockLooks, ClockMap, Look
from ullage.environments.agent.frames import FrameError, Message
from ullage.host import clock

FAST_PPB = 11_250
AHEAD_NS = 5_000_000


@dataclass(frozen=True)
class Truth:
    """What a distorted clock shows, and what its values mean."""

    anchor_ns: int
    ppb: int = FAST_PPB
    ahead_ns: int = AHEAD_NS

    @classmethod
    def of(cls, line: bytes) -> Truth:
        """On the line whose bytes these are: its age stands in bytes 16 to 31, in 2^-54 ns."""
        return cls(int.from_bytes(line[16:32], "big") >> 54)

    def true_ns(self, false_ns: int) -> float:
        """The line's time when the clock showed this."""
        return self.anchor_ns + (false_ns - self.anchor_ns - self.ahead_ns) / (1 + self.ppb / 1e9)


def distorted(
    binary: Path, use: Callable[[AgentClient, Truth], Awaitable[None]], how: str = ""
) -> None:
    env = os.environ | {"ULLAGE_CLOCK_DISTORT": how or f"{FAST_PPB},{AHEAD_NS}"}

    async def main() -> None:
        truth = Truth.of(clock.line())
        client = await AgentClient.launch([str(binary), "serve"], deadline_s=20, env=env)
        try:
            await use(client, truth)
        finally:
            await client.bye()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_false_clock_is_not_shared_and_its_instants_are_found(agent_binary: Path) -> None:
    async def use(client: AgentClient, truth: Truth) -> None:
        assert not client.clock_claims.shared
        assert "distorted" in client.clock_claims.reasons
        for _ in range(5):
            before = await client.sync()
            at_ns = clock.ordered_ns() + 5_000_000
            finished, _, _ = await client.run(Command(("sleep", "0.1")), at_ns=at_ns)
            assert finished.start_ns + finished.clock_bound_ns >= at_ns
            after = await client.sync("after")
            done = finished.corrected(before.closed_by(after.first))
            assert "distorted" in done.reasons
            pairs = [(done.start_local_ns, done.start_ns), (done.end_local_ns, done.end_ns)]
            for local_ns, ns in pairs:
                assert abs(truth.true_ns(local_ns) - ns) <= done.clock_bound_ns
        drifted = client.residual_ns()
        assert drifted is not None
        assert [look.why for look in client.take_looks()] == ["connect", *["thaw", "after"] * 5]

    distorted(agent_binary, use)


def test_its_drift_is_found(agent_binary: Path) -> None:
    """400 ppm are seen over a quarter of a second, give or take the two looks."""
    ppb = 400_000

    async def use(client: AgentClient, truth: Truth) -> None:
        before = client.clock
        await asyncio.sleep(0.25)
        after = await client.sync("after")
        moved = after.first.fix.offset_ns - before.first.fix.offset_ns
        between = after.first.fix.local_ns - before.first.fix.local_ns
        unsure = after.bound_ns + before.bound_ns
        assert abs(moved - between * ppb / 1e9) <= unsure
        chord = before.closed_by(after.first)
        middle = (after.first.mirrored().local_ns + before.first.mirrored().local_ns) // 2
        instant = chord.to_controller(middle)
        true_ns = Truth(truth.anchor_ns, ppb).true_ns(middle)
        assert abs(instant.ns - true_ns) <= instant.sure_ns <= instant.hard_ns

    distorted(agent_binary, use, how=f"{ppb},{AHEAD_NS}")


def test_beyond_the_worst_rate_two_looks_contradict(agent_binary: Path) -> None:
    async def use(client: AgentClient, _: Truth) -> None:
        before = client.clock
        for _again in range(20):  # until they are further apart than the two looks are unsure
            await asyncio.sleep(0.5)
            after = await client.sync("after")
            try:
                before.closed_by(after.first)
            except clock.ContradictionError:
                return
        pytest.fail("twice the worst rate was believed for 10 s")

    distorted(agent_binary, use, how="1000000,0")


def test_a_shared_line_costs_one_exchange(agent_binary: Path) -> None:
    async def main() -> None:
        client = await AgentClient.launch([str(agent_binary), "serve"], deadline_s=20)
        try:
            before_ns = clock.ordered_ns()
            at_ns = clock.ordered_ns() + 10_000_000
            finished, _, _ = await client.run(Command(("true",)), at_ns=at_ns)
            after_ns = clock.ordered_ns()
            bound = finished.clock_bound_ns
            assert bound == finished.clock_sure_ns == client.clock.bound_ns
            assert (finished.start_ns, finished.end_ns) == (
                finished.start_local_ns,
                finished.end_local_ns,
            )
            assert before_ns < at_ns <= finished.start_ns < finished.end_ns <= after_ns + bound
            assert finished.start_ns - at_ns == finished.late_ns
            assert [look.messages for look in client.take_looks()] == [2]
        finally:
            await client.bye()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_new_line_is_offered_anew(agent_binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        client = await AgentClient.launch([str(agent_binary), "serve"], deadline_s=20)
        try:
            offered = client._offered
            client._offered = b"an older one"
            await client.sync()
            assert client._offered == offered
            assert client.clock.shared
        finally:
            await client.bye()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_what_an_agent_on_this_kernel_need_not_find_out() -> None:
    offered = agent_clock.offer("a boot", clock.line())
    assert bytes.fromhex(offered["line"]) == clock.line()
    rate = clock.rate()
    known = {
        "millihertz": rate.millihertz,
        "sigma_ppb": rate.sigma_ppb,
        "bound_ppb": rate.bound_ppb,
    }
    assert offered.get("rate") == (known if rate.source == "fitted" else None)


def test_a_wide_bound_is_tried_for_longer(
    agent_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_clock, "WIDE_NS", 0)

    async def use(client: AgentClient, truth: Truth) -> None:
        (look,) = client.take_looks()
        assert look.messages >= 4
        assert abs(truth.true_ns(look.fix.local_ns + look.fix.offset_ns) - look.fix.local_ns) <= (
            look.fix.half_ns + 2
        )
        with monkeypatch.context() as patched:
            patched.setattr(agent_clock, "agree", lambda *_: False)
            with pytest.raises(UllageError, match="cannot be true of two clocks") as caught:
                await client.sync()
        assert caught.value.kind is errors.AGENT_CLOCK

    distorted(agent_binary, use)


def test_on_another_kernel_clocks_are_exchanged(
    agent_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ullage.host.claims.boot_id", lambda: "4f3ff1c6-0000-4000-8000-000000000000"
    )

    async def main() -> None:
        client = await AgentClient.launch([str(agent_binary), "serve"], deadline_s=20)
        try:
            assert not client.clock_claims.shared
            (look,) = client.take_looks()
            assert look.messages > 2
            # Both lines began with the kernel's clock.
            assert abs(look.fix.offset_ns) < 1_000_000
        finally:
            await client.bye()

    asyncio.run(asyncio.wait_for(main(), 60))


# --- maps -----------------------------------------------------------------------------------------
def look(local_ns: int, offset_ns: int, half_ns: int = 100, *, shared: bool = False) -> Look:
    fix = clock.Fix(
        local_ns=local_ns,
        offset_ns=offset_ns,
        half_ns=half_ns,
        sure_ns=half_ns,
        noise_ns=half_ns,
        rtt_ns=2 * half_ns,
    )
    return Look(1, "thaw", shared, fix, 40, 1000, ())


@given(
    st.integers(-(10**15), 10**15),
    st.integers(-400_000, 400_000),
    st.integers(0, 10**10),
    st.integers(0, 1000),
)
def test_the_chord_has_the_truth_within_its_bounds(
    ahead_ns: int, ppb: int, between_ns: int, share: int
) -> None:
    begin = 10**16
    ours = begin + between_ns * share // 1000

    def ahead(ns: int) -> int:
        return ahead_ns + (ns - begin) * ppb // 1_000_000_000

    first, last = look(begin, ahead(begin)), look(begin + between_ns, ahead(begin + between_ns))
    for ours_is in (ClockMap(first), ClockMap(first).closed_by(last)):
        instant = ours_is.to_controller(ours + ahead(ours))
        assert abs(instant.ns - ours) <= instant.hard_ns
    chord = ClockMap(first).closed_by(last)
    instant = chord.to_controller(ours + ahead(ours))
    assert abs(instant.ns - ours) <= 4 <= instant.sure_ns <= instant.hard_ns
    assert chord.offset_ns == -last.fix.offset_ns


def test_a_shared_clock_is_its_own_map() -> None:
    ours = ClockMap(look(10**9, 77, shared=True), apart_ns=120)
    assert (ours.offset_ns, ours.bound_ns, ours.to_agent(5)) == (0, 120, 5)
    instant = ours.to_controller(2 * 10**9)
    assert (instant.ns, instant.hard_ns, instant.sure_ns) == (2 * 10**9, 120, 120)


@pytest.mark.parametrize("local_ns", [0, 2**62 + 10**9, 2**63 - 1])
def test_an_instant_outside_of_time_is_none(local_ns: int) -> None:
    ours = ClockMap(look(10**9, 10**8))
    with pytest.raises(FrameError):
        ours.to_controller(local_ns)


def test_how_far_cores_are_apart() -> None:
    def claims(ordered_ns: int | None) -> agent_clock.ClockClaims:
        return agent_clock.ClockClaims("counter", ordered_ns, (), True)

    own_facts = {"cpus_allowed": sorted(os.sched_getaffinity(0))}
    own = clock.promise().ordered_ns
    if own is not None:
        assert agent_clock.apart_ns(claims(0), own_facts) == own
        assert agent_clock.apart_ns(claims(own + 9), own_facts) == own + 9
    assert agent_clock.apart_ns(claims(None), own_facts) == agent_clock.UNPROMISED_NS
    if clock.promise().source == "counter":
        elsewhere = {"cpus_allowed": [70_000]}
        assert agent_clock.apart_ns(claims(0), elsewhere) == agent_clock.UNPROMISED_NS
        assert agent_clock.apart_ns(claims(0), {}) == agent_clock.UNPROMISED_NS


def series(offsets: Sequence[int], step_ns: int = 10**8) -> ClockLooks:
    looks = ClockLooks()
    for number, offset in enumerate(offsets):
        looks.add(look(10**12 + number * step_ns, offset))
    return looks


def test_the_residual_is_what_a_line_leaves() -> None:
    assert series([0, 10]).residual_ns() is None
    assert series([0, 1000, 2000]).residual_ns() == 0
    residual = series([0, 1500, 2000]).residual_ns()
    assert residual is not None and 499 <= residual <= 501
    # It stood still: what was before says nothing.
    assert series([0, 1000, 2000, -(10**9), -(10**9)]).residual_ns() is None


def test_a_long_series_stays_short() -> None:
    long_series = series([0] * 1000)
    assert long_series.residual_ns() == 0
    assert len(long_series._fixes) <= ClockLooks.MOST


def test_a_halt_that_the_first_look_would_take_for_drift_begins_a_series() -> None:
    """A guest was halted for 4 ms, 25 ms after a look; its first look was 9 s before."""
    looks = ClockLooks()
    for at_ms, offset in ((0, 0), (8_580, 38_000), (8_605, -4_200_000), (14_968, -4_160_000)):
        looks.add(look(10**12 + at_ms * 10**6, offset))
    assert looks.residual_ns() is None
    looks.add(look(10**12 + 15_000 * 10**6, -4_160_000))
    assert looks.residual_ns() is not None
    # Each agrees with the first, but not with one another.
    assert series([0, 45_000, -90_000]).residual_ns() is None


def test_a_dead_channel_ends_a_synchronisation() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.take()
        peer.writer.close()

    async def use(client: AgentClient) -> None:
        with pytest.raises(UllageError) as caught:
            await client.sync()
        assert caught.value.kind is errors.AGENT_LOST

    play(script, use)


LINE = {"boot_id": "4f3ff1c6-0000-4000-8000-000000000000", "line": 96 * "0"}


@pytest.mark.parametrize("line", [None, LINE])
def test_the_line_for_programs_inside_is_taken_as_it_is(line: dict[str, str] | None) -> None:
    assert agent_clock.own_line(Message("hello", {"clock": {"line": line}})) == line


@pytest.mark.parametrize(
    "line",
    ["x", 7, {}, LINE | {"line": 95 * "0"}, LINE | {"line": 96 * "g"}, LINE | {"boot_id": ""}],
)
def test_a_line_that_is_none_is_refused(line: object) -> None:
    with pytest.raises(FrameError):
        agent_clock.own_line(Message("hello", {"clock": {"line": line}}))
