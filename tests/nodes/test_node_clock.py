"""The clock of a node by datagrams: one look for all, a fall back to ssh, and no trust."""

from __future__ import annotations

import asyncio
import secrets
import socket

import pytest

from tests.nodes.nodekit import Double, double
from tests.nodes.test_ssh_node import Work, order
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import clock as host_clock
from ullage.nodes import clock, wire
from ullage.nodes.clock import NodeClock
from ullage.nodes.ssh import SshNode

__all__ = ["double"]
pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]
TAG = "u00c0de4"
"""Another file's tests may run at the same time."""
ELSEWHERE = "4f3ff1c6-0000-4000-8000-000000000000"
FROM_HERE = "127.0.0.1 50000 127.0.0.1 22"


def visited(double: Double, work: Work) -> None:
    node = double.node(tag=TAG)

    async def visit() -> None:
        try:
            await node.open()
            await work(node)
        finally:
            await node.close()

    asyncio.run(visit())


@pytest.fixture
def other_kernel(double: Double, monkeypatch: pytest.MonkeyPatch) -> Double:
    """The machine, with another boot id than this one."""
    double.install()
    monkeypatch.setattr("ullage.host.claims.boot_id", lambda: ELSEWHERE)
    monkeypatch.setenv("SSH_CONNECTION", FROM_HERE)
    return double


def test_an_instance_is_looked_at_by_its_node(other_kernel: Double) -> None:
    async def work(node: SshNode) -> None:
        words = (await node.facts())["clock"]
        assert words.startswith("datagrams to 127.0.0.1, UDP port ")
        agent = (await node.create(order())).agent
        assert not agent.clock_claims.shared
        await agent.sync()
        looks = agent.take_looks()
        assert [look.aside for look in looks] == [True, True]
        # One counter, and both lines began with the kernel's clock.
        assert all(abs(look.fix.offset_ns) < 1_000_000 for look in looks)

    visited(other_kernel, work)


def test_where_ssh_tells_no_address(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    double.install()
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr("ullage.host.claims.boot_id", lambda: ELSEWHERE)

    async def work(node: SshNode) -> None:
        words = (await node.facts())["clock"]
        assert words.startswith("over ssh: ") and "`address:`" in words
        agent = (await node.create(order())).agent
        (look,) = agent.take_looks()
        assert not look.aside and look.messages > 2

    visited(double, work)


def test_a_machine_whose_time_is_another(
    other_kernel: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it tells by datagrams is held against the instance's own channel."""

    async def wrong(_: NodeClock) -> object:
        return await asyncio.to_thread(exchange_with_a_clock_ahead, 50_000_000)

    async def work(node: SshNode) -> None:
        agent = (await node.create(order())).agent
        monkeypatch.setattr(NodeClock, "look", wrong)
        with pytest.raises(UllageError, match="cannot be true of two clocks") as caught:
            await agent.sync()
        assert caught.value.kind is errors.AGENT_CLOCK

    visited(other_kernel, work)


def exchange_with_a_clock_ahead(ahead_ns: int) -> object:
    token = secrets.token_bytes(16)
    server = host_clock.Server(token)
    rules = host_clock.Rules(dropped=0, smallest=2, messages=4)
    client = host_clock.Client(token, host_clock.ordered_ns(), rules)
    while True:
        match client.poll(host_clock.ordered_ns()):
            case ("send", message):
                request = server.receive(message, host_clock.ordered_ns() + ahead_ns)
                assert request is not None
                answer = request.answer(host_clock.ordered_ns() + ahead_ns)
                client.receive(answer, host_clock.ordered_ns(), True)
            case ("done", outcome):
                return outcome


def test_looks_that_are_asked_for_meanwhile_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    times = []
    real = host_clock.synchronise_udp

    def counted(*words: object) -> object:
        times.append(words)
        return real(*words)  # type: ignore[arg-type]

    async def work() -> None:
        node = NodeClock()
        server = clock.listen("127.0.0.1", node.token.hex())
        try:
            assert await node.open(clock.where(server))
            times.clear()
            outcomes = await asyncio.gather(*(node.look() for _ in range(16)))
        finally:
            await asyncio.to_thread(server.stop)
        assert len(times) == 1 and None not in outcomes

    monkeypatch.setattr(host_clock, "synchronise_udp", counted)
    asyncio.run(work())


def test_nothing_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter on the way; the second look does not wait for it again."""
    monkeypatch.setattr(clock, "FIRST_NS", 50_000_000)
    clock.rules.cache_clear()

    async def work() -> None:
        node = NodeClock()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            ear = wire.Ear(address="127.0.0.1", port=silent.getsockname()[1])
            assert not await node.open(ear)
            silent.setblocking(False)
            while True:
                try:
                    silent.recv(200)
                except BlockingIOError:
                    break
            assert await node.look() is None
            with pytest.raises(BlockingIOError):
                silent.recv(200)

    try:
        asyncio.run(work())
    finally:
        clock.rules.cache_clear()
