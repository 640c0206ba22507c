"""What is told of a removal on another machine: done when it is, not when nobody saw it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.test_ssh_node import order
from ullage.common import errors
from ullage.common.cleanup import Undo
from ullage.common.errors import UllageError
from ullage.environments.base import InstanceSpec
from ullage.environments.provisioning import allocate
from ullage.environments.provisioning.allocate import Allocated
from ullage.experiments.elastic.run.nodes import StreamingNode
from ullage.nodes import link as links
from ullage.nodes import wire
from ullage.nodes.base import Order
from ullage.nodes.reach.openssh import Target
from ullage.nodes.serve import Server
from ullage.nodes.ssh import RemoteInstance, SshNode

TAG = "u0000001"
NAME = "n-0"
LONG_S = 60.0


class Stubborn:
    """An instance there, that goes when its turn of the test has come."""

    def __init__(self) -> None:
        self.failures = 0
        self.may_go = asyncio.Event()
        self.may_go.set()
        self.begun = 0
        self.gone = False

    async def destroy(self) -> None:
        self.begun += 1
        await self.may_go.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("its directory is busy")
        self.gone = True


class Wire:
    """Between the two: what is asked for there goes on though nobody waits for it."""

    def __init__(self, server: Server) -> None:
        self.lost: UllageError | None = None
        self.on_lost: list[Callable[[UllageError], None]] = []
        self._server = server

    async def call(
        self, op: str, _: object, request: wire.Payload, *, within_s: float | None = None
    ) -> wire.Payload:
        there = self._server._perform(op, request.model_dump(mode="json"))
        try:
            return await asyncio.shield(asyncio.ensure_future(there))
        except OSError as error:
            raise refused(op, str(error)) from error


class CutWire(Wire):
    """The machine dies while it is asked."""

    async def call(self, *_: object, **__: object) -> wire.Payload:
        self.lost = gone()
        raise self.lost


class ClosedAgent:
    """Its channel has nothing to do with removals."""

    async def close(self) -> None:
        return None

    def abandon(self, error: UllageError) -> None:
        return None


def gone() -> UllageError:
    return UllageError(errors.NODE_LOST, node="a", reason="its cable was pulled")


def refused(op: str, reason: str) -> UllageError:
    facts = {"node": "a", "op": op, "reason": reason, "error": "io", "advice": "look"}
    return UllageError(errors.NODE_REFUSED, **facts)


def made_there(
    there: Stubborn, folder: Path, wiring: type[Wire] = Wire
) -> tuple[Allocated, list[str]]:
    """The instance as an allocation of ours, and whose place was given back."""
    unread: Any = None
    server: Any = Server(unread, bytearray().extend)
    server._tag, server._instances[NAME] = TAG, there
    link: Any = wiring(server)
    spec = InstanceSpec(
        tag=TAG,
        name=NAME,
        cpu_ids=(0,),
        cpu_quota=None,
        memory_bytes=1 << 27,
        image=None,
        agent=Path("agent"),
        state_dir=folder,
        data_dir=folder,
        network=None,
    )
    agent: Any = ClosedAgent()
    instance = RemoteInstance(spec, agent, created("10.213.1.2"), link, LONG_S)
    given_back: list[str] = []
    undo = Undo(lambda: given_back.append(NAME))
    undo.push(instance.destroy)
    site: Any = None
    return Allocated(instance, site, {}, None, undo), given_back


def created(address: str) -> wire.Created:
    return wire.Created(
        socket="/s", cpu_ids=[0], cpu_quota=None, data="/d", own_kernel=False, address=address
    )


def test_a_removal_that_failed_there_is_not_done_at_the_second_try(tmp_path: Path) -> None:
    async def scenario() -> None:
        there = Stubborn()
        there.failures = 2
        allocated, given_back = made_there(there, tmp_path)
        for _ in range(2):
            with pytest.raises(UllageError, match="its directory is busy"):
                await allocate.release(allocated, limit_s=LONG_S)
            assert not given_back
        await allocate.release(allocated, limit_s=LONG_S)
        assert there.gone and given_back == [NAME]

    asyncio.run(scenario())


def test_a_removal_that_is_late_there_is_done_when_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        there = Stubborn()
        there.may_go.clear()
        allocated, given_back = made_there(there, tmp_path)
        with pytest.raises(UllageError) as caught:
            await allocate.release(allocated, limit_s=0.01)
        assert caught.value.kind is errors.RELEASE_TOO_LATE
        again = asyncio.create_task(allocate.release(allocated, limit_s=LONG_S))
        await asyncio.wait({again}, timeout=0.1)
        assert not again.done() and not given_back
        there.may_go.set()
        await again
        assert there.gone and there.begun == 1 and given_back == [NAME]

    asyncio.run(scenario())


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_who_goes_with_its_machine_is_no_measured_removal(when: str, tmp_path: Path) -> None:
    """And its place is free: when the machine is back it is empty."""

    async def scenario() -> None:
        there = Stubborn()
        allocated, given_back = made_there(there, tmp_path, CutWire)
        if when == "before":
            instance: Any = allocated.instance
            instance._link.lost = gone()
        node = StreamingNode(allocated, "10.213.1.2:8080", "http://10.213.1.2:8080/n.mp4")
        with pytest.raises(UllageError) as caught:
            await node.remove(LONG_S)
        assert caught.value.kind is errors.NODE_LOST
        assert given_back == [NAME] and not there.begun

    asyncio.run(scenario())


def test_a_removal_that_was_seen_stays_so_when_the_machine_goes_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        there = Stubborn()
        allocated, _ = made_there(there, tmp_path)
        node = StreamingNode(allocated, "10.213.1.2:8080", "http://10.213.1.2:8080/n.mp4")
        await node.remove(LONG_S)
        instance: Any = allocated.instance
        instance._link.lost = gone()
        await node.remove(LONG_S)
        assert there.gone and there.begun == 1

    asyncio.run(scenario())


class Recorder:
    """A connection over which one instance is made, with the limits of what was asked."""

    control = Path("control")

    def __init__(self, address: str) -> None:
        self.limits: dict[str, float | None] = {}
        self._address = address

    async def call(
        self, op: str, _: object, request: object = None, *, within_s: float | None = None
    ) -> wire.Payload:
        self.limits[op] = within_s
        return created(self._address) if op == "create" else wire.Nothing()


def making(link: Any, wish: Order, monkeypatch: pytest.MonkeyPatch) -> UllageError:
    """What is said when an instance is made over that connection, and no agent answers."""
    node = SshNode("a", Target("a", "root@a"), TAG, "a test", ())
    own = wire.Member(subnet="10.213.1.0/24", address="192.0.2.1")
    node._join = wire.Join(own=own, peers=[], between="routes", key=0, mtu=1500)

    async def connected() -> Any:
        return link

    async def silent(*_: object) -> None:
        raise UllageError(errors.AGENT_NOT_STARTED, agent=NAME, reason="it says nothing")

    monkeypatch.setattr(node, "_connected", connected)
    monkeypatch.setattr(node, "_attached", silent)
    with pytest.raises(UllageError) as caught:
        asyncio.run(node.create(wish))
    return caught.value


@pytest.mark.parametrize(("removal_s", "limit_s"), [(900.0, 900.0), (None, links.LEAVE_S)])
def test_whose_agent_does_not_answer_has_as_long_to_go_as_any_other(
    removal_s: float | None, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal that takes longer counts as the whole machine's loss."""
    link = Recorder("10.213.1.2")
    error = making(link, wished(removal_s=removal_s), monkeypatch)
    assert error.kind is errors.AGENT_NOT_STARTED
    assert link.limits["destroy"] == limit_s


def wished(removal_s: float | None = None) -> Order:
    usual = order()
    return Order(usual.provider, NAME, usual.resources, 0, None, joined=True, removal_s=removal_s)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.213.2.2", "192.0.2.1"])
def test_an_address_that_the_machine_has_not_to_give(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own loopback, another machine's subnet, the machine itself: nobody knocks there."""
    link = Recorder(address)
    error = making(link, wished(), monkeypatch)
    assert error.kind is errors.NODE_REFUSED
    assert address in error.message and "10.213.1.0/24" in error.message
    assert "destroy" in link.limits
