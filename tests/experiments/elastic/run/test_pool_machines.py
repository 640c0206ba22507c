"""Which machine a node of the pool is made on, and how the image comes there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ullage.common import errors
from ullage.common.cleanup import Undo
from ullage.common.errors import ErrorKind, UllageError
from ullage.environments.base import DataDisk
from ullage.environments.containers.lxc import Lxc, LxcOptions
from ullage.environments.placement import Resources
from ullage.environments.provisioning import release
from ullage.environments.provisioning.allocate import Allocated, allocate
from ullage.environments.provisioning.node import Site
from ullage.experiments.elastic.plan.machines import PoolPlace
from ullage.experiments.elastic.run import machines
from ullage.experiments.elastic.run.machines import (
    FarSite,
    Pool,
    PoolMachine,
    PoolNodes,
    PoolSite,
)
from ullage.experiments.elastic.run.pool_roster import PoolRoster
from ullage.nodes import wire
from ullage.nodes.base import Order
from ullage.nodes.provider import on_nodes

MIB = 1 << 20
GIB = 1 << 30
IMAGE: Any = SimpleNamespace(writable=False)


class FarNode:
    """A machine that tells what it is asked for, and makes nothing."""

    def __init__(self, name: str, *, cpus: int = 2, free: int = GIB) -> None:
        self.name = name
        self.lost = False
        self.told = wire.RoomLeft(available_bytes=free, cpus=cpus)
        self.has_image = False
        self.sent = 0
        self.go = asyncio.Event()
        self.orders: list[Order] = []
        self.instances: list[FarInstance] = []
        self.trouble: UllageError | None = None

    async def room(self) -> wire.RoomLeft:
        if self.trouble is not None:
            raise self.trouble
        return self.told

    async def has(self, image: object) -> bool:
        return self.has_image

    async def take(self, image: object) -> None:
        self.sent += 1
        await self.go.wait()

    async def create(self, order: Order) -> FarInstance:
        self.orders.append(order)
        await self.go.wait()
        self.instances.append(FarInstance())
        return self.instances[-1]


class FarInstance:
    """One of its instances."""

    gone = False

    async def destroy(self) -> None:
        self.gone = True


def gone(name: str) -> UllageError:
    return UllageError(errors.NODE_LOST, node=name, reason="its cable was pulled")


def pool(nodes: list[FarNode], place: PoolPlace, cpus: float = 1) -> Pool:
    sites = []
    for node in nodes:
        machine = PoolMachine(node)  # type: ignore[arg-type]
        site = FarSite(
            tag="u0000001",
            provider=on_nodes(Lxc(Lxc.options_model())),
            resources=Resources(cpus=cpus, memory=128 * MIB),
            image=IMAGE,
            agent=Path("agent"),
            network=None,
            far=machine,
        )
        sites.append(PoolSite(machine, site))
    return Pool(sites, place)


def placed(ours: Pool, count: int) -> str:
    """The machines of so many nodes, one after the other."""

    async def scenario() -> None:
        for number in range(count):
            await ours.place(f"n-{number}")

    asyncio.run(scenario())
    return "".join(ours.chosen[f"n-{number}"] for number in range(count))


def test_spread_takes_the_one_of_which_the_least_is_taken() -> None:
    assert placed(pool([FarNode("a"), FarNode("b", cpus=4)], "spread"), 6) == "abbabb"


def test_of_two_alike_the_one_that_has_the_image() -> None:
    ours = pool([FarNode("a"), FarNode("b")], "spread")
    ours.sites[1].machine.has_image = True
    assert placed(ours, 3) == "bab"


def test_pack_gives_every_cpu_of_one_a_node_before_another_has_any() -> None:
    assert placed(pool([FarNode("a"), FarNode("b")], "pack"), 6) == "aabbaa"
    assert placed(pool([FarNode("a"), FarNode("b")], "pack", cpus=1.5), 4) == "abab"


def test_pack_fills_up_what_was_left() -> None:
    ours = pool([FarNode("a", cpus=4), FarNode("b", cpus=4)], "pack")
    assert placed(ours, 6) == "aaaabb"

    async def three_leave_and_one_comes() -> None:
        for number in range(3):
            site = ours.sites[0].site
            site.give_back(SimpleNamespace(name=f"n-{number}"))  # type: ignore[arg-type]
        await ours.place("n-6")

    asyncio.run(three_leave_and_one_comes())
    assert ours.chosen["n-6"] == "b"  # which has two by then, and the other has one


def test_a_machine_without_room_or_that_is_lost_is_left_out() -> None:
    full, lost, last = FarNode("a", free=100 * MIB), FarNode("b"), FarNode("c")
    lost.lost = True
    assert placed(pool([full, lost, last], "spread"), 3) == "ccc"


def test_who_is_lost_while_it_is_asked_is_left_out_too() -> None:
    dies, lives = FarNode("a"), FarNode("b")
    dies.trouble = gone("a")
    assert placed(pool([dies, lives], "pack"), 2) == "bb"


def test_who_is_lost_while_others_are_asked_is_left_out_too() -> None:
    dies, slow = FarNode("a"), FarNode("b")
    ours = pool([dies, slow], "spread")

    async def later() -> wire.RoomLeft:
        dies.lost = True
        return slow.told

    slow.room = later  # type: ignore[method-assign]
    assert placed(ours, 1) == "b"


def test_who_does_not_tell_is_left_out_and_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "_TELLS_S", 0.05)
    silent, tells = FarNode("a"), FarNode("b")

    async def never() -> wire.RoomLeft:
        await asyncio.Event().wait()
        raise AssertionError

    silent.room = never  # type: ignore[method-assign]
    ours = pool([silent, tells], "spread")

    async def scenario() -> None:
        async with asyncio.timeout(30):
            await ours.place("n-0")

    asyncio.run(scenario())
    assert ours.chosen["n-0"] == "b" and not silent.lost


def test_a_lost_machine_is_asked_for_nothing_before_the_next_repetition() -> None:
    """What asks it reaches it anew: its image or a node would bring it back in between."""
    node = FarNode("a")
    node.go.set()
    ours = pool([node], "spread")

    async def scenario() -> None:
        site, spec = await ours.place("n-0")
        node.lost = True
        for work in (site.fetch(), site.create(spec, Undo())):
            with pytest.raises(UllageError) as caught:
                await work
            assert caught.value.kind is errors.NODE_LOST

    asyncio.run(scenario())
    assert node.sent == 0 and not node.orders


def come_and_go(ours: Pool, names: list[str], *, failed: bool = False) -> str:
    """The machines of nodes that come one after the other, and go again."""

    async def scenario() -> None:
        for name in names:
            site, spec = await ours.place(name)
            ours.note(name, failed=failed)
            site.give_back(spec)

    asyncio.run(scenario())
    return "".join(ours.chosen[name] for name in names)


def test_a_machine_that_failed_once_has_its_turn_again() -> None:
    ours = pool([FarNode("a"), FarNode("b")], "spread")
    assert come_and_go(ours, ["failing"], failed=True) == "a"
    assert come_and_go(ours, [f"n-{number}" for number in range(5)]) == "bbbaa"


def test_a_machine_that_failed_in_one_repetition_is_as_good_as_any_in_the_next() -> None:
    plan: Any = SimpleNamespace(machines={})
    roster = PoolRoster(plan, "u0000001", Path("run"), ())
    roster._machines = [PoolMachine(node) for node in (FarNode("a"), FarNode("b"))]  # type: ignore[arg-type]
    ours = roster.pool(pool([FarNode("here")], "spread").sites[0].site, "spread")
    ours.chosen["n-0"] = "a"
    ours.note("n-0", failed=True)
    asyncio.run(roster.reach_anew())
    assert [one.rests for one in ours.sites] == [0, 0]


def test_when_none_can_take_it_all_reasons_are_told() -> None:
    full, lost = FarNode("a", free=100 * MIB), FarNode("b")
    lost.lost = True
    with pytest.raises(UllageError) as caught:
        placed(pool([full, lost], "spread"), 1)
    assert caught.value.kind is errors.ELASTIC_NO_MACHINE
    assert "a has 100MiB of memory left, and a node 128MiB" in caught.value.message
    assert "b is lost" in caught.value.message


def test_each_node_has_its_turn_of_the_cpus_there() -> None:
    node = FarNode("a", cpus=2)
    node.go.set()
    ours = pool([node], "spread")

    async def scenario() -> None:
        for number in range(3):
            site, spec = await ours.place(f"n-{number}")
            await site.fetch()
            await site.create(spec, Undo())

    asyncio.run(scenario())
    assert [order.turn for order in node.orders] == [0, 1, 0]
    assert all(order.joined for order in node.orders)


def test_the_disk_of_a_node_is_looked_for_on_its_machine_and_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULLAGE_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data" / "u0000001").mkdir(parents=True)
    missing = tmp_path / "nowhere" / "only-there"
    provider = Lxc(LxcOptions(disk=DataDisk(path=missing)))
    far = replace(pool([FarNode("a")], "spread").sites[0].site, provider=on_nodes(provider))
    assert far.choose("n-0").data_dir.is_relative_to(tmp_path / "data")
    here = Site(
        tag=far.tag,
        provider=provider,
        resources=far.resources,
        image=None,
        agent=far.agent,
        network=None,
    )
    with pytest.raises(UllageError) as caught:
        here.choose("n-0")
    assert caught.value.kind is errors.DISK_UNUSABLE
    assert here.used == 0, "it was given no place"


def test_who_is_taken_back_while_it_is_made_there_goes_all_the_same() -> None:
    """The machine makes it to the end: it has no other way to hear of that."""
    node = FarNode("a")
    ours = pool([node], "spread")

    async def scenario() -> None:
        site, spec = await ours.place("n-0")
        undo = Undo()
        making = asyncio.create_task(site.create(spec, undo))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        making.cancel()
        node.go.set()
        with pytest.raises(asyncio.CancelledError):
            await making
        await undo.aclose()

    asyncio.run(scenario())
    assert [instance.gone for instance in node.instances] == [True]


def taken_back(node: FarNode, until: Callable[[asyncio.Task[Allocated]], Awaitable[None]]) -> Pool:
    """Where one was to be made that was taken back while it was."""
    ours = pool([node], "spread")

    async def scenario() -> None:
        making = asyncio.create_task(allocate(ours, "n-0", limit_s=30))
        while not node.orders:
            await asyncio.sleep(0.01)
        making.cancel()
        await until(making)
        node.go.set()
        await asyncio.wait({making})
        assert making.cancelled()

    asyncio.run(scenario())
    return ours


class Stays(FarInstance):
    """One that is not removed at the first tries."""

    def __init__(self, fails: int) -> None:
        self.fails = fails
        self.tries = 0

    async def destroy(self) -> None:
        self.tries += 1
        if self.tries <= self.fails:
            raise UllageError(
                errors.NODE_REFUSED, node="a", op="destroy", reason="busy", error="io", advice=""
            )
        self.gone = True


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ULLAGE_DATA_DIR", str(tmp_path / "data"))


@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize(("fails", "tries", "used"), [(0, 1, 0), (1, 2, 0), (9, 2, 1)])
def test_what_was_taken_back_has_its_place_until_it_is_gone_there(
    fails: int, tries: int, used: int
) -> None:
    node, stays = FarNode("a"), Stays(fails)
    node.has_image = True

    async def create(order: Order) -> FarInstance:
        node.orders.append(order)
        await node.go.wait()
        return stays

    async def take(image: object) -> None:
        """It is there."""

    node.create, node.take = create, take  # type: ignore[method-assign]
    ours = taken_back(node, lambda _: asyncio.sleep(0.05))
    assert (stays.tries, ours.sites[0].site.used) == (tries, used)


@pytest.mark.usefixtures("own_state")
def test_what_that_machine_makes_is_waited_for_longer_than_processes_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is killed there: until it has answered, its place is not free."""
    monkeypatch.setattr(release, "GENTLE_S", 0.05)
    node = FarNode("a")

    async def take(image: object) -> None:
        """It is there."""

    node.take = take  # type: ignore[method-assign]

    async def waits(making: asyncio.Task[Allocated]) -> None:
        await asyncio.wait({making}, timeout=0.5)
        assert not making.done()

    ours = taken_back(node, waits)
    assert [instance.gone for instance in node.instances] == [True]
    assert ours.sites[0].site.used == 0


def test_the_image_is_sent_once_whoever_gives_up_waiting_for_it() -> None:
    node = FarNode("a")
    machine = PoolMachine(node)  # type: ignore[arg-type]

    async def scenario() -> None:
        first, second = (asyncio.create_task(machine.take(IMAGE)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first})
        assert first.cancelled() and not machine.has_image
        node.go.set()
        await second

    asyncio.run(scenario())
    assert node.sent == 1 and machine.has_image


def test_what_is_on_its_way_at_the_end_is_given_up() -> None:
    node = FarNode("a")
    machine = PoolMachine(node)  # type: ignore[arg-type]

    async def scenario() -> None:
        waiting = asyncio.create_task(machine.take(IMAGE))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await machine.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())
    assert node.sent == 1


def test_where_making_failed_the_next_is_made_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [FarNode("a"), FarNode("b")]
    ours = pool(nodes, "pack")
    maker = PoolNodes(ours, 1, "lxc-0r0", Path("film"), pool=ours)
    assert maker.machine("lxc-0r0-0") == ""

    async def refused(where: Pool, name: str, **_: object) -> None:
        site, spec = await where.place(name)
        site.give_back(spec)
        nodes[0].trouble = gone("a")
        raise UllageError(errors.AGENT_LOST, agent=name, reason="it closed its channel")

    monkeypatch.setattr("ullage.environments.provisioning.allocate.allocate", refused)

    async def scenario() -> None:
        for name in ("lxc-0r0-0", "lxc-0r0-0-2"):
            with pytest.raises(UllageError) as caught:
                await maker.make(name, 60)
            nodes[0].trouble = None
            kinds.append(caught.value.kind)

    kinds: list[ErrorKind] = []
    asyncio.run(scenario())
    assert kinds == [errors.NODE_LOST, errors.AGENT_LOST]  # of b, which answers, it is the agent
    assert [maker.machine("lxc-0r0-0"), maker.machine("lxc-0r0-0-2")] == ["a", "b"]
