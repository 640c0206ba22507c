"""Meter `host`."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass, field
from functools import cache

from ullage.host import cgroups
from ullage.meters import procfs
from ullage.meters.base import Meter, share
from ullage.runs.records import Quantity

_PRESSURE = ("cpu", "io", "memory")
_ACCOUNTS = ("cpu.stat", "cpuacct.usage")
"""What a control group has used: of version 2, and of version 1."""


@dataclass(frozen=True)
class HostReading:
    """Counters since boot, in seconds summed over all CPUs."""

    instant_s: float
    busy_s: float
    idle_s: float
    steal_s: float
    stalled_s: dict[str, float]
    """Time in which some task waited for the resource (PSI `some`)."""
    programs_s: float = 0.0
    """Of busy_s: programs and the kernel for them, without interrupts."""
    controller_s: float = 0.0
    """Of programs_s: this process."""
    instances_s: dict[str, float] = field(default_factory=dict)
    """Account of the instances' control groups → what it says."""

    @classmethod
    def now(cls) -> HostReading:
        ticks = [int(tick) for tick in (procfs.read("/proc/stat") or "").split()[1:9]]
        user, nice, system, idle, iowait, irq, softirq, steal = ticks
        own = resource.getrusage(resource.RUSAGE_SELF)
        return cls(
            instant_s=time.monotonic(),
            busy_s=(user + nice + system + irq + softirq) * procfs.TICK_S,
            idle_s=(idle + iowait) * procfs.TICK_S,
            steal_s=steal * procfs.TICK_S,
            stalled_s={
                name: total for name in _PRESSURE if (total := _stalled_s(name)) is not None
            },
            programs_s=(user + nice + system) * procfs.TICK_S,
            controller_s=own.ru_utime + own.ru_stime,
            instances_s={path: used for path in accounts() if (used := _used_s(path)) is not None},
        )

    def until(self, later: HostReading) -> dict[str, float]:
        """What went by between two readings: `cpu_time`, shares of it, and `psi_*` of the time.

        Empty when less than a clock tick went by: no share can be told.
        """
        busy, steal = later.busy_s - self.busy_s, later.steal_s - self.steal_s
        total = busy + steal + later.idle_s - self.idle_s
        elapsed = later.instant_s - self.instant_s
        if total <= 0 or elapsed <= 0:
            return {}
        shares = {
            "cpu_time": total,
            "busy": min(busy / total, 1.0),
            "steal": min(steal / total, 1.0),
            "programs": min((later.programs_s - self.programs_s) / total, 1.0),
            "controller": min((later.controller_s - self.controller_s) / total, 1.0),
        }
        # An account that came or went in between tells nothing of the time in between.
        both = self.instances_s.keys() & later.instances_s.keys()
        if both:
            # Several are several views of the same groups; the fullest has most of them.
            used = max(later.instances_s[path] - self.instances_s[path] for path in both)
            shares["instances"] = min(max(used, 0.0) / total, 1.0)
        for name, before in self.stalled_s.items():
            if name in later.stalled_s:
                shares[f"psi_{name}"] = min((later.stalled_s[name] - before) / elapsed, 1.0)
        return shares


class Host(Meter):
    """How busy the host was, with what, and how much of it was taken away from us.

    Read from `/proc/stat`, `/proc/pressure` and the accounts of control groups before and after the
    programs of the trial, together in less than 0.3 ms. A kernel without pressure stall information
    tells no `psi_*`, and a trial shorter than a clock tick tells nothing. `instances` counts what
    is in ullage's control groups: all of a VM and of most containers; of version 1 only where the
    controller `cpuacct` has them. A container whose group a daemon keeps elsewhere, or a plain
    user's, is not in it. What `programs` has beyond `instances` and `controller` is then not all
    somebody else's.
    """

    name = "host"
    quantities = (
        Quantity(name="cpu_time", unit="s", description="All CPUs together: what went by."),
        share("busy", "Of cpu_time: something ran, of ours or not."),
        share("programs", "Of cpu_time: programs ran, of ours or not; busy without interrupts."),
        share("instances", "Of cpu_time: ullage's control groups ran."),
        share("controller", "Of cpu_time: ullage itself ran."),
        share("steal", "Of cpu_time: a hypervisor under this host ran somebody else."),
        share("psi_cpu", "Of the trial: some task waited for a CPU."),
        share("psi_io", "Of the trial: some task waited for a disk."),
        share("psi_memory", "Of the trial: some task waited for memory."),
    )

    def begin(self) -> None:
        self._before = HostReading.now()

    def end(self) -> dict[str, float]:
        return self._before.until(HostReading.now())


@cache
def accounts() -> tuple[str, ...]:
    """Where the CPU time of all instances is told, once there are any; looked for once."""
    paths = []
    for hierarchy in cgroups.hierarchies():
        name = _ACCOUNTS[0] if hierarchy.version == 2 else _ACCOUNTS[1]
        if hierarchy.version == 2 or (hierarchy.path / name).exists():
            paths.append(str(hierarchy.path / cgroups.ROOT / name))
    return tuple(paths)


def _used_s(path: str) -> float | None:
    """CPU time that an account tells, in seconds; None while there is no such group."""
    text = procfs.read(path)
    if text is None:
        return None
    first = text.partition("\n")[0].split()
    if len(first) == 2 and first[0] == "usage_usec":
        return int(first[1]) / 1e6
    return int(first[0]) / 1e9 if len(first) == 1 and first[0].isdecimal() else None


def _stalled_s(name: str) -> float | None:
    total_us = procfs.stalled_us(procfs.read(f"/proc/pressure/{name}") or "", "some")
    return None if total_us is None else total_us / 1e6
