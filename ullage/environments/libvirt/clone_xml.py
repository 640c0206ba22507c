"""The XML of a clone, from that of the domain that it is cloned from.

Format: libvirt, <https://libvirt.org/formatdomain.html>.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from ullage.environments.libvirt.domain import (
    Sockets,
    add_channels,
    add_label,
    add_link,
    add_text,
    set_limits,
)

if TYPE_CHECKING:
    from ullage.environments.qemu.command_line import Accelerator, Link
    from ullage.host.cgroups import Limits

AGENT_SERIAL: Final = "ullage-agent"
"""By it the guest knows the disk that holds the agent."""
_GUEST_AGENT: Final = "org.qemu.guest_agent.0"
_OURS: Final = (
    *("name", "uuid", "title", "memory", "currentMemory", "maxMemory", "memtune"),
    *("vcpu", "vcpus", "cputune", "numatune", "seclabel", "on_poweroff", "on_reboot", "on_crash"),
)
_OUR_DEVICES: Final = (
    *("interface", "serial", "console", "channel", "graphics", "redirdev", "audio", "sound"),
)
"""NICs and consoles are ours; of the others two clones cannot have the same."""


@dataclass(frozen=True)
class Seed:
    """A domain that is shut off, and is cloned."""

    xml: str

    @property
    def accelerator(self) -> Accelerator:
        return "kvm" if self._domain.get("type") == "kvm" else "tcg"

    @property
    def disks(self) -> dict[str, Path | None]:
        """Name in the XML → file; None: what is none."""
        return {
            target: None if source is None else Path(source)
            for target, source in map(_disk, _writable_disks(self._domain))
        }

    def trouble(self) -> str | None:
        """Why two of it cannot run at a time; None: they can."""
        if self._domain.get("type") not in {"kvm", "qemu"}:
            return f"it is of type {self._domain.get('type')}"
        if self._domain.find("devices/hostdev") is not None:
            return "it has a device of the host's to itself"
        if self._domain.find("os/nvram") is not None or self._domain.find("os/loader") is not None:
            return "it boots by UEFI, whose variables would stay behind"
        others = [target for target, file in self.disks.items() if file is None]
        return f"its disk {others[0]} is no file" if others else None

    def clone(
        self,
        *,
        name: str,
        uuid: str,
        vcpus: int,
        memory_bytes: int,
        limits: Limits,
        disks: Mapping[str, Path],
        agent: Path,
        links: tuple[Link, ...],
        sockets: Sockets,
    ) -> str:
        """A transient domain with these disks in place of the seed's, and the agent's beside."""
        domain = self._domain
        for child in [child for child in domain if child.tag in _OURS]:
            domain.remove(child)
        add_text(domain, "name", name)
        add_text(domain, "uuid", uuid)
        add_text(domain, "memory", str(memory_bytes >> 10), unit="KiB")
        set_limits(domain, vcpus, limits)
        for moment in ("on_poweroff", "on_reboot", "on_crash"):
            add_text(domain, moment, "destroy")
        _without_topology(domain)
        devices = domain.find("devices")
        assert devices is not None
        for child in [child for child in devices if child.tag in _OUR_DEVICES]:
            devices.remove(child)
        for disk in _writable_disks(domain):
            _give(disk, disks[_disk(disk)[0]])
        _add_agent(devices, agent)
        for link in links:
            add_link(devices, link)
        add_channels(devices, sockets)
        channel = SubElement(devices, "channel", type="unix")
        SubElement(channel, "source", mode="bind")
        SubElement(channel, "target", type="virtio", name=_GUEST_AGENT)
        add_label(domain)
        return tostring(domain, encoding="unicode")

    @property
    def _domain(self) -> Element:
        return fromstring(self.xml)  # noqa: S314 - as libvirt has written it


def _writable_disks(domain: Element) -> list[Element]:
    return [
        disk
        for disk in domain.findall("devices/disk")
        if disk.get("device", "disk") == "disk" and disk.find("readonly") is None
    ]


def _disk(disk: Element) -> tuple[str, str | None]:
    """Name and file of a disk."""
    target, source = disk.find("target"), disk.find("source")
    name = "" if target is None else target.get("dev", "")
    return name, None if source is None else source.get("file")


def _give(disk: Element, file: Path) -> None:
    disk.set("type", "file")
    for child in disk.findall("source") + disk.findall("backingStore"):
        disk.remove(child)
    SubElement(disk, "source", file=str(file))


def _without_topology(domain: Element) -> None:
    """Of other CPUs than the plan's."""
    cpu = domain.find("cpu")
    if cpu is not None:
        for child in cpu.findall("topology") + cpu.findall("numa"):
            cpu.remove(child)


def _add_agent(devices: Element, agent: Path) -> None:
    disk = SubElement(devices, "disk", type="file", device="disk")
    SubElement(disk, "driver", name="qemu", type="raw", cache="writeback")
    SubElement(disk, "source", file=str(agent))
    SubElement(disk, "target", dev="vdz", bus="virtio")
    SubElement(disk, "readonly")
    add_text(disk, "serial", AGENT_SERIAL)
