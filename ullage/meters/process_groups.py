"""Whose CPU time it is: the processes of a host, in a few groups with names that stay.

Process ids and thread names differ from trial to trial, so nothing is kept by them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal

from ullage.host import cgroups
from ullage.host.paths import check_tag
from ullage.meters import procfs
from ullage.meters.base import Scene

ProcessGroup = Literal[
    "vcpu",
    "hypervisor",
    "vhost",
    "agent",
    "programs",
    "controller",
    "ksoftirqd",
    "kworker",
    "kernel_threads",
    "others",
]

KTHREADD: Final = 2
"""The kernel's first thread, whose children all its other threads are."""
_VCPU: Final = re.compile(r"(CPU \d+|ALL CPUs)/(KVM|TCG)")
"""QEMU's names of them, with `debug-threads=on`."""
_VHOST: Final = "vhost-"
_PROC: Final = Path("/proc")


def members(scene: Scene, proc: Path = _PROC) -> dict[int, ProcessGroup]:
    """The processes of the trial's instances, as they are now."""
    groups: dict[int, ProcessGroup] = {}
    for place in _places(scene.tag, scene.instances):
        for pid in _pids(place):
            groups[pid] = _of_process(pid, proc)
    return groups


def ends(scene: Scene) -> frozenset[int]:
    """Of these, those in instances at the other end."""
    places = _places(scene.tag, scene.ends)
    return frozenset(pid for place in places for pid in _pids(place))


def of_thread(process: ProcessGroup, name: str) -> ProcessGroup:
    """Where a thread of such a process belongs."""
    if process == "hypervisor" and _VCPU.match(name):
        return "vcpu"
    # From Linux 6.4 on it is a thread of QEMU.
    return "vhost" if process == "hypervisor" and name.startswith(_VHOST) else process


def of_kernel(name: str) -> ProcessGroup:
    """Where a thread of the kernel belongs."""
    if name.startswith(_VHOST):
        return "vhost"
    if name.startswith("ksoftirqd/"):
        return "ksoftirqd"
    return "kworker" if name.startswith("kworker/") else "kernel_threads"


def comm(path: str) -> str:
    """A task's name, whatever is in it."""
    return (procfs.read(f"{path}/comm") or "").strip()


def _of_process(pid: int, proc: Path) -> ProcessGroup:
    try:
        program = procfs.target(f"{proc}/{pid}/exe").rpartition("/")[2]
    except OSError:  # gone, or a thread of the kernel, which worked for a guest until Linux 6.4
        return "vhost" if comm(f"{proc}/{pid}").startswith(_VHOST) else "programs"
    if program.startswith("qemu-system-"):
        return "hypervisor"
    return "agent" if program.partition(" ")[0] == "ullage-agent" else "programs"


def _places(run: str, instances: Sequence[str]) -> Iterator[str]:
    """Where the instances' groups stand in one hierarchy; nowhere for those without root."""
    if not run or not instances:
        return
    tag = check_tag(run)
    ours = dict[str, str]()
    for root in _roots():
        below = {name: f"{root}/{tag}/{name}" for name in instances}
        ours = {name: place for name, place in below.items() if procfs.is_folder(place)}
        if ours:
            break
    yield from ours.values()
    for name in instances:
        if name not in ours:
            yield from _of_libvirt(f"ullage-{tag}-{name}")


def _of_libvirt(domain: str) -> Iterator[str]:
    """Where libvirtd, or systemd for it, has put the domain of an instance."""
    unit = domain.replace("-", r"\x2d")
    patterns = (f"machine/qemu-*-{domain}.libvirt-qemu", f"machine.slice/machine-qemu*{unit}.scope")
    for tree in _trees():
        for pattern in patterns:
            if places := list(tree.glob(pattern)):
                yield from map(str, places)
                return


@cache
def _trees() -> tuple[Path, ...]:
    """All hierarchies; looked up once, not in each trial."""
    return tuple(hierarchy.path for hierarchy in cgroups.hierarchies())


@cache
def _roots() -> tuple[str, ...]:
    """Where groups of ours may be; those with a freezer, which every instance needs, first."""
    hierarchies = sorted(
        cgroups.hierarchies(), key=lambda h: ("freezer" not in h.controllers, h.version)
    )
    return tuple(str(hierarchy.path / cgroups.ROOT) for hierarchy in hierarchies)


def _pids(place: str) -> Iterator[int]:
    """Of a group and of those below it."""
    yield from map(int, procfs.whole(f"{place}/cgroup.procs").split())
    try:
        with os.scandir(place) as entries:
            below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:  # it is gone meanwhile
        return
    for group in below:
        yield from _pids(group)
