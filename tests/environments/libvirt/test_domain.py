"""The XML of a domain, read by libvirt itself: what QEMU would be started with."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.environments.qemukit import MIB, machine, pairs
from tests.support.libvirtkit import Libvirtd, sockets
from ullage.environments.libvirt.connection import Connection, library
from ullage.environments.libvirt.domain import domain_xml
from ullage.environments.qemu.command_line import Drive, Link
from ullage.host.cgroups import Limits

pytestmark = pytest.mark.root
UUID = "5d0e3f37-2f64-4d0c-9c1c-f7fd6c0f5c11"


def xml(folder: Path, quota: float | None = None, **changes: Any) -> str:
    return domain_xml(
        machine(folder, **changes),
        name="ullage-u0000000-vm-0",
        uuid=UUID,
        limits=Limits((0,), quota, 512 * MIB),
        sockets=sockets(folder),
    )


@dataclass
class Understood:
    """What libvirt makes of an XML, which it has held against its own schema."""

    xml: str
    argv: list[str]


def understood(daemon: Libvirtd, text: str) -> Understood:
    async def ask() -> Understood:
        connection = await Connection.open(daemon.uri)
        try:
            flags = library().VIR_DOMAIN_DEFINE_VALIDATE
            domain = await connection.call(lambda handle: handle.defineXMLFlags(text, flags))
            kept = await connection.call(lambda _: domain.XMLDesc())
            await connection.call(lambda _: domain.undefine())
            argv = await connection.call(lambda c: c.domainXMLToNative("qemu-argv", text, 0))
            return Understood(kept, shlex.split(argv.replace("\\\n", " ")))
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_the_machine_is_the_one_of_the_qemu_provider(daemon: Libvirtd, tmp_path: Path) -> None:
    words = understood(daemon, xml(tmp_path, vcpus=2, append=("quiet", "a=<&>'\""))).argv
    assert ("-accel", "tcg,tb-size=256") in pairs(words)
    assert any(cpu.startswith("max") for option, cpu in pairs(words) if option == "-cpu")
    assert ("-append", "quiet a=<&>'\"") in pairs(words)
    assert ("-smp", "2,sockets=1,dies=1,cores=2,threads=1") in pairs(words)
    assert ("-kernel", str(tmp_path / "kernel")) in pairs(words)
    assert "-no-acpi" not in words
    assert any('"name":"ullage.agent"' in word for word in words)
    assert not any("balloon" in word or "-usb" in word for word in words)


@pytest.mark.parametrize(
    ("bus", "device"), [("virtio", "virtio-blk-pci"), ("scsi", "scsi-hd"), ("sata", "ide-hd")]
)
def test_a_disk_is_what_was_asked_for(
    daemon: Libvirtd, tmp_path: Path, bus: Any, device: str
) -> None:
    root, data = tmp_path / "root.raw", tmp_path / "da ta,x=1.qcow2"
    drives = (
        Drive(root, "raw", "writeback", read_only=True),
        Drive(data, "qcow2", "none", aio="native", bus=bus),
    )
    words = " ".join(understood(daemon, xml(tmp_path, drives=drives)).argv)
    assert f'"driver":"{device}"' in words
    assert '"filename":"' + str(data) + '","aio":"native"' in words
    assert '"cache":{"direct":true,"no-flush":false}' in words
    assert '"read-only":true' in words
    assert '"werror":"report","rerror":"report"' in words.replace("'", '"')


def test_nics_are_what_was_asked_for(daemon: Libvirtd, tmp_path: Path) -> None:
    links = (
        Link("virtio", "u0000000-t2", "02:00:00:00:00:02", offloads=False),
        Link("e1000e", "u0000000-t3", "02:00:00:00:00:03"),
    )
    seen = understood(daemon, xml(tmp_path, links=links))
    assert '"driver":"virtio-net-pci"' in " ".join(seen.argv)
    assert '"driver":"e1000e"' in " ".join(seen.argv)
    offloads = "<host csum='off' gso='off' tso4='off' tso6='off' ecn='off' ufo='off'/>"
    assert offloads in seen.xml  # the command line is without what taps need
    assert "<driver name='qemu'>" in seen.xml
    assert "<target dev='u0000000-t2' managed='no'/>" in seen.xml  # the run's own
    fast = Link("virtio", "u0000000-t2", "02:00:00:00:00:02", vhost=True, queues=2)
    text = xml(tmp_path, links=(fast,))
    assert "<driver name='vhost' queues='2'/>" in understood(daemon, text).xml


def test_limits_and_a_processor_by_name(daemon: Libvirtd, tmp_path: Path) -> None:
    text = xml(tmp_path, quota=0.5, cpu_model="Nehalem,+svm,avx=off")
    words = understood(daemon, text).argv
    cpu = next(value for option, value in pairs(words) if option == "-cpu")
    assert cpu.startswith("Nehalem,svm=on,avx=off")
    assert '<vcpu placement="static" cpuset="0">1</vcpu>' in text
    assert "<global_quota>50000</global_quota>" in text
