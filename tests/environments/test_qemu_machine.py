"""A VM's memory, NUMA nodes, vCPUs, I/O thread and nesting: asked, refused, and seen for real."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.environments.qemukit import (
    MIB,
    hanging_kernel,
    machine,
    options,
    pairs,
    refused,
    spec_for,
    tiny_image,
)
from ullage.common import errors
from ullage.common.cleanup import Undo
from ullage.common.errors import UllageError
from ullage.environments.qemu import cpus, inspection, memory
from ullage.environments.qemu.build import Builder
from ullage.environments.qemu.command_line import Drive, command_line
from ullage.environments.qemu.memory import Backing
from ullage.environments.qemu.probe import Probe
from ullage.environments.qemu.process import QemuProcess
from ullage.environments.qemu.provider import Qemu, QemuInstance
from ullage.host import image
from ullage.host.guest_kernel import GuestKernel

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")


@contextmanager
def reserved(count: int) -> Iterator[None]:
    """So many huge pages more on this host, for a while."""
    before = int(POOL.read_text())
    POOL.write_text(str(before + count))
    try:
        if int(POOL.read_text()) < before + count:
            pytest.skip("this host's memory is too fragmented for huge pages")
        yield
    finally:
        POOL.write_text(str(before))


def test_the_format_of_the_images_disk(tmp_path: Path) -> None:
    """It boots from that one, read-only, and its copies are of that one."""
    (tmp_path / "disk.qcow2").write_bytes(b"")
    own = replace(tiny_image(tmp_path), dir=tmp_path)
    spec = spec_for(tmp_path, "t", own, tmp_path)
    chosen = options(image_format="qcow2", disk={"size": 64 * MIB})
    assert Qemu(chosen).image_format == "qcow2" and Qemu(options()).image_format == "raw"
    assert "image_format" not in options().model_dump(), "as records from before it have none"

    async def root() -> Drive:
        async with Undo() as undo:
            builder = Builder(chosen, "tcg", "max", hanging_kernel(tmp_path), spec)
            return (await builder._drives(undo))[0]

    drive = asyncio.run(root())
    assert (drive.path, drive.format) == (tmp_path / "disk.qcow2", "qcow2")
    assert drive.read_only


def test_a_root_of_its_own_is_a_copy_beside_the_data_disk(tmp_path: Path) -> None:
    """Through the cache of the data disk; written only where the plan says so, and then removed."""
    (tmp_path / "disk.raw").write_bytes(b"image")
    own = replace(tiny_image(tmp_path), dir=tmp_path)
    place = tmp_path / "data-0"
    chosen = options(disk={"size": 64 * MIB, "root": "own", "cache": "directsync"})
    assert "root" not in options().model_dump(mode="json")["disk"], "as records from before it"
    assert Qemu(chosen).writable_root() == "ext4, in a copy of the image's disk"

    async def root(*, writable: bool) -> Drive:
        spec = spec_for(tmp_path, "t", replace(own, writable=writable), tmp_path)
        async with Undo() as undo:
            builder = Builder(chosen, "tcg", "max", hanging_kernel(tmp_path), spec)
            drive = (await builder._drives(undo))[0]
            assert drive.path.parent == place and drive.path.read_bytes() == b"image"
            assert drive.path.stat().st_ino != (tmp_path / "disk.raw").stat().st_ino
            return drive

    for writable in (False, True):
        drive = asyncio.run(root(writable=writable))
        assert (drive.format, drive.cache, drive.read_only) == ("raw", "directsync", not writable)
        assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"hugepages": "4KiB"},
        {"numa": {"nodes": 0}},
        {"numa": {"nodes": 3, "host": [0, 1]}},
        {"vcpus": "sometimes"},
        {"io_thread": True, "disk": {"bus": "nvme"}},
        {"io_thread": True, "disk": {"bus": "sata"}},
        {"nested": "yes"},
        {"swap": {"on": "zram", "size": "1GiB"}},
        {"swap": {"on": "zram", "size": "1GiB", "resident": "256MiB"}, "hugepages": "2MiB"},
    ],
)
def test_the_plan_is_checked(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        options(**fields)


def test_a_plan_from_before_is_the_same_plan() -> None:
    names = {"hugepages", "numa", "vcpus", "io_thread", "nested"}
    assert not names & options().model_dump(mode="json").keys()
    now = options(hugepages="2MiB", numa={"nodes": 2}, vcpus="pinned", io_thread=True, nested=False)
    assert names <= now.model_dump(mode="json").keys()


def test_what_the_host_swaps_of_a_vm_is_a_treatment() -> None:
    """And of the memory inside nothing is said otherwise."""
    swapping = Qemu(options(swap={"on": "zram", "size": "1GiB", "resident": "256MiB"}))
    assert "swap" not in options().model_dump(mode="json")
    assert swapping.data_treatments() == {"swap": "1GiB on zram, 256MiB resident"}
    assert Qemu(options()).data_treatments() == {}


def test_memory_is_divided_among_nodes() -> None:
    backing = Backing("2MiB", 3)
    sizes = backing.sizes(256 * MIB)
    assert sum(sizes) == 256 * MIB
    assert sizes == [86 * MIB, 86 * MIB, 84 * MIB]
    assert sum(Backing(nodes=2).sizes(6_171_021 * 4096)) == 6_171_020 * 4096


def test_the_command_line(tmp_path: Path) -> None:
    two = machine(tmp_path, vcpus=3, backing=Backing("2MiB", 2, (0, 1)))
    argv = pairs(command_line(two, 3, 4))
    first = "memory-backend-memfd,id=ram0,size=33554432,hugetlb=on,hugetlbsize=2097152,prealloc=on"
    assert ("-object", f"{first},host-nodes=0,policy=bind") in argv
    assert ("-numa", "node,nodeid=0,cpus=0-1,memdev=ram0") in argv
    assert ("-numa", "node,nodeid=1,cpus=2-2,memdev=ram1") in argv
    assert ("-smp", "3,sockets=3,cores=1,threads=1") in argv
    lone = pairs(command_line(machine(tmp_path, backing=Backing(nodes=2)), 3, 4))
    assert ("-numa", "node,nodeid=1,memdev=ram1") in lone
    one = pairs(command_line(machine(tmp_path, backing=Backing(host=(1,))), 3, 4))
    assert ("-machine", "q35,memory-backend=ram0") in one
    assert ("-object", "memory-backend-ram,id=ram0,size=67108864,host-nodes=1,policy=bind") in one


def kind_of(call: Callable[[], object]) -> tuple[errors.ErrorKind, str]:
    with pytest.raises(UllageError) as caught:
        call()
    return caught.value.kind, caught.value.message


def test_what_this_host_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_POOLS", tmp_path)
    kind, message = kind_of(lambda: memory.check_host(Backing("1GiB")))
    assert kind is errors.VM_NO_HUGE_PAGES
    assert message.endswith("huge pages of 1GiB: this host has reserved none")
    pool = tmp_path / "hugepages-2048kB"
    pool.mkdir()
    (pool / "nr_hugepages").write_text("64\n")
    (pool / "free_hugepages").write_text("32\n")
    memory.check_host(Backing("2MiB"))
    memory.check_room(Backing("2MiB"), "vm-0", 64 * MIB)
    for size, nodes, reason in (
        (65 * MIB, 1, "no whole number"),
        (128 * MIB, 1, "it needs 64, and 32 are free"),
        (2 * MIB, 2, "fewer than its 2 NUMA nodes"),
    ):
        with pytest.raises(UllageError, match=reason) as caught:
            memory.check_room(Backing("2MiB", nodes), "vm-0", size)
        assert caught.value.kind is errors.VM_NO_HUGE_PAGES


def test_numa_of_the_host_is_refused_where_it_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_NODES", tmp_path)
    for number, size in ((0, 1000), (1, 0)):
        (tmp_path / f"node{number}").mkdir()
        text = f"Node {number} MemTotal:        {size} kB\n"
        (tmp_path / f"node{number}/meminfo").write_text(text)
    kind, message = kind_of(lambda: memory.check_host(Backing(host=(0,))))
    assert kind is errors.VM_NO_NUMA_NODE
    assert "this host has no other" in message
    kind, message = kind_of(lambda: memory.check_host(Backing(host=(1,))))
    assert kind is errors.VM_NO_NUMA_NODE
    assert "node 1" in message
    (tmp_path / "node1/meminfo").write_text("Node 1 MemTotal: 5 kB\n")
    memory.check_host(Backing(host=(1,)))


def test_nesting_needs_the_hosts_kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpuinfo, nested = tmp_path / "cpuinfo", tmp_path / "kvm_intel/parameters/nested"
    cpuinfo.write_text("flags\t\t: fpu vme\n")
    monkeypatch.setattr(cpus, "_CPUINFO", cpuinfo)
    monkeypatch.setattr(cpus, "_MODULES", tmp_path)
    assert "neither vmx nor svm" in str(cpus.no_nesting())
    cpuinfo.write_text("flags\t\t: fpu vmx\n")
    assert str(nested) in str(cpus.no_nesting())
    nested.parent.mkdir(parents=True)
    nested.write_text("N\n")
    assert cpus.no_nesting() == f"{nested} says N"
    nested.write_text("Y\n")
    assert cpus.no_nesting() is None
    assert cpus.nesting("kvm", able=True) == "vmx=on"
    assert cpus.nesting("tcg", able=False) == "svm=off"


def test_kvm_that_cannot_nest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def kvm(*_: object) -> Probe:
        return Probe(works=True, reason="")

    async def guest_kernel(*_: object) -> GuestKernel:
        return hanging_kernel(tmp_path)

    monkeypatch.setattr("ullage.environments.qemu.provider.guest_kernel", guest_kernel)
    monkeypatch.setattr("ullage.environments.qemu.provider.kvm", kvm)
    monkeypatch.setattr(cpus, "no_nesting", lambda: "nested says N")
    kind, message = kind_of(lambda: asyncio.run(Qemu(options(nested=True)).check()))
    assert kind is errors.VM_NO_NESTING
    assert "nested says N" in message


@pytest.mark.root
def test_too_few_huge_pages_are_said_before_anything_is_made(tmp_path: Path, tag: str) -> None:
    spec = spec_for(tmp_path, tag, tiny_image(tmp_path), tmp_path / "agent")
    odd = replace(spec, memory_bytes=257 * MIB)
    builder = Builder(options(hugepages="2MiB"), "tcg", "max", hanging_kernel(tmp_path), odd)
    assert refused(builder) is errors.VM_NO_HUGE_PAGES
    assert not any(spec.data_dir.iterdir())


def on_a_qemu(tmp_path: Path, look: Callable[[QemuProcess], Coroutine[Any, Any, None]]) -> None:
    async def live() -> None:
        process = await QemuProcess.start(machine(tmp_path), tmp_path / "console.log")
        try:
            await look(process)
        finally:
            await process.kill()

    asyncio.run(live())


def test_a_machine_that_is_another_is_refused(tmp_path: Path) -> None:
    """A QEMU without any of it, of a plan that asks for all."""

    async def look(vm: QemuProcess) -> None:
        free = sorted(os.sched_getaffinity(0))
        if len(free) > 1:
            with pytest.raises(UllageError) as caught:
                await inspection.pinned(vm, free[:1])
            assert caught.value.kind is errors.VM_NOT_AS_ASKED
        with pytest.raises(UllageError) as caught:
            await inspection.io_thread(vm)
        assert "an I/O thread" in caught.value.message
        for backing in (Backing("2MiB"), Backing(host=(0,))):
            with pytest.raises(UllageError) as caught:
                inspection.memory(vm, backing, 64 * MIB)
            assert caught.value.kind is errors.VM_NOT_AS_ASKED
        await vm.pin(free[:1])
        await inspection.pinned(vm, free[:1])

    on_a_qemu(tmp_path, look)


def test_memory_bound_to_a_node_of_this_host_is_seen_there(tmp_path: Path) -> None:
    """Node 0 is everywhere; on a host with one it is refused in a plan."""
    backing = Backing(host=(0,))

    async def live() -> None:
        vm = machine(tmp_path, backing=backing)
        process = await QemuProcess.start(vm, tmp_path / "console.log")
        try:
            inspection.memory(process, backing, 64 * MIB)
        finally:
            await process.kill()

    asyncio.run(live())


class Inside:
    """What an agent inside would read."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def get(self, path: str, _: int) -> bytes:
        return self.text.encode()


def test_a_guest_that_shows_another_machine_is_refused(tmp_path: Path) -> None:
    async def look(vm: QemuProcess) -> None:
        agent: Any = Inside("0\n")
        with pytest.raises(UllageError) as caught:
            await inspection.nodes(vm, agent, 2)
        assert caught.value.message.endswith("2 NUMA nodes, and the running VM has 0 online")
        able: Any = Inside("flags\t\t: fpu svm sse\n")
        await inspection.nested(vm, able, able=True)
        with pytest.raises(UllageError) as caught:
            await inspection.nested(vm, able, able=False)
        assert "one with svm" in caught.value.message
        with pytest.raises(UllageError) as caught:
            await inspection.nested(vm, agent, able=True)
        assert "neither vmx nor svm" in caught.value.message

    on_a_qemu(tmp_path, look)


@pytest.mark.root
@pytest.mark.parametrize("nested", [True, pytest.param(False, marks=pytest.mark.lab)])
def test_a_real_vm_is_the_machine_that_was_asked_for(
    tmp_path: Path, tag: str, agent_binary: Path, nested: bool
) -> None:
    """Huge pages, two nodes, pinned vCPUs and an I/O thread: `create` itself looks at all."""
    ids = tuple(sorted(os.sched_getaffinity(0))[:2])
    if len(ids) < 2:
        pytest.skip("one CPU here")

    async def live() -> None:
        wanted = options(
            accel="tcg",
            network="user",
            hugepages="2MiB",
            numa={"nodes": 2},
            vcpus="pinned",
            io_thread=True,
            nested=nested,
        )
        provider = Qemu(wanted)
        await provider.check()
        treatments = provider.treatments()
        assert treatments["memory"] == "huge pages of 2MiB, 2 NUMA nodes"
        assert treatments["vCPUs"] == "each pinned to one CPU"
        assert treatments["disk"].endswith("a thread of its own")
        assert treatments["cpu model"] == f"max,svm={'on' if nested else 'off'}"
        built = await image.build(())
        spec = replace(spec_for(tmp_path, tag, built, agent_binary), cpu_ids=ids)
        instance = await provider.create(spec)
        assert isinstance(instance, QemuInstance)
        try:
            online = await instance.agent.get("/sys/devices/system/node/node1/cpulist", 100)
            assert online == b"1\n"
        finally:
            await instance.destroy()

    with reserved(128):
        asyncio.run(live())
