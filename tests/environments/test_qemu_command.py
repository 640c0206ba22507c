"""What the plan may say of a VM, and the command line that follows; the real QEMU takes it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.environments.qemukit import MIB, machine, options, pairs
from ullage.environments.native import NativeOptions
from ullage.environments.qemu.command_line import Bus, Cache, Drive, Link, Nic, command_line
from ullage.environments.qemu.process import QemuProcess

REPORTED = "werror=report,rerror=report"
"""A disk that is full on the host is the guest's to know; QEMU would halt the VM."""


def test_the_plan_reads_well() -> None:
    vm_options = options(nic="e1000", disk={"format": "qcow2", "size": "2GiB"}, boot="systemd")
    assert vm_options.disk.size == 2 << 30
    assert vm_options.disk.cache == "none"
    assert options().accel == "auto"


@pytest.mark.parametrize(
    "fields",
    [
        {"nic": "rtl8139"},
        {"disk": {"cache": "maybe"}},
        {"disk": {"size": "1KiB"}},
        {"cpu_model": "max -S"},
        {"cpu_model": "-S"},
        {"cpu_model": "max\n"},
        {"net": "tap"},
        {"boot_deadline_s": 0},
        {"nic": "e1000", "vhost": True},
        {"nic": "e1000e", "queues": 2},
        {"nic": "vmxnet3", "offloads": False},
        {"network": "user", "vhost": True},
        {"network": "user", "queues": 2},
        {"queues": 0},
        {"disk": {"aio": "native", "cache": "writeback"}},
        {"disk": {"bus": "floppy"}},
        {"disk": {"path": "relative/place"}},
    ],
)
def test_the_plan_is_checked(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        options(**fields)


def test_what_came_later_stands_in_no_record_that_says_nothing_of_it() -> None:
    """A run from before goes on, and is no other plan to a gate."""
    before = options().model_dump(mode="json")
    assert before["disk"] == {"format": "raw", "cache": "none", "size": None}
    assert not {"queues", "offloads"} & before.keys()
    now = options(queues=2, disk={"path": "/mnt/ssd", "bus": "nvme"}).model_dump(mode="json")
    assert (now["queues"], now["disk"]["path"], now["disk"]["bus"]) == (2, "/mnt/ssd", "nvme")
    assert "disk" not in NativeOptions().model_dump()


def test_all_memory_of_a_host_is_not_rounded_up(tmp_path: Path) -> None:
    pages = 6_171_021
    argv = command_line(machine(tmp_path, memory_bytes=pages * 4096), 3, 4)
    memory = int(argv[argv.index("-m") + 1].removesuffix("B"))
    assert memory == (pages - 1) * 4096
    assert memory % 8192 == 0, "QEMU takes it as it is"


@pytest.mark.parametrize(
    ("cache", "direct", "no_flush", "write_cache"),
    [
        ("none", True, False, "on"),
        ("writeback", False, False, "on"),
        ("writethrough", False, False, "off"),
        ("directsync", True, False, "off"),
        ("unsafe", False, True, "on"),
    ],
)
def test_cache_modes(
    tmp_path: Path, cache: Cache, direct: bool, no_flush: bool, write_cache: str
) -> None:
    path = tmp_path / "a,b=c.qcow2"
    argv = command_line(machine(tmp_path, drives=(Drive(path, "qcow2", cache),)), 3, 4)
    blockdev = json.loads(argv[argv.index("-blockdev") + 1])
    assert blockdev["file"]["filename"] == str(path)
    assert (
        blockdev["cache"] == blockdev["file"]["cache"] == {"direct": direct, "no-flush": no_flush}
    )
    assert ("-device", f"virtio-blk-pci,{REPORTED},drive=disk0,write-cache={write_cache}") in pairs(
        argv
    )


def test_links(tmp_path: Path) -> None:
    def of(*links: Link) -> list[tuple[str, str]]:
        return pairs(command_line(machine(tmp_path, links=links), 3, 4))

    tap = of(Link("e1000", "u1-t2", "02:00:00:00:00:01"))
    assert ("-netdev", "tap,id=net0,ifname=u1-t2,script=no,downscript=no,vhost=off") in tap
    assert ("-device", "e1000,netdev=net0,mac=02:00:00:00:00:01,romfile=") in tap
    vhost = of(Link("virtio", "u1-t2", "02:00:00:00:00:01", vhost=True))
    assert ("-netdev", "tap,id=net0,ifname=u1-t2,script=no,downscript=no,vhost=on") in vhost
    user = of(Link("virtio", None, "02:00:00:00:00:01"))
    assert ("-netdev", "user,id=net0,restrict=on,ipv6=off") in user
    two = of(
        Link("virtio", "u1-t2", "02:00:00:00:00:01"), Link("virtio", "u1-x2", "06:00:00:00:00:01")
    )
    assert ("-netdev", "tap,id=net1,ifname=u1-x2,script=no,downscript=no,vhost=off") in two
    assert ("-device", "virtio-net-pci,netdev=net1,mac=06:00:00:00:00:01,romfile=") in two


def test_queues_and_offloads(tmp_path: Path) -> None:
    mac = "02:00:00:00:00:01"
    several = Link("virtio", "u1-t2", mac, vhost=True, queues=4, offloads=False)
    argv = " ".join(command_line(machine(tmp_path, links=(several,)), 3, 4))
    assert "vhost=on,queues=4" in argv
    assert "mq=on,vectors=10" in argv
    assert ",csum=off,gso=off,host_tso4=off" in argv


@pytest.mark.parametrize(
    ("bus", "devices"),
    [
        ("virtio", [f"virtio-blk-pci,{REPORTED}"]),
        ("scsi", ["virtio-scsi-pci,id=disk0-bus", f"scsi-hd,bus=disk0-bus.0,{REPORTED}"]),
        ("sata", ["ich9-ahci,id=disk0-bus", f"ide-hd,bus=disk0-bus.0,{REPORTED}"]),
        ("nvme", ["nvme,serial=ullage-data"]),
    ],
)
def test_buses(tmp_path: Path, bus: Bus, devices: list[str]) -> None:
    drive = Drive(tmp_path / "data.raw", "raw", "none", aio="native", bus=bus)
    argv = command_line(machine(tmp_path, drives=(drive,)), 3, 4)
    file = json.loads(argv[argv.index("-blockdev") + 1])["file"]
    assert file["aio"] == "native"
    *controllers, disk = devices
    expected = [*controllers, f"{disk},drive=disk0,write-cache=on"]
    assert [word for option, word in pairs(argv) if option == "-device"][
        -len(expected) :
    ] == expected


@pytest.mark.parametrize("nic", ["virtio", "e1000", "e1000e", "vmxnet3"])
@pytest.mark.parametrize("bus", ["virtio", "scsi", "sata", "nvme"])
def test_real_qemu_takes_every_option(tmp_path: Path, nic: Nic, bus: Bus) -> None:
    async def start() -> str:
        raw, data = tmp_path / "a,b.raw", tmp_path / "data.raw"
        for path in (raw, data):
            path.write_bytes(bytes(MIB))
        drives = (
            Drive(raw, "raw", "writethrough", read_only=True),
            Drive(data, "raw", "none", aio="threads", bus=bus),
        )
        link = Link(nic, None, "02:00:00:00:00:01", offloads=nic != "virtio")
        vm = machine(tmp_path, machine="pc", vcpus=2, drives=drives, links=(link,))
        process = await QemuProcess.start(vm, tmp_path / "console.log", cpu_ids=(0,))
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            await process.stop()
            await process.cont()
        finally:
            await process.kill()
            await process.kill()
        assert not process.running
        return status

    assert "Cpus_allowed_list:\t0\n" in asyncio.run(start())
