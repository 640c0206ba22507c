"""Whether a guest boots with KVM here: looked at once, and remembered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.environments.qemukit import hanging_kernel, machine
from ullage.environments.qemu import probe as qemu_probe
from ullage.environments.qemu.command_line import VirtualMachine
from ullage.environments.qemu.probe import Probe, kvm
from ullage.host.guest_kernel import GuestKernel


def test_a_host_without_kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu_probe, "DEVICE", tmp_path / "kvm")
    probe = asyncio.run(kvm(hanging_kernel(tmp_path)))
    assert probe == Probe(False, f"there is no {tmp_path / 'kvm'}")


@pytest.fixture
def probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A host whose /dev/kvm opens, with an emulated guest in KVM's place; gives the deadlines."""
    device = tmp_path / "kvm"
    device.touch()
    deadlines: list[float] = []
    real, boot = qemu_probe._machine, qemu_probe._boot

    def emulated(kernel: GuestKernel, folder: Path) -> VirtualMachine:
        emulated_machine = real(kernel, folder)
        return machine(folder, drives=emulated_machine.drives, name=emulated_machine.name)

    async def counted(kernel: GuestKernel, deadline_s: float) -> Probe:
        deadlines.append(deadline_s)
        return await boot(kernel, deadline_s)

    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(qemu_probe, "DEVICE", device)
    monkeypatch.setattr(qemu_probe, "_machine", emulated)
    monkeypatch.setattr(qemu_probe, "_boot", counted)
    return deadlines


def test_kvm_that_hangs_is_found_out_once(tmp_path: Path, probes: list[float]) -> None:
    async def both() -> list[Probe]:
        kernel = hanging_kernel(tmp_path)
        return list(await asyncio.gather(kvm(kernel, 0.5), kvm(kernel, 0.5)))

    first, second = asyncio.run(both())
    assert first == second == Probe(False, "a guest with KVM said nothing for 0.5 s")
    assert asyncio.run(kvm(hanging_kernel(tmp_path), 0.5)) == first
    assert probes == [0.5]
    remembered = next((tmp_path / "cache/probes").glob("*.json"))
    remembered.write_text("{half")
    asyncio.run(kvm(hanging_kernel(tmp_path), 0.5))
    assert probes == [0.5, 0.5]
