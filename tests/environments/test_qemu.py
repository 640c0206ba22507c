"""The qemu provider without a real guest, but with the real QEMU; and one short boot."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.environments.containerkit import bare_spec
from tests.environments.qemukit import (
    MIB,
    hanging_kernel,
    machine,
    options,
    refused,
    spec_for,
    tiny_image,
)
from ullage.common import errors
from ullage.common.cleanup import Undo
from ullage.common.errors import UllageError
from ullage.environments.agent.client import AgentClient, Command
from ullage.environments.agent.frames import CREDIT
from ullage.environments.base import Instance
from ullage.environments.qemu import build, guest
from ullage.environments.qemu.build import OVERHEAD_BYTES, Builder
from ullage.environments.qemu.command_line import Accelerator
from ullage.environments.qemu.probe import Probe
from ullage.environments.qemu.process import QemuProcess
from ullage.environments.qemu.provider import Qemu, QemuInstance
from ullage.environments.xen.build import XenBuilder
from ullage.environments.xen.options import XenOptions
from ullage.host import clock, image
from ullage.host.cgroups import Group
from ullage.host.guest_kernel import GuestKernel
from ullage.nodes.doctor import _provider


def test_what_qemu_says_is_told(tmp_path: Path) -> None:
    unknown_cpu = machine(tmp_path, cpu_model="no-such-cpu")
    with pytest.raises(UllageError) as caught:
        asyncio.run(QemuProcess.start(unknown_cpu, tmp_path / "console.log"))
    assert caught.value.kind is errors.VM_FAILED
    assert "no-such-cpu" in caught.value.message
    assert caught.value.hint == "the end of its console may tell why: nothing"


async def said_hi(log: Path) -> None:
    """Until the kernel has, which comes after a BIOS, emulated."""
    while not log.exists() or not log.read_bytes().endswith(b"HI"):
        await asyncio.sleep(0.01)


def test_a_vm_that_never_boots(tmp_path: Path) -> None:
    async def boot() -> None:
        process = await QemuProcess.start(machine(tmp_path), tmp_path / "console.log")
        try:
            await said_hi(tmp_path / "console.log")
            with pytest.raises(UllageError) as caught:
                await process.agent(1.0)
        finally:
            await process.kill()
        assert caught.value.kind is errors.VM_NEVER_BOOTED
        assert caught.value.message.startswith("vm-0 said nothing within 1 s (tcg): ")
        assert str(caught.value.facts["tail"]).endswith("HI")

    asyncio.run(boot())
    assert (tmp_path / "console.log").read_bytes().endswith(b"HI")


def test_an_agent_that_cannot_be_worked_with_is_no_slow_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(*_: object, **__: object) -> AgentClient:
        raise UllageError(errors.AGENT_NOT_STARTED, agent="vm-0", reason="it speaks protocol 9")

    async def boot() -> None:
        process = await QemuProcess.start(machine(tmp_path), tmp_path / "console.log")
        monkeypatch.setattr(AgentClient, "connect", connect)
        try:
            with pytest.raises(UllageError) as caught:
                await process.agent(30)
        finally:
            await process.kill()
        assert caught.value.kind is errors.VM_FAILED
        assert "its agent cannot be worked with" in caught.value.message
        assert "it speaks protocol 9" in caught.value.message

    asyncio.run(boot())


def test_a_qemu_that_dies_is_no_slow_boot(tmp_path: Path) -> None:
    async def boot() -> None:
        process = await QemuProcess.start(machine(tmp_path), tmp_path / "console.log")
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(UllageError) as caught:
            await process.agent(30)
        assert caught.value.kind is errors.VM_FAILED
        with pytest.raises(UllageError) as frozen:
            await process.stop()
        assert frozen.value.kind is errors.VM_FAILED
        assert "its console" in frozen.value.hint
        await process.kill()

    asyncio.run(boot())


def test_who_has_ended_is_not_killed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process id may be another's by then."""
    killed: list[int] = []
    killpg = os.killpg

    def counted(group: int, number: int) -> None:
        killed.append(group)
        killpg(group, number)

    async def use() -> None:
        process = await QemuProcess.start(machine(tmp_path), tmp_path / "console.log")
        await process.kill()
        await process.kill()
        assert killed == [process.pid]

    monkeypatch.setattr(os, "killpg", counted)
    asyncio.run(use())


def test_what_fails_inside_comes_with_the_console(tmp_path: Path) -> None:
    async def use() -> None:
        process = await QemuProcess.start(machine(tmp_path), tmp_path / "console.log")
        try:
            await said_hi(tmp_path / "console.log")
            error = guest.failed(process, "no\x1b[2J route")
        finally:
            await process.kill()
        assert error.message == "vm-0: the network, inside: no?[2J route"
        assert error.hint.startswith("the end of its console may tell why: ")
        assert error.hint.endswith("HI")

    asyncio.run(use())


def test_a_qemu_that_its_host_has_killed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """With swap to spare too: the kernel gives up when what is resident is always in use."""
    built: Any = SimpleNamespace(agent=None, address=None, process=None)
    spec: Any = SimpleNamespace(tag="u0000001", name="vm-0")
    instance = QemuInstance(spec, built, Undo())
    monkeypatch.setattr(Group, "memory_kills", lambda _: 0)
    assert asyncio.run(instance.why_gone()) is None
    monkeypatch.setattr(Group, "memory_kills", lambda _: 1)
    why = asyncio.run(instance.why_gone())
    assert why is not None and why.kind is errors.VM_OUT_OF_MEMORY
    assert "vm-0 is gone" in why.message

    def gone(_: Group) -> int:
        raise UllageError(errors.CGROUP_DENIED, what="memory.events", path="/", reason="gone")

    monkeypatch.setattr(Group, "memory_kills", gone)
    assert asyncio.run(instance.why_gone()) is None


@pytest.fixture
def fake_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GuestKernel:
    kernel = hanging_kernel(tmp_path)

    async def guest_kernel(_: Path, more: Sequence[str]) -> GuestKernel:
        return kernel

    monkeypatch.setattr("ullage.environments.qemu.provider.guest_kernel", guest_kernel)
    monkeypatch.setattr("ullage.environments.agent.client.binary", lambda: tmp_path / "agent")
    return kernel


def probe_says(monkeypatch: pytest.MonkeyPatch, works: bool) -> None:
    async def kvm(*_: object) -> Probe:
        return Probe(works, "it hangs")

    monkeypatch.setattr("ullage.environments.qemu.provider.kvm", kvm)


def test_auto_falls_back_and_says_so(
    fake_kernel: GuestKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe_says(monkeypatch, works=False)
    provider = Qemu(options())
    asyncio.run(provider.check())
    assert provider.label() == "qemu-tcg (emulated)"
    assert provider.emulated
    treatments = provider.treatments()
    assert treatments["accelerator"] == "tcg (emulated): it hangs"
    assert treatments["cpu model"] == "max"
    assert treatments["guest kernel"] == "hanging 0"
    assert treatments["disk"] == "virtio-blk, raw, cache none"


def test_the_doctor_says_why_no_guest_boots(
    fake_kernel: GuestKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had a hint for hosts without VT-x, whatever the reason."""
    probe_says(monkeypatch, works=False)
    finding = asyncio.run(_provider(Qemu))
    assert (finding.state, finding.what) == ("limited", "provider qemu")
    assert "(it hangs)" in finding.detail


def test_many_that_boot_at_once_on_one_cpu_have_the_time() -> None:
    """Three took 52 s under KVM in an emulated host."""
    assert build.BOOT_DEADLINE_S >= 4 * 52


def test_auto_takes_kvm_that_works(
    fake_kernel: GuestKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe_says(monkeypatch, works=True)
    provider = Qemu(options(nic="e1000", disk={"format": "qcow2", "cache": "writeback"}))
    asyncio.run(provider.check())
    assert provider.label() == "qemu-kvm"
    assert not provider.emulated
    treatments = provider.treatments()
    assert (treatments["accelerator"], treatments["cpu model"]) == ("kvm", "host")
    assert treatments["nic"] == "e1000"
    assert treatments["disk"] == "virtio-blk, qcow2, cache writeback"


def test_kvm_that_was_asked_for_is_not_replaced(
    fake_kernel: GuestKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe_says(monkeypatch, works=False)
    with pytest.raises(UllageError) as caught:
        asyncio.run(Qemu(options(accel="kvm")).check())
    assert caught.value.kind is errors.VM_NO_KVM
    assert "it hangs" in caught.value.message


def test_what_is_missing_is_named(
    fake_kernel: GuestKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ullage.environments.qemu.provider.VHOST", tmp_path / "vhost-net")
    with pytest.raises(UllageError) as caught:
        asyncio.run(Qemu(options(vhost=True)).check())
    assert caught.value.kind is errors.HOST_MISSING
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UllageError) as caught:
        asyncio.run(Qemu(options(network="tap")).check())
    assert caught.value.kind is errors.HOST_NEEDS_ROOT


@pytest.mark.parametrize(
    ("deadline_s", "seconds"), [(None, 270), (1000, 900), (0.5, 1), (1e30, 86_400)]
)
def test_a_slow_guest_waits_for_its_disks_as_long_as_it_is_waited_for(
    tmp_path: Path, deadline_s: float | None, seconds: int
) -> None:
    """30 s, whatever the plan said, were too few for a guest that is emulated twice."""
    spec = bare_spec(state_dir=tmp_path)
    vm_options = options(boot_deadline_s=deadline_s)
    machine = Builder(vm_options, "tcg", "max", hanging_kernel(tmp_path), spec)._machine((), None)
    assert f"ullage.patience={seconds}" in machine.append
    xen = XenBuilder(
        XenOptions(boot_deadline_s=deadline_s), hanging_kernel(tmp_path), spec
    )._domain((), None)
    assert f"ullage.patience={seconds}" in xen.words


@pytest.mark.root
@pytest.mark.parametrize("disk", [{"format": "raw"}, {"format": "qcow2", "size": "64MiB"}])
def test_a_failed_boot_leaves_nothing(tmp_path: Path, tag: str, disk: dict[str, str]) -> None:
    built = tiny_image(tmp_path)
    spec = spec_for(tmp_path, tag, built, tmp_path / "agent")
    vm_options = options(boot_deadline_s=1, disk=disk)
    builder = Builder(vm_options, "tcg", "max", hanging_kernel(tmp_path), spec)

    assert refused(builder) is errors.VM_NEVER_BOOTED
    assert not any(spec.state_dir.iterdir())
    assert not any(spec.data_dir.iterdir())
    assert Group.find(tag).directories == []
    assert not processes_of(tag)


def processes_of(tag: str) -> list[int]:
    """Processes that carry the tag in their environment."""
    marker = f"ULLAGE_TAG={tag}".encode()
    pids = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker in path.read_bytes().split(b"\0"):
                pids.append(int(path.parent.name))
        except OSError:
            continue
    return pids


def test_a_vm_needs_an_image(tmp_path: Path, tag: str) -> None:
    spec = spec_for(tmp_path, tag, None, tmp_path / "agent")
    builder = Builder(options(), "tcg", "max", hanging_kernel(tmp_path), spec)

    assert refused(builder) is errors.VM_NEEDS_IMAGE


@pytest.mark.root
def test_nics_are_aggregated_on_the_runs_network_only(tmp_path: Path, tag: str) -> None:
    spec = spec_for(tmp_path, tag, tiny_image(tmp_path), tmp_path / "agent")
    vm_options = options(aggregation={}, disk={"size": "64MiB"})
    builder = Builder(vm_options, "tcg", "max", hanging_kernel(tmp_path), spec)

    assert refused(builder) is errors.VM_NEEDS_NETWORK
    assert not any(spec.data_dir.iterdir())


def test_a_plain_user_cannot_have_a_part_of_a_cpu(
    tmp_path: Path, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be ignored, as there is no cgroup."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    spec = spec_for(tmp_path, tag, tiny_image(tmp_path), tmp_path / "agent")
    kernel = hanging_kernel(tmp_path)
    assert Builder(options(), "tcg", "max", kernel, spec)._group(Undo()) is None
    half = replace(spec, cpu_quota=0.5)
    with pytest.raises(UllageError) as caught:
        Builder(options(), "tcg", "max", kernel, half)._group(Undo())
    assert caught.value.kind is errors.INSTANCE_NOT_LIMITED
    assert "a part of a CPU for vm-0" in caught.value.message


def test_systemd_needs_its_package(tmp_path: Path, tag: str) -> None:
    assert Qemu(options(boot="systemd")).packages() == ("systemd-sysv",)
    assert Qemu(options()).packages() == ()
    spec = spec_for(tmp_path, tag, tiny_image(tmp_path), tmp_path / "agent")
    builder = Builder(options(boot="systemd"), "tcg", "max", hanging_kernel(tmp_path), spec)

    async def boot() -> None:
        async with Undo() as undo:
            await builder.build(undo)

    with pytest.raises(UllageError) as caught:
        asyncio.run(boot())
    assert caught.value.kind is errors.IMAGE_LACKS_PACKAGE


@pytest.mark.parametrize(
    ("accelerator", "host", "words"),
    [
        ("tcg", "tsc", ("tsc=reliable",)),
        ("tcg", "hpet", ()),
        ("tcg", None, ()),
        ("kvm", "tsc", ()),
    ],
)
def test_the_guest_trusts_the_tsc_as_its_host_does(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    accelerator: Accelerator,
    host: str | None,
    words: tuple[str, ...],
) -> None:
    path = tmp_path / "current_clocksource"
    if host:
        path.write_text(f"{host}\n")
    monkeypatch.setattr(build, "_CLOCKSOURCE", path)
    timer = ("no_timer_check",) if accelerator == "tcg" else ()
    words_found = build.emulated_words(accelerator)
    assert words_found[: len(timer) + len(words)] == (*timer, *words)
    rate = clock.facts().rate
    if words and rate is not None:
        (rate_word,) = words_found[len(timer) + len(words) :]
        assert rate_word.startswith("tsc_early_khz=")
        assert int(rate_word.partition("=")[2]) == pytest.approx(rate.millihertz / 1e6, abs=0.5)
    else:
        assert len(words_found) == len(timer) + len(words)


@pytest.mark.root
def test_a_real_vm_boots(tmp_path: Path, tag: str, agent_binary: Path) -> None:
    """Kernel, initramfs, agent as PID 1, disks, limits, freezing, the end: in emulation."""

    async def live() -> None:
        provider = Qemu(options(accel="tcg", network="user"))
        await provider.check()
        built = await image.build(())
        spec = replace(spec_for(tmp_path, tag, built, agent_binary), cpu_quota=0.9)
        instance = await provider.create(spec)
        try:
            await look_inside(instance)
        finally:
            await instance.destroy()
            await instance.destroy()
        assert not instance.alive

    asyncio.run(live())
    assert not processes_of(tag)
    assert Group.find(tag).directories == []
    assert not any((tmp_path / "data-0").iterdir())


@pytest.mark.root
def test_a_vm_that_reads_nothing_any_more_is_removed(
    tmp_path: Path, tag: str, agent_binary: Path
) -> None:
    async def live() -> None:
        provider = Qemu(options(accel="tcg", network="user"))
        await provider.check()
        built = await image.build(())
        instance = await provider.create(spec_for(tmp_path, tag, built, agent_binary))
        os.kill(only(Group.find(tag, "vm-0").pids()), signal.SIGSTOP)
        sending = asyncio.create_task(instance.agent.put(b"x" * (CREDIT - 4096), "/data/x"))
        await asyncio.sleep(0.1)
        assert not sending.done()
        await asyncio.wait_for(instance.destroy(), 60)
        with pytest.raises(UllageError):
            await sending

    asyncio.run(live())
    assert not processes_of(tag)
    assert Group.find(tag).directories == []


async def look_inside(instance: Instance) -> None:
    facts = instance.agent.facts
    assert facts["init"] is True
    assert facts["hostname"] == "vm-0"
    assert facts["cpus_online"] == 1
    assert facts["memory_total_bytes"] < 256 * MIB
    assert await run(instance.agent, "touch", "/data/x") == (0, "")
    status, _ = await run(instance.agent, "touch", "/x")
    assert status == 1  # the root is read-only
    group = Group.find(instance.spec.tag, "vm-0")
    assert len(group.pids()) == 1
    limits = [d / name for d in group.directories for name in LIMIT_FILES if (d / name).exists()]
    expected = 256 * MIB + OVERHEAD_BYTES["tcg"]
    assert [int(path.read_text()) for path in limits] == [expected]
    assert group.limits().cpu_quota == instance.spec.cpu_quota == 0.9
    busy = await instance.agent.spawn(Command(argv=("sha256sum", "/dev/zero")))
    await busy.started()
    await instance.freeze()
    assert await vcpus_still(only(group.pids()))
    await instance.thaw()
    await busy.kill()
    assert (await busy.wait()).signal == signal.SIGTERM
    assert await run(instance.agent, "hostname") == (0, "vm-0\n")


async def vcpus_still(pid: int) -> bool:
    """True when the process uses no CPU time for a while, though its guest has work to do."""
    ticks = []
    for _ in range(2):
        await asyncio.sleep(0.3)
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks.append(int(stat[11]))
    return ticks[0] == ticks[1]


LIMIT_FILES = ("memory.limit_in_bytes", "memory.max")


def only(pids: set[int]) -> int:
    (pid,) = pids
    return pid


async def run(agent: AgentClient, *argv: str) -> tuple[int | None, str]:
    done, stdout, _ = await agent.run(Command(argv=argv))
    return done.status, stdout.decode()
