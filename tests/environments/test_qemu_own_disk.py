"""A VM from a disk of the user's: what a plan may say of it, and the real QEMU takes it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.environments.qemukit import hanging_kernel, options, pairs, refused, spec_for
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.libvirt.options import LibvirtOptions
from ullage.environments.qemu import own_guest
from ullage.environments.qemu.command_line import Firmware, VirtualMachine, command_line
from ullage.environments.qemu.options import GuestDisk
from ullage.environments.qemu.own_guest import GuestBuilder
from ullage.environments.qemu.provider import Qemu


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Nothing is on it."""
    path = tmp_path / "a disk,of=mine.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "64M"], check=True)
    return path


@pytest.fixture
def firmware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flash with nothing in it, in the place of OVMF."""
    for name in ("code", "variables"):
        (tmp_path / name).write_bytes(bytes(256 << 10))
    monkeypatch.setattr(own_guest, "OVMF", (tmp_path / "code", tmp_path / "variables"))


@pytest.mark.parametrize(
    "fields",
    [
        {"guest": {"path": "here.qcow2"}},
        {"guest": {"path": "/d", "format": "vhdx"}},
        {"guest": {"path": "/d"}, "boot": "systemd"},
        {"guest": {"path": "/d"}, "disk": {"size": "1GiB"}},
        {"guest": {"path": "/d"}, "nic": "e1000"},
    ],
)
def test_the_plan_is_checked(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        options(**fields)


def test_it_is_of_qemu_alone_and_in_no_older_record() -> None:
    assert "guest" not in options().model_dump()
    assert options(guest={"path": "/d"}).model_dump(mode="json")["guest"]["firmware"] == "uefi"
    with pytest.raises(ValidationError, match="of `provider: qemu` alone"):
        LibvirtOptions.model_validate({"guest": {"path": "/d"}})


def test_what_is_on_it_is_said() -> None:
    windows = Qemu(options(accel="tcg", guest={"path": "/w.qcow2", "system": "windows"}))
    windows._accelerator = "tcg"
    assert windows.label() == "qemu-tcg (emulated) (Windows)"
    assert windows.userland() == "Windows of /w.qcow2"
    assert not windows.on_network
    shown = windows.treatments()
    assert (shown["nic"], shown["boot"]) == ("none", "UEFI (OVMF)")
    assert shown["disk"] == "virtio-blk, a qcow2 layer over /w.qcow2, cache none"


def test_a_disk_that_cannot_be_used(tmp_path: Path, disk: Path) -> None:
    asyncio.run(own_guest.check(GuestDisk(path=disk, firmware="bios")))
    text = tmp_path / "text"
    text.write_text("no disk")
    for path in (text, tmp_path / "none"):
        with pytest.raises(UllageError) as caught:
            asyncio.run(own_guest.check(GuestDisk(path=path, firmware="bios")))
        assert caught.value.kind is errors.VM_DISK_UNUSABLE


def test_without_ovmf_there_is_no_uefi(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_guest, "OVMF", (Path("/no/such/code"), Path("/no/such/variables")))
    with pytest.raises(UllageError) as caught:
        asyncio.run(own_guest.check(GuestDisk(path=disk)))
    assert caught.value.kind is errors.HOST_MISSING
    assert "apt-get install ovmf" in caught.value.hint


def test_the_command_line(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"kernel": None, "initrd": None, "append": ()}
    firmware = Firmware(tmp_path / "code", tmp_path / "variables", local_time=True)
    machine = VirtualMachine("w", "tcg", "q35", "max", 1, 64 << 20, **fields, firmware=firmware)
    argv = command_line(machine, 3, 4)
    assert "-kernel" not in argv and "-append" not in argv
    arguments = pairs(argv)
    assert ("-machine", "q35,pflash0=pflash0,pflash1=pflash1") in arguments
    assert ("-rtc", "base=localtime,clock=host") in arguments
    assert ("-device", "virtserialport,chardev=agent,name=ullage.agent") in arguments
    nodes = {node["node-name"]: node for node in map(json.loads, _after(argv, "-blockdev"))}
    assert nodes["pflash0"]["read-only"] is True
    assert nodes["pflash1"]["read-only"] is False


def _after(argv: list[str], option: str) -> list[str]:
    return [value for name, value in pairs(argv) if name == option]


@pytest.mark.root
@pytest.mark.usefixtures("firmware")
@pytest.mark.parametrize(
    "guest",
    [
        {"firmware": "bios", "bus": "sata"},
        {"firmware": "uefi", "system": "windows"},
        {"firmware": "uefi", "bus": "nvme"},
    ],
)
def test_the_real_qemu_takes_it_and_nothing_is_left(
    disk: Path, tmp_path: Path, tag: str, guest: dict[str, str]
) -> None:
    """Nothing boots from an empty disk; QEMU starts, and waits for an agent in vain."""
    before = disk.read_bytes()
    spec = spec_for(tmp_path, tag, None, tmp_path / "agent")
    vm_options = options(boot_deadline_s=1, guest={"path": disk, **guest})
    builder = GuestBuilder(vm_options, "tcg", "max", hanging_kernel(tmp_path), spec)
    assert refused(builder) is errors.VM_NEVER_BOOTED
    assert not any(spec.data_dir.iterdir())
    assert disk.read_bytes() == before
