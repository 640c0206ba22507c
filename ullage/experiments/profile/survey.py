"""How much work a probe does, and how strong a hindrance is: fitted to the command.

The probes of disk and network make requests of the size that the command makes, so that the
slow-down that they measure is that of the command's requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.commands import CommandError, run
from ullage.common.errors import PROFILE_FAILED, UllageError
from ullage.experiments.profile import disk, probe
from ullage.experiments.profile.disk import Cap
from ullage.experiments.profile.loads import DISK_FILE, PROBE_S, argv, times
from ullage.experiments.profile.slowdowns import HinderedOptions, Traffic
from ullage.runs.records import Resource

CPU_SHARE: Final = 1 / 4
"""Of the CPU time that a probe gets here now the command keeps so much: on a busy host a quota of a
quarter of the CPUs would be more than it gets anyway."""
LEAST_SHARE: Final = 0.04
"""A probe that got less of a CPU than that is not believed."""
SLOWER: Final = 6
"""A disk or a link lets through one part in so many of what the probe reached. A limit of a rate
costs nothing while the command does something else, so it must be strong to be felt as a share."""
LEAST_SEEN_S: Final = 0.05
"""A probe that was shorter is tried again with more work before its rate is believed."""
SECTOR: Final = 4096
LARGEST_REQUEST: Final = 1 << 20
LARGEST_MESSAGE: Final = 64 << 10
HEADERS: Final = 66
"""Bytes of Ethernet, IPv4 and TCP with time stamps around a message."""
_FIRST: Final[dict[Resource, int]] = {"cpu": 2000, "memory": 4, "disk": 100, "network": 500}


@dataclass(frozen=True)
class Strength:
    """Of one resource: what its probe is asked for, and what slows it."""

    arguments: tuple[str, ...]
    options: HinderedOptions | None
    """None: it is slowed by a neighbour."""
    each_s: float = 0.0
    """Seconds of one request of the probe, or of one message."""


async def fit(resource: Resource, traffic: Traffic, directory: Path) -> Strength:
    """For a command with that traffic. `directory`: on its disk, for a file.

    PROFILE_FAILED where a probe does not run.
    """
    if resource == "cpu":
        count = await _count("cpu", ())
        seconds, on_cpu = await _times("cpu", (str(count),))
        share = max(LEAST_SHARE, min(1.0, on_cpu / seconds))
        return Strength((str(count),), HinderedOptions(cpu=share * CPU_SHARE))
    if resource == "memory":
        return Strength((str(await _count("memory", ())),), None)
    if resource == "disk":
        return await _disk(traffic.disk, directory)
    size = message_bytes(traffic)
    count = await _count("network", (str(size),))
    bits = round(2 * count * (size + HEADERS) * 8 / PROBE_S / SLOWER)
    each_s = PROBE_S / (2 * count)
    return Strength((str(size), str(count)), HinderedOptions(link=bits), each_s)


async def _disk(requests: disk.DiskRequests, directory: Path) -> Strength:
    size, share = request_bytes(requests), read_share(requests)
    file = str(directory / DISK_FILE)
    await _times("disk-file", (file,))
    count = await _count("disk", (file, str(size)), share)
    reads, writes = split(count, share)
    a_second = count / PROBE_S / SLOWER
    most = {"bps": max(SECTOR, round(a_second * size)), "iops": max(1, round(a_second))}
    caps: dict[Cap, int] = {
        "rbps": most["bps"],
        "wbps": most["bps"],
        "riops": most["iops"],
        "wiops": most["iops"],
    }
    return Strength(
        (str(size), str(reads), str(writes)), HinderedOptions(disk=caps), 1 / a_second / SLOWER
    )


def request_bytes(requests: disk.DiskRequests) -> int:
    """The command's mean request, in whole sectors."""
    count = requests.reads + requests.writes
    mean = (requests.read_bytes + requests.written_bytes) / count if count else 16 * SECTOR
    return min(LARGEST_REQUEST, max(1, round(mean / SECTOR)) * SECTOR)


def read_share(requests: disk.DiskRequests) -> float:
    """The part of its requests that are reads."""
    count = requests.reads + requests.writes
    return requests.reads / count if count else 1.0


def message_bytes(traffic: Traffic) -> int:
    """The payload of the command's mean packet."""
    mean = traffic.network_bytes / traffic.packets if traffic.packets else 0
    return min(LARGEST_MESSAGE, max(1, round(mean) - HEADERS))


def split(count: int, share: float) -> tuple[int, int]:
    reads = round(count * share)
    return reads, count - reads


async def _count(kind: Resource, before: Sequence[str], share: float | None = None) -> int:
    """The work that takes about `PROBE_S`."""
    count = _FIRST[kind]
    while True:
        work = (str(count),) if share is None else tuple(map(str, split(count, share)))
        seconds, _ = await _times(kind, (*before, *work))
        if seconds >= LEAST_SEEN_S or count >= 1 << 40:
            return max(2, round(count * PROBE_S / seconds))
        count *= 8


async def _times(kind: str, arguments: Sequence[str]) -> tuple[float, float]:
    try:
        return times(await run(argv(kind, *arguments), timeout_s=_PATIENCE_S))
    except (CommandError, ValueError) as error:
        raise UllageError(
            PROFILE_FAILED,
            reason=f"the probe of its {kind} does not run here: {error}",
            suggestion=f"leave {kind.partition('-')[0]} out of `--resources`",
        ) from None


_PATIENCE_S: Final = 120.0
assert probe.FILE >= LARGEST_REQUEST
