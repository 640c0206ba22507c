"""Whether a guest boots with KVM here: looked at once, and remembered."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.environments.qemukit import hanging_kernel, machine, talking_kernel
from ullage.environments.qemu import probe as qemu_probe
from ullage.environments.qemu.command_line import VirtualMachine
from ullage.environments.qemu.probe import Probe, kvm
from ullage.host.guest_kernel import GuestKernel


def test_a_host_without_kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu_probe, "DEVICE", tmp_path / "kvm")
    probe = asyncio.run(kvm(hanging_kernel(tmp_path)))
    assert probe == Probe(False, f"there is no {tmp_path / 'kvm'}")


@pytest.fixture
def probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[GuestKernel]:
    """A host whose /dev/kvm opens, with an emulated guest in KVM's place; gives what was booted."""
    device = tmp_path / "kvm"
    device.touch()
    booted: list[GuestKernel] = []
    real, boot = qemu_probe._machine, qemu_probe._boot

    def emulated(kernel: GuestKernel, folder: Path) -> VirtualMachine:
        loud = real(kernel, folder)
        # As it is asked to, but on no CPU of this host's.
        return machine(
            folder, drives=loud.drives, name=loud.name, kernel=kernel.kernel, initrd=kernel.initrd
        )

    async def counted(kernel: GuestKernel) -> Probe:
        booted.append(kernel)
        return await boot(kernel)

    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(qemu_probe, "DEVICE", device)
    monkeypatch.setattr(qemu_probe, "_machine", emulated)
    monkeypatch.setattr(qemu_probe, "_boot", counted)
    return booted


def test_kvm_that_hangs_is_found_out_once(
    tmp_path: Path, probes: list[GuestKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu_probe, "SILENCE_S", 3.0)
    kernel = hanging_kernel(tmp_path)

    async def both() -> list[Probe]:
        return list(await asyncio.gather(kvm(kernel), kvm(kernel)))

    first, second = asyncio.run(both())
    assert first == second
    assert not first.works
    assert re.fullmatch(
        r"a guest with KVM said nothing for 3 s, after \d+ bytes on its console", first.reason
    )
    assert asyncio.run(kvm(kernel)) == first
    assert len(probes) == 1
    remembered = next((tmp_path / "cache/probes").glob("*.json"))
    remembered.write_text("{half")
    asyncio.run(kvm(kernel))
    assert len(probes) == 2


def test_a_slow_guest_is_not_taken_for_one_that_hangs(
    tmp_path: Path, probes: list[GuestKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One level down a boot took 12 to 15 s, and 10 s were all that it had."""
    monkeypatch.setattr(qemu_probe, "SILENCE_S", 2.0)
    monkeypatch.setattr(qemu_probe, "DEADLINE_S", 6.0)
    probe = asyncio.run(kvm(talking_kernel(tmp_path)))
    assert probe == Probe(False, "a guest with KVM had not booted after 6 s")


@pytest.mark.parametrize(("works", "again"), [(False, 2), (True, 1)])
def test_only_that_it_works_is_remembered_until_the_next_boot(
    works: bool,
    again: int,
    tmp_path: Path,
    probes: list[GuestKernel],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host may have been too busy to boot one."""

    async def answered(kernel: GuestKernel) -> Probe:
        probes.append(kernel)
        return Probe(works, "made up")

    monkeypatch.setattr(qemu_probe, "_boot", answered)
    kernel = hanging_kernel(tmp_path)
    asyncio.run(kvm(kernel))
    (remembered,) = (tmp_path / "cache/probes").glob("*.json")
    os.utime(remembered, (0, 0))
    asyncio.run(kvm(kernel))
    assert len(probes) == again
