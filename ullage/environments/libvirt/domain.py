"""The XML of a domain, from what a VM is to be.

Format: libvirt, <https://libvirt.org/formatdomain.html>.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from ullage.environments.qemu.command_line import AGENT_PORT, TCG_CACHE_MIB

if TYPE_CHECKING:
    from ullage.common.cleanup import Undo
    from ullage.environments.qemu.command_line import Accelerator, Drive, Link, VirtualMachine
    from ullage.host.cgroups import Limits

PERIOD_US: Final = 100_000
"""Of a CPU quota: the kernel's own default."""

_DOMAIN_TYPES: Final[dict[Accelerator, str]] = {"kvm": "kvm", "tcg": "qemu"}
_CPU_MODES: Final = {"host": "host-passthrough", "max": "maximum"}
_NO_OFFLOADS: Final = {
    "host": ("csum", "gso", "tso4", "tso6", "ecn", "ufo"),
    "guest": ("csum", "tso4", "tso6", "ecn", "ufo"),
}
_BUS_DISKS: Final = {"virtio": "vd", "scsi": "sd", "sata": "sd"}


@dataclass(frozen=True)
class Sockets:
    """Where QEMU listens, for us alone."""

    agent: Path
    console: Path

    @classmethod
    def below(cls, folder: Path, undo: Undo) -> Sockets:
        """In a private directory; they go with the VM."""
        sockets = cls(folder / "agent.sock", folder / "console.sock")
        for path in (sockets.agent, sockets.console):
            undo.callback(path.unlink, missing_ok=True)
        return sockets


def domain_xml(
    machine: VirtualMachine, *, name: str, uuid: str, limits: Limits, sockets: Sockets
) -> str:
    """A transient domain: nothing of it stays once it is destroyed."""
    domain = Element("domain", type=_DOMAIN_TYPES[machine.accelerator])
    add_text(domain, "name", name)
    add_text(domain, "uuid", uuid)
    add_text(domain, "memory", str(machine.memory_bytes >> 10), unit="KiB")
    set_limits(domain, machine.vcpus, limits)
    _boot(domain, machine)
    features = SubElement(domain, "features")
    SubElement(features, "acpi")
    SubElement(features, "apic")
    if machine.accelerator == "tcg":
        tcg = SubElement(features, "tcg")
        add_text(tcg, "tb-cache", str(TCG_CACHE_MIB), unit="MiB")
    _cpu(domain, machine)
    SubElement(domain, "clock", offset="utc")
    for moment in ("on_poweroff", "on_reboot", "on_crash"):
        add_text(domain, moment, "destroy")
    _devices(domain, machine, sockets)
    add_label(domain)
    return tostring(domain, encoding="unicode")


def add_label(domain: Element) -> None:
    """As root, and no file is given to another user: the image is shared, the rest private."""
    label = SubElement(domain, "seclabel", type="static", model="dac", relabel="no")
    add_text(label, "label", "+0:+0")


def add_text(parent: Element, tag: str, text: str, **attributes: str) -> None:
    """A child that holds a text."""
    child = SubElement(parent, tag, attributes)
    child.text = text


def set_limits(domain: Element, vcpus: int, limits: Limits) -> None:
    """All of QEMU's threads on these CPUs. The limit of memory is set once it is made: written
    here, it has QEMU lock that much, which not every host lets it."""
    cpus = ",".join(map(str, limits.cpu_ids or ()))
    add_text(domain, "vcpu", str(vcpus), placement="static", cpuset=cpus)
    tune = SubElement(domain, "cputune")
    SubElement(tune, "emulatorpin", cpuset=cpus)
    if limits.cpu_quota is not None:
        add_text(tune, "global_period", str(PERIOD_US))
        add_text(tune, "global_quota", str(round(limits.cpu_quota * PERIOD_US)))


def _boot(domain: Element, machine: VirtualMachine) -> None:
    system = SubElement(domain, "os")
    add_text(system, "type", "hvm", arch="x86_64", machine=machine.machine)
    add_text(system, "kernel", str(machine.kernel))
    add_text(system, "initrd", str(machine.initrd))
    add_text(system, "cmdline", " ".join(machine.append))


def _cpu(domain: Element, machine: VirtualMachine) -> None:
    """QEMU's `-cpu NAME,+feature,-feature`, in libvirt's words."""
    name, *features = machine.cpu_model.split(",")
    if name in _CPU_MODES:
        cpu = SubElement(domain, "cpu", mode=_CPU_MODES[name], check="none")
    else:
        cpu = SubElement(domain, "cpu", mode="custom", match="exact", check="none")
        add_text(cpu, "model", name, fallback="forbid")
    cores = str(machine.vcpus)
    SubElement(cpu, "topology", sockets="1", dies="1", cores=cores, threads="1")
    for feature in features:
        policy, plain = _feature(feature)
        SubElement(cpu, "feature", policy=policy, name=plain)


def _feature(word: str) -> tuple[str, str]:
    """`+svm`, `svm=on`: required; `-svm`, `svm=off`: disabled."""
    name, _, value = word.partition("=")
    off = name.startswith("-") or value == "off"
    return "disable" if off else "require", name.lstrip("+-")


def _devices(domain: Element, machine: VirtualMachine, sockets: Sockets) -> None:
    devices = SubElement(domain, "devices")
    SubElement(devices, "controller", type="usb", model="none")
    if any(drive.bus == "scsi" for drive in machine.drives):
        SubElement(devices, "controller", type="scsi", model="virtio-scsi")
    letters = dict.fromkeys(_BUS_DISKS.values(), 0)
    for drive in machine.drives:
        prefix = _BUS_DISKS[drive.bus]
        _disk(devices, drive, f"{prefix}{chr(ord('a') + letters[prefix])}")
        letters[prefix] += 1
    for link in machine.links:
        add_link(devices, link)
    add_channels(devices, sockets)
    SubElement(devices, "memballoon", model="none")
    random = SubElement(devices, "rng", model="virtio")
    add_text(random, "backend", "/dev/urandom", model="random")


def add_channels(devices: Element, sockets: Sockets) -> None:
    """The console, and the port of the agent."""
    console = SubElement(devices, "serial", type="unix")
    SubElement(console, "source", mode="bind", path=str(sockets.console))
    SubElement(console, "target", type="isa-serial", port="0")
    channel = SubElement(devices, "channel", type="unix")
    SubElement(channel, "source", mode="bind", path=str(sockets.agent))
    SubElement(channel, "target", type="virtio", name=AGENT_PORT)


def _disk(devices: Element, drive: Drive, target: str) -> None:
    disk = SubElement(devices, "disk", type="file", device="disk")
    driver = SubElement(disk, "driver", name="qemu", type=drive.format, cache=drive.cache)
    driver.set("error_policy", "report")  # else a VM whose disk is full would be halted
    driver.set("rerror_policy", "report")
    if drive.aio:
        driver.set("io", drive.aio)
    SubElement(disk, "source", file=str(drive.path))
    SubElement(disk, "target", dev=target, bus=drive.bus)
    if drive.read_only:
        SubElement(disk, "readonly")


def add_link(devices: Element, link: Link) -> None:
    """A NIC on a tap of the run's."""
    assert link.tap is not None
    interface = SubElement(devices, "interface", type="ethernet")
    SubElement(interface, "mac", address=link.mac)
    SubElement(interface, "target", dev=link.tap, managed="no")
    SubElement(interface, "model", type=link.nic)
    if link.nic == "virtio":
        driver = SubElement(interface, "driver", name="vhost" if link.vhost else "qemu")
        if link.queues > 1:
            driver.set("queues", str(link.queues))
        if not link.offloads:
            for side, names in _NO_OFFLOADS.items():
                SubElement(driver, side, dict.fromkeys(names, "off"))
    SubElement(interface, "rom", enabled="no")
