"""Disk requests of a control group: counted, and let through no faster than asked.

Version 1 (`blkio`) and version 2 (`io`). What a group's processes read, write past the page cache,
or write out themselves (`fsync`) counts as theirs; what the kernel writes back later does so in
version 2 alone.
Sources: Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst, `io.max`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ullage.host import cgroups

Cap = Literal["rbps", "wbps", "riops", "wiops"]
"""Bytes or requests in a second, read or written, by their names in version 2."""

V1_FILES: Final[Mapping[Cap, str]] = {
    "rbps": "blkio.throttle.read_bps_device",
    "wbps": "blkio.throttle.write_bps_device",
    "riops": "blkio.throttle.read_iops_device",
    "wiops": "blkio.throttle.write_iops_device",
}


FREE: Final[Mapping[Cap, int]] = {"rbps": 1 << 50, "wbps": 1 << 50}
"""A limit that nothing reaches: version 1 counts only in groups that have one."""


@dataclass(frozen=True)
class DiskRequests:
    """What a group asked of all disks."""

    read_bytes: int = 0
    written_bytes: int = 0
    reads: int = 0
    writes: int = 0


def tree() -> cgroups.Hierarchy | None:
    """That of the controller; None: this host has none."""
    return next((hierarchy for hierarchy in cgroups.hierarchies() if _throttles(hierarchy)), None)


def _throttles(hierarchy: cgroups.Hierarchy) -> bool:
    if hierarchy.version == 1:
        return (hierarchy.path / "blkio.reset_stats").is_file()
    controllers = hierarchy.path / "cgroup.controllers"
    return controllers.is_file() and "io" in controllers.read_text().split()


def group(hierarchy: cgroups.Hierarchy, path: str) -> Path:
    """The group of that path in the tree, made when it is not there, with the controller on."""
    place = hierarchy.path / path.lstrip("/")
    place.mkdir(parents=True, exist_ok=True)
    if hierarchy.version == 2:
        for above in reversed([p for p in place.parents if p.is_relative_to(hierarchy.path)]):
            (above / "cgroup.subtree_control").write_text("+io")
    return place


def throttle(hierarchy: cgroups.Hierarchy, path: str, device: str, caps: Mapping[Cap, int]) -> Path:
    """The group of that path, whose members ask no more of the disk than that."""
    place = group(hierarchy, path)
    if hierarchy.version == 1:
        for cap, most in caps.items():
            (place / V1_FILES[cap]).write_text(f"{device} {most}")
    else:
        limits = " ".join(f"{cap}={most}" for cap, most in caps.items())
        (place / "io.max").write_text(f"{device} {limits}")
    return place


def requests(hierarchy: cgroups.Hierarchy, path: str) -> DiskRequests:
    """What the members of the group of that path have asked for since it was made."""
    place = hierarchy.path / path.lstrip("/")
    if hierarchy.version == 2:
        sums = _version_2((place / "io.stat").read_text())
    else:
        size = _version_1((place / "blkio.throttle.io_service_bytes").read_text())
        count = _version_1((place / "blkio.throttle.io_serviced").read_text())
        sums = (size["Read"], size["Write"], count["Read"], count["Write"])
    return DiskRequests(*sums)


def _version_1(text: str) -> dict[str, int]:
    """Lines of `8:0 Read 4096`, and a total."""
    sums = {"Read": 0, "Write": 0}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in sums:
            sums[words[1]] += int(words[2])
    return sums


def _version_2(text: str) -> tuple[int, int, int, int]:
    """Lines of `8:0 rbytes=4096 wbytes=0 rios=1 wios=0 …`."""
    pairs = [word.partition("=") for line in text.splitlines() for word in line.split()[1:]]

    def total(name: str) -> int:
        return sum(int(value) for key, _, value in pairs if key == name)

    return total("rbytes"), total("wbytes"), total("rios"), total("wios")


def whole_disk(path: Path) -> str | None:
    """`major:minor` of the disk that the file is on, not of its partition; None: on no disk."""
    number = path.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if (device / "partition").exists():
        device = device.parent
    return (device / "dev").read_text().strip() if (device / "dev").exists() else None
