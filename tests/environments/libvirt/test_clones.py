"""Clones of a domain: what is refused, what becomes of its XML, and copies of its disks."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from xml.etree.ElementTree import fromstring

import pytest
from pydantic import ValidationError

from tests.environments.containerkit import bare_spec
from tests.environments.qemukit import MIB, hanging_kernel
from tests.support.libvirtkit import Libvirtd, sockets
from ullage.common import errors
from ullage.common.cleanup import Undo
from ullage.common.errors import UllageError
from ullage.engine.resolved import nuisances
from ullage.environments.base import InstanceSpec
from ullage.environments.libvirt.clone_xml import Seed
from ullage.environments.libvirt.clones import CloneBuilder
from ullage.environments.libvirt.options import LibvirtOptions
from ullage.environments.libvirt.provider import Libvirt
from ullage.environments.qemu.command_line import Link
from ullage.host import leftovers, user_commands
from ullage.host.cgroups import Limits

SEED = """
<domain type="{kind}">
  <name>golden</name><title>mine</title><memory>262144</memory><vcpu cpuset="1">4</vcpu>
  <cputune><vcpupin vcpu="0" cpuset="1"/></cputune>
  <os><type arch="x86_64" machine="q35">hvm</type>{boot}</os>
  <cpu mode="maximum"><topology sockets="4" cores="1" threads="1"/></cpu>
  <features><acpi/></features>
  <devices>
    {disk}
    <disk type="file" device="cdrom"><target dev="sda" bus="sata"/><readonly/></disk>
    <interface type="user"><mac address="52:54:00:00:00:01"/></interface>
    <serial type="pty"/><console type="pty"/>
    <channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>
    <graphics type="vnc"/>{device}
  </devices>
</domain>
"""
DISK = '<disk type="file"><driver type="qcow2"/><source file="{}"/><target dev="vda"/></disk>'


def seed_xml(**parts: str) -> str:
    usual = {"kind": "qemu", "boot": "", "device": "", "disk": DISK.format("/pool/a.qcow2")}
    parts = usual | parts
    return SEED.format(**parts)


def clone(folder: Path) -> str:
    return Seed(seed_xml()).clone(
        name="ullage-u0000000-vm-0",
        uuid="5d0e3f37-2f64-4d0c-9c1c-f7fd6c0f5c11",
        vcpus=2,
        memory_bytes=512 * MIB,
        limits=Limits((0, 1), None, 1024 * MIB),
        disks={"vda": Path("/pool/copy.qcow2")},
        agent=folder / "agent.raw",
        links=(Link("virtio", "u0000000-t2", "02:00:00:00:00:02"),),
        sockets=sockets(folder),
    )


def test_a_clone_is_the_seed_but_for_what_the_plan_says(tmp_path: Path) -> None:
    domain = fromstring(clone(tmp_path))
    texts = {child.tag: child.text for child in domain}
    assert (texts["name"], texts["vcpu"], texts["memory"]) == (
        "ullage-u0000000-vm-0",
        "2",
        str(512 << 10),
    )
    assert "title" not in texts
    files = [source.get("file") for source in domain.iterfind("devices/disk/source")]
    assert files == ["/pool/copy.qcow2", str(tmp_path / "agent.raw")]
    assert [nic.get("type") for nic in domain.iterfind("devices/interface")] == ["ethernet"]
    names = [target.get("name") for target in domain.iterfind("devices/channel/target")]
    assert names == ["ullage.agent", "org.qemu.guest_agent.0"]
    assert domain.find("devices/graphics") is None
    assert domain.find("cpu/topology") is None
    cpu = domain.find("cpu")
    assert cpu is not None and cpu.get("mode") == "maximum"
    assert domain.find("cputune/vcpupin") is None


@pytest.mark.root
def test_libvirt_takes_it(daemon: Libvirtd, tmp_path: Path) -> None:
    xml = tmp_path / "clone.xml"
    xml.write_text(clone(tmp_path))
    daemon.virsh("define", "--validate", str(xml))
    daemon.virsh("undefine", "ullage-u0000000-vm-0")


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"kind": "xen"}, "it is of type xen"),
        ({"boot": "<nvram>/x.fd</nvram>"}, "by UEFI"),
        ({"device": "<hostdev mode='subsystem' type='pci'/>"}, "a device of the host's"),
        (
            {"disk": '<disk type="block"><source dev="/dev/sdb"/><target dev="vda"/></disk>'},
            "its disk vda is no file",
        ),
    ],
)
def test_what_cannot_run_twice_is_refused(parts: dict[str, str], says: str) -> None:
    assert says in str(Seed(seed_xml(**parts)).trouble())


def test_what_a_clone_has_of_its_domain_is_not_in_the_plan() -> None:
    for fields in ({"boot": "systemd"}, {"accel": "kvm"}, {"disk": {"size": "1GiB"}}):
        with pytest.raises(ValidationError, match="is as the domain has it"):
            LibvirtOptions.model_validate({"domain": "golden", **fields})
    before = LibvirtOptions.model_validate({}).model_dump()
    assert "domain" not in before


def test_their_userland_is_another_one() -> None:
    """So a plan that compares them with anything else must allow that by name."""
    clones = Libvirt(LibvirtOptions.model_validate({"domain": "golden"}))
    assert clones.userland() == "of the domain golden"
    planned, fleet = SimpleNamespace(key="vm", instances=1, nodes=(), provider=clones), Mock()
    fleet.first.return_value.spec = bare_spec()
    assert nuisances(planned, fleet)["userland"] == "of the domain golden"  # type: ignore[arg-type]
    planned.provider = Libvirt(LibvirtOptions())
    fleet.image_of.return_value.digest = "sha256:0123456789abcdef"
    assert nuisances(planned, fleet)["userland"] == "sha256:0123456789ab"  # type: ignore[arg-type]


def options(daemon: Libvirtd, **fields: Any) -> LibvirtOptions:
    return LibvirtOptions.model_validate({"uri": daemon.uri, "domain": "golden", **fields})


@pytest.mark.root
def test_a_seed_that_is_not_there_or_runs(daemon: Libvirtd, tmp_path: Path) -> None:
    def refusal() -> str:
        with pytest.raises(UllageError) as caught:
            asyncio.run(Libvirt(options(daemon)).check())
        assert caught.value.kind is errors.LIBVIRT_SEED
        return caught.value.message

    assert "golden" in refusal()
    kernel = hanging_kernel(tmp_path)
    xml = tmp_path / "golden.xml"
    xml.write_text(seed_xml(disk="", boot=f"<kernel>{kernel.kernel}</kernel>"))
    daemon.virsh("create", str(xml))
    try:
        assert "it runs" in refusal()
    finally:
        daemon.virsh("destroy", "golden")


@pytest.fixture
def golden(daemon: Libvirtd, tmp_path: Path) -> Iterator[Path]:
    """A seed whose disk is in a pool, and whose guest says `HI` and no more; the pool's folder."""
    pool = tmp_path / "pool"
    pool.mkdir()
    disk = pool / "golden.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "1M"], check=True)
    kernel = hanging_kernel(tmp_path)
    xml = tmp_path / "golden.xml"
    boot = f"<kernel>{kernel.kernel}</kernel>"
    xml.write_text(seed_xml(disk=DISK.format(disk), boot=boot))
    daemon.virsh("pool-create-as", "ullage-test", "dir", "--target", str(pool))
    daemon.virsh("define", str(xml))
    yield pool
    daemon.virsh("undefine", "golden")
    daemon.virsh("pool-destroy", "ullage-test")


def spec_of(tag: str, folder: Path) -> InstanceSpec:
    agent = folder / "agent"
    agent.write_bytes(b"agent")
    state = folder / "vm-0"
    state.mkdir()
    return replace(bare_spec(tag=tag, name="vm-0"), state_dir=state, data_dir=state, agent=agent)


@pytest.mark.root
def test_a_guest_without_an_agent_of_its_own(
    daemon: Libvirtd, golden: Path, tag: str, tmp_path: Path
) -> None:
    """Its disk is copied, it boots, nothing answers: and nothing is left."""
    spec = spec_of(tag, tmp_path)
    seen: list[set[str]] = []

    async def scenario() -> None:
        builder = CloneBuilder(
            options(daemon, boot_deadline_s=2),
            replace(
                spec, on_stage=lambda *_: seen.append({file.name for file in golden.iterdir()})
            ),
        )
        async with Undo() as undo:
            with pytest.raises(UllageError) as caught:
                await builder.build(undo)
            assert caught.value.kind is errors.VM_NEVER_BOOTED
            left = await asyncio.to_thread(leftovers.find, tag)
            names = {item.name for item in left if item.kind == "command"}
            assert names == {f"ullage-{tag}-vm-0", f"ullage-{tag}-vm-0-vda.qcow2"}

    asyncio.run(scenario())
    assert seen[0] == {"golden.qcow2", f"ullage-{tag}-vm-0-vda.qcow2"}
    assert [file.name for file in golden.iterdir()] == ["golden.qcow2"]
    assert list(spec.state_dir.iterdir()) == []
    assert daemon.domains() == ["golden"]
    assert tag not in {removal.tag for removal in user_commands.records()}


@pytest.mark.root
def test_a_disk_that_is_in_no_pool(daemon: Libvirtd, tag: str, tmp_path: Path) -> None:
    disk, xml = tmp_path / "lonely.qcow2", tmp_path / "golden.xml"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "1M"], check=True)
    xml.write_text(seed_xml(disk=DISK.format(disk)))
    daemon.virsh("define", str(xml))

    async def scenario() -> None:
        async with Undo() as undo:
            with pytest.raises(UllageError) as caught:
                await CloneBuilder(options(daemon), spec_of(tag, tmp_path)).build(undo)
            assert caught.value.kind is errors.LIBVIRT_SEED
            assert f"its disk {disk} cannot be copied" in caught.value.message

    asyncio.run(scenario())
    daemon.virsh("undefine", "golden")
