"""Instances made and taken away at run time: what is told, and that nothing stays."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest

from tests.environments.containerkit import bare_spec, image
from tests.support import allocationkit as kit
from ullage.common import errors
from ullage.common.commands import run
from ullage.common.errors import ErrorKind, UllageError
from ullage.environments.agent.client import Command
from ullage.environments.base import Instance, InstanceSpec, ignore_stage
from ullage.environments.containers.lxc import Lxc, LxcOptions
from ullage.environments.containers.oci import Oci, OciOptions
from ullage.environments.native import Native, NativeOptions
from ullage.environments.provisioning import (
    allocate as allocation,
)
from ullage.environments.provisioning import (
    image_copy,
    page_cache,
)
from ullage.environments.provisioning import (
    node as allocation_node,
)
from ullage.environments.provisioning import (
    release as allocation_down,
)
from ullage.environments.provisioning.allocate import (
    Allocated,
    Application,
    Site,
    allocate,
    release,
)
from ullage.host import disks, leftovers
from ullage.host.paths import data_dir, state_dir
from ullage.runs.allocations import Batch, Copy, Step

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

PATIENCE_S = 120


def in_order(steps: dict[Step, int], *names: Step) -> bool:
    return all(steps[before] <= steps[after] for before, after in pairwise(names))


async def fails(kind: ErrorKind, work: Awaitable[object]) -> UllageError:
    with pytest.raises(UllageError) as caught:
        async with asyncio.timeout(PATIENCE_S):
            await work
    assert caught.value.kind is kind
    return caught.value


@pytest.mark.parametrize("kind", ["native", "oci", "lxc"])
def test_the_steps_of_an_instance_on_the_way_up(kind: str) -> None:
    provider = {"oci": Oci(OciOptions()), "lxc": Lxc(LxcOptions())}.get(kind)
    heard: list[Step] = []

    async def scenario() -> Allocated:
        async with kit.node(provider, image() if provider else None) as node:
            allocated = await allocate(node, "a-0", on_step=lambda step, _: heard.append(step))
            assert allocated.instance.address is not None
            asked_ns, gone = await release(allocated)
            assert allocated.steps["up"] <= asked_ns < gone
        return allocated

    gone_again = asyncio.run(scenario())
    steps = dict(gone_again.steps)
    assert in_order(steps, "asked", "chosen", "copied", "booting", "hello", "up")
    assert in_order(steps, "asked", "addressed", "up")
    assert gone_again.seconds == (steps["up"] - steps["asked"]) / 1e9 > 0
    assert set(heard) == set(steps)
    assert gone_again.application is None


def test_an_application_and_what_is_seen_of_it_from_outside() -> None:
    async def scenario() -> dict[Step, int]:
        async with kit.node() as node:
            allocated = await allocate(node, "a-0", application=kit.server())
            assert allocated.application is not None
            assert allocated.application.running
            await release(allocated)
            return dict(allocated.steps)

    steps = asyncio.run(scenario())
    assert in_order(steps, "up", "started", "port_open", "replied")
    # The first knock may be lost while the bridge does not yet pass frames on.
    steps.setdefault("port_closed", steps["addressed"])
    assert in_order(steps, "addressed", "port_closed", "port_open")


def test_the_host_is_told_whose_address_it_is() -> None:
    async def scenario() -> str:
        async with kit.node() as node:
            allocated = await allocate(node, "a-0")
            address, network = str(allocated.instance.address), node.network
            assert network is not None
            entries = await run(["ip", "neighbour", "show", "to", address, "dev", network.bridge])
            assert network.mac(address) in entries
            await release(allocated)
            return entries

    assert asyncio.run(scenario()).split()[-1] == "PERMANENT"


def test_a_provider_that_tells_nothing() -> None:
    class Silent(Native):
        async def create(self, spec: InstanceSpec) -> Instance:
            return await super().create(replace(spec, on_stage=ignore_stage))

    async def scenario() -> dict[Step, int]:
        async with kit.node(Silent(NativeOptions())) as node:
            allocated = await allocate(node, "a-0", application=kit.server())
            await release(allocated)
            return dict(allocated.steps)

    steps = asyncio.run(scenario())
    assert "booting" not in steps
    assert in_order(steps, "hello", "addressed", "up", "port_open", "replied")


def test_an_application_that_ends() -> None:
    async def scenario() -> UllageError:
        async with kit.node() as node:
            broken = Application(("sh", "-c", "echo no luck >&2; exit 3"), kit.PORT)
            work = allocate(node, "a-0", application=broken)
            return await fails(errors.ALLOCATION_APPLICATION, work)

    error = asyncio.run(scenario())
    assert "a-0 does not work: it ended with 3: no luck" in error.message


def test_an_application_that_has_not_what_is_asked_for() -> None:
    async def scenario() -> UllageError:
        async with kit.node() as node:
            work = allocate(node, "a-0", application=kit.server("/absent"))
            return await fails(errors.ALLOCATION_APPLICATION, work)

    assert "status 404" in asyncio.run(scenario()).message


def test_an_application_that_is_not_there() -> None:
    async def scenario() -> None:
        async with kit.node() as node:
            absent = Application(("/no/such/program",), kit.PORT)
            await fails(errors.AGENT_REFUSED, allocate(node, "a-0", application=absent))

    asyncio.run(scenario())


# --- copies ---------------------------------------------------------------------------------------
class Disked(Native):
    stands_on = "disk"


def test_an_image_of_its_own() -> None:
    async def scenario() -> None:
        async with kit.node(Lxc(LxcOptions()), image(), "real") as node:
            allocated = await allocate(node, "a-0")
            copied = data_dir(node.tag) / "a-0.image"
            own_image = allocated.instance.spec.image
            assert own_image is not None
            assert own_image.root == copied / "root"
            original = image().root / "etc/os-release"
            assert (own_image.root / "etc/os-release").read_bytes() == original.read_bytes()
            done, out, _ = await allocated.instance.agent.run(Command(("cat", "/etc/os-release")))
            assert done.status == 0
            assert out == original.read_bytes()
            await release(allocated)
            assert not copied.exists()

    asyncio.run(scenario())


def test_a_disk_of_its_own(tmp_path: Path) -> None:
    """What a VM stands on is the disk, not the tree."""

    class Whole(Disked):
        async def create(self, spec: InstanceSpec) -> Instance:
            assert spec.image is not None
            beginnings.append((await spec.image.disk("raw")).read_bytes()[:4096])
            assert spec.image.dir.name == "a-0.image"
            return await super().create(replace(spec, image=None))

    beginnings: list[bytes] = []
    (tmp_path / "disk.raw").write_bytes(b"x" * 10_000)
    small = replace(image(), dir=tmp_path)

    async def scenario() -> None:
        async with kit.node(Whole(NativeOptions()), small, "real") as node:
            await node.prepare()
            await release(await allocate(node, "a-0"))

    asyncio.run(scenario())
    assert beginnings == [b"x" * 4096]


def test_an_image_is_filled_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of what is copied with it is seen by the instance, and it goes with the copy."""
    own = replace(image(), dir=tmp_path / "image")
    own.dir.mkdir()
    size = disks.stored(own.root) + (3 << 20)

    async def scenario() -> None:
        async with kit.node(Lxc(LxcOptions()), own, "real") as node:
            node.image_size = size
            node.filler = await image_copy.filler(own, node.provider, size, node.tag)
            assert node.filler.stat().st_size == 3 << 20
            with monkeypatch.context() as later:  # the copy's time is for the copy alone
                later.setattr(disks, "stored", lambda _: pytest.fail("walked while it is timed"))
                later.setattr(image_copy, "_fill", lambda *_: pytest.fail("written then"))
                allocated = await allocate(node, "a-0")
            copied = data_dir(node.tag) / "a-0.image"
            assert {path.name for path in copied.iterdir()} == {"root", node.filler.name}
            # `cp` may store a directory's file in other blocks: a thousandth, and no filler more.
            assert abs(disks.stored(copied) - size) <= size / 1000
            held, whole = await page_cache.cooled(node)
            assert held <= whole and whole >= 3 << 20
            await release(allocated)
            assert not copied.exists()
            for file in data_dir(node.tag).glob("filler.*"):
                file.unlink()  # a run does it with all that is its own

    asyncio.run(scenario())
    assert not any(own.dir.iterdir()), "the image stays as it is"


def test_an_image_is_filled_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However its blocks are counted later."""
    (tmp_path / "disk.raw").write_bytes(b"x" * 8192)
    small = replace(image(), dir=tmp_path)
    monkeypatch.setattr(image_copy, "data_dir", lambda _: tmp_path / "run")
    vm = Disked(NativeOptions())

    async def scenario() -> None:
        first = await image_copy.filler(small, vm, 1 << 20, "tag")
        (tmp_path / "disk.raw").write_bytes(b"x" * 65536)
        assert await image_copy.filler(small, vm, 1 << 20, "tag") == first
        other = await image_copy.filler(small, vm, 2 << 20, "tag")
        assert {first, other} == {*(tmp_path / "run").glob("filler.*.raw.*")}

    asyncio.run(scenario())


def test_an_image_that_is_larger_than_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told before the run, where the image is there by then."""
    small, vm = replace(image(), dir=tmp_path), Disked(NativeOptions())
    image_copy.check_size(1 << 20, vm, small)
    (tmp_path / "disk.raw").write_bytes(b"x" * (2 << 20))
    image_copy.check_size(2 << 20, vm, small)
    for own in (small, replace(small, dir=tmp_path / "absent")):
        provider = vm if own is small else Lxc(LxcOptions())
        with pytest.raises(UllageError, match="is less than its image has") as caught:
            image_copy.check_size(1 << 20, provider, own)
        assert caught.value.kind is errors.ALLOCATION_NO_COPY
    monkeypatch.setattr(image_copy, "data_dir", lambda _: tmp_path / "run")
    filling = image_copy.filler(small, vm, 1 << 20, "tag")
    asyncio.run(fails(errors.ALLOCATION_NO_COPY, filling))


def test_no_room_for_what_fills_an_image_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial has no figures, as when `cp` finds no room; the run goes on."""

    def full(path: Path, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "disk.raw").write_bytes(b"x")
    monkeypatch.setattr(image_copy, "_fill", full)
    monkeypatch.setattr(image_copy, "data_dir", lambda _: tmp_path / "run")
    own, vm = replace(image(), dir=tmp_path), Disked(NativeOptions())
    filling = image_copy.filler(own, vm, 1 << 20, "tag")
    assert "No space left" in asyncio.run(fails(errors.ALLOCATION_NO_COPY, filling)).message


def test_a_hole_is_not_stored(tmp_path: Path) -> None:
    with (tmp_path / "disk").open("wb") as file:
        file.write(b"x" * 4096)
        file.truncate(1 << 30)
    (tmp_path / "again").hardlink_to(tmp_path / "disk")
    assert disks.stored(tmp_path / "disk") == disks.stored(tmp_path) == 4096


def test_a_copy_of_nothing() -> None:
    async def scenario() -> UllageError:
        async with kit.node(copy="real") as node:
            return await fails(errors.ALLOCATION_NO_COPY, allocate(node, "a-0"))

    assert "image: host" in asyncio.run(scenario()).message


def test_a_copy_that_does_not_fit(tmp_path: Path) -> None:
    """`cp` fails for whatever reason: nothing of the copy stays."""

    async def scenario() -> UllageError:
        gone = replace(image(), root=tmp_path / "gone")
        async with kit.node(Lxc(LxcOptions()), gone, "real") as node:
            return await fails(errors.ALLOCATION_NO_COPY, allocate(node, "a-0"))

    assert "No such file" in asyncio.run(scenario()).message


def test_a_daemon_keeps_images_itself() -> None:
    docker = Oci(OciOptions(runtime="docker"))
    with pytest.raises(UllageError) as caught:
        image_copy.check("real", docker, image())
    assert caught.value.kind is errors.ALLOCATION_NO_COPY
    image_copy.check("backing", docker, image())
    image_copy.check("real", Oci(OciOptions(runtime="crun")), image())


# --- room -----------------------------------------------------------------------------------------
def test_no_room_for_so_many_vms(monkeypatch: pytest.MonkeyPatch) -> None:
    class Keeping(Native):
        keeps_memory = True

        @property
        def overhead_bytes(self) -> int:
            return 44 * kit.MIB

    monkeypatch.setattr(allocation_node, "available_bytes", lambda: 1000 * kit.MIB)

    async def scenario() -> UllageError:
        async with kit.node(Keeping(NativeOptions())) as node:
            node.check_room(3)
            for name in ("b-0", "b-1"):
                node.choose(name)
            with pytest.raises(UllageError, match="2 more VMs may need"):
                node.check_room(2)
            for name in ("b-0", "b-1"):
                node.give_back(replace(bare_spec(), name=name))
            work = together(node, 4)
            return await fails(errors.ALLOCATION_NO_ROOM, work)

    assert "4 more VMs may need" in asyncio.run(scenario()).message


def test_the_kernel_tells_what_is_available() -> None:
    assert 0 < allocation_node.available_bytes() < 1 << 60


def test_the_places_are_given_in_turn_and_given_back() -> None:
    async def scenario() -> None:
        async with kit.node() as node:
            first, two = node.choose("a-0"), node.choose("a-1")
            assert first.cpu_ids != two.cpu_ids
            node.give_back(first)
            node.give_back(first)
            assert node.choose("a-2").cpu_ids == first.cpu_ids

    asyncio.run(scenario())


# --- several at once ------------------------------------------------------------------------------
def together(
    node: Site, count: int, last: str = "", limit_s: float = 60, release_s: float = 60
) -> Awaitable[Batch]:
    names = [f"a-{number}" for number in range(count)]
    names[-1] += last
    return allocation.together(
        node, names, application=None, allocate_limit_s=limit_s, release_limit_s=release_s
    )


def test_four_at_once() -> None:
    async def scenario() -> Batch:
        async with kit.node() as node:
            return await together(node, 4)

    batch = asyncio.run(scenario())
    assert [steps.name for steps in batch.instances] == [f"a-{number}" for number in range(4)]
    last_up = max(steps.steps["up"] for steps in batch.instances)
    assert all(last_up <= steps.release_asked < steps.released for steps in batch.instances)
    assert not batch.applied


def test_one_that_fails_takes_all_down() -> None:
    class Failing(kit.Bad):
        async def misbehave(self, spec: InstanceSpec) -> None:
            while len(self.instances) < 2:
                await asyncio.sleep(0.01)
            raise UllageError(
                errors.INSTANCE_NOT_STARTED, provider="x", name=spec.name, reason="full"
            )

    async def scenario() -> UllageError:
        async with kit.node(Failing()) as node:
            return await fails(errors.INSTANCE_NOT_STARTED, together(node, 3, "-bad"))

    assert asyncio.run(scenario()).facts["name"] == "a-2-bad"


def test_the_limit_holds_while_a_place_is_looked_for() -> None:
    class Silent:
        async def place(self, name: str) -> NoReturn:
            await asyncio.Event().wait()
            raise AssertionError(name)

    async def scenario() -> UllageError:
        async with asyncio.timeout(30):
            work = allocate(Silent(), "a-0", limit_s=0.05)
            return await fails(errors.ALLOCATION_TOO_LATE, work)

    assert asyncio.run(scenario()).facts["last"] == "asked"


def test_one_that_hangs_is_late() -> None:
    async def scenario() -> UllageError:
        async with kit.node(kit.Hanging()) as node:
            work = allocate(node, "a-bad", limit_s=0.2)
            return await fails(errors.ALLOCATION_TOO_LATE, work)

    error = asyncio.run(scenario())
    assert error.message.startswith("a-bad was not ready within 0.2 s; the last that was seen")
    assert error.facts["last"] in {"chosen", "copied"}


def test_what_a_deaf_provider_makes_in_the_end_is_taken_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allocation_down, "GENTLE_S", 0.1)
    deaf = kit.Deaf()

    async def scenario() -> None:
        async with kit.node(deaf) as node:
            task = asyncio.ensure_future(allocate(node, "a-bad"))
            async with asyncio.timeout(PATIENCE_S):
                await deaf.reached.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert allocation_down._abandoned
                deaf.let_go.set()
                while allocation_down._abandoned:
                    await asyncio.sleep(0.01)
            assert all(not instance.alive for instance in deaf.instances)

    asyncio.run(scenario())


def test_cancelled_in_the_middle_nothing_is_left() -> None:
    """What Ctrl-C does."""
    hanging = kit.Hanging()

    async def scenario() -> None:
        async with kit.node(hanging) as node:
            task = asyncio.ensure_future(together(node, 3, "-bad"))
            async with asyncio.timeout(PATIENCE_S):
                await hanging.reached.wait()
                while len(hanging.instances) < 2:
                    await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(scenario())


# --- release --------------------------------------------------------------------------------------
def traces(node: Site) -> set[str]:
    """All that stands on this host for the run: processes, devices, namespaces, groups, files."""
    names = {f"{leftover.kind} {leftover.name}" for leftover in leftovers.find(node.tag, own=True)}
    directories = [place(node.tag) for place in (data_dir, state_dir)]
    return names | {str(path) for directory in directories for path in directory.glob("*")}


@pytest.mark.parametrize(
    ("kind", "copy"),
    [
        ("native", "backing"),
        ("oci", "real"),
        ("lxc", "backing"),
        pytest.param("oci", "backing", marks=pytest.mark.lab),
        pytest.param("lxc", "real", marks=pytest.mark.lab),
    ],
)
def test_what_is_told_as_gone_is_gone_in_that_moment(kind: str, copy: Copy) -> None:
    provider = {"oci": Oci(OciOptions()), "lxc": Lxc(LxcOptions())}.get(kind)

    async def scenario() -> None:
        async with kit.node(provider, image() if provider else None, copy) as node:
            before = traces(node)
            allocated = await allocate(node, "a-0")
            assert {trace.partition(" ")[0] for trace in traces(node) - before} >= {"process"}
            await release(allocated)
            assert traces(node) == before

    asyncio.run(scenario())


def broken_release(
    monkeypatch: pytest.MonkeyPatch, misbehave: Callable[[], Awaitable[None]]
) -> None:
    """The first time that the instance `a-1-bad` is to be destroyed, it does that before."""
    kit.broken_destroy(monkeypatch, misbehave, name="a-1-bad", times=1)


def test_a_release_that_hangs_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    broken_release(monkeypatch, hang)

    async def scenario() -> UllageError:
        async with kit.node() as node:
            work = together(node, 2, "-bad", release_s=5)
            return await fails(errors.RELEASE_TOO_LATE, work)

    assert asyncio.run(scenario()).message == "a-1-bad was not gone within 5 s"


def test_a_release_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise UllageError(errors.NETWORK_FAILED, reason="no such link")

    broken_release(monkeypatch, fail)

    async def scenario() -> UllageError:
        async with kit.node() as node:
            return await fails(errors.NETWORK_FAILED, together(node, 2, "-bad"))

    assert "no such link" in asyncio.run(scenario()).message


async def busy() -> None:
    raise UllageError(errors.NETWORK_FAILED, reason="busy for a moment")


def test_a_release_that_failed_is_done_when_it_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = kit.broken_destroy(monkeypatch, busy, times=1)

    async def scenario() -> None:
        async with kit.node() as node:
            allocated = await allocate(node, "a-0", application=kit.server())
            await fails(errors.NETWORK_FAILED, release(allocated))
            await kit.dead(allocated.instance)  # nothing runs on, whatever is left of it
            assert node.used == 1
            await release(allocated)
            assert tried == ["a-0", "a-0"]
            assert node.used == 0

    asyncio.run(scenario())


def test_a_release_that_never_comes_to_its_end_is_never_told_as_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kit.broken_destroy(monkeypatch, busy, times=3)

    async def scenario() -> None:
        async with kit.node() as node:
            allocated = await allocate(node, "a-0")
            for _ in range(3):
                await fails(errors.NETWORK_FAILED, release(allocated))
                await kit.dead(allocated.instance)
                assert node.used == 1
            await release(allocated)  # the host is not to keep what this test made
            assert node.used == 0

    asyncio.run(scenario())


def test_a_release_that_does_not_even_hear_is_late_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allocation_down, "GENTLE_S", 0.1)

    async def scenario() -> None:
        let_go = asyncio.Event()

        async def deaf() -> None:
            while not let_go.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await let_go.wait()

        kit.broken_destroy(monkeypatch, deaf, times=1)
        async with kit.node() as node:
            allocated = await allocate(node, "a-0")
            for _ in range(2):
                await fails(errors.RELEASE_TOO_LATE, release(allocated, limit_s=0.2))
                assert node.used == 1
            let_go.set()
            await release(allocated)
            assert node.used == 0

    asyncio.run(scenario())
