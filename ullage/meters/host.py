"""Meter `host`."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from ullage.meters.base import Meter
from ullage.runs import Quantity

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PRESSURE = ("cpu", "io", "memory")


def _share(name: str, description: str) -> Quantity:
    return Quantity(name=name, unit="1", description=description)


@dataclass(frozen=True)
class HostReading:
    """Counters since boot, in seconds summed over all CPUs."""

    instant_s: float
    busy_s: float
    idle_s: float
    steal_s: float
    stalled_s: dict[str, float]
    """Time in which some task waited for the resource (PSI `some`)."""

    @classmethod
    def now(cls) -> HostReading:
        """Read the counters."""
        ticks = [int(field) for field in _first_line(Path("/proc/stat")).split()[1:9]]
        user, nice, system, idle, iowait, irq, softirq, steal = ticks
        return cls(
            instant_s=time.monotonic(),
            busy_s=(user + nice + system + irq + softirq) * _TICK_S,
            idle_s=(idle + iowait) * _TICK_S,
            steal_s=steal * _TICK_S,
            stalled_s={name: total for name in _PRESSURE if (total := _stalled(name)) is not None},
        )

    def until(self, later: HostReading) -> dict[str, float]:
        """Shares, 0 to 1, between two readings: `busy` and `steal` of the CPUs, `psi_*` of time.

        Empty when less than a clock tick went by: no share can be told.
        """
        busy, steal = later.busy_s - self.busy_s, later.steal_s - self.steal_s
        total = busy + steal + later.idle_s - self.idle_s
        elapsed = later.instant_s - self.instant_s
        if total <= 0 or elapsed <= 0:
            return {}
        shares = {"busy": min(busy / total, 1.0), "steal": min(steal / total, 1.0)}
        for name, before in self.stalled_s.items():
            if name in later.stalled_s:
                shares[f"psi_{name}"] = min((later.stalled_s[name] - before) / elapsed, 1.0)
        return shares


class Host(Meter):
    """How busy the host was, and how much of it was taken away from us.

    Read from `/proc/stat` and `/proc/pressure` before and after the programs of the trial,
    together in less than 0.2 ms. A kernel without pressure stall information tells `busy` and
    `steal` only, and a trial shorter than a clock tick tells nothing.
    """

    name = "host"
    quantities = (
        _share("busy", "Of the time of all CPUs: something ran, of ours or not."),
        _share("steal", "Of the time of all CPUs: a hypervisor under this host ran somebody else."),
        _share("psi_cpu", "Of the trial: some task waited for a CPU."),
        _share("psi_io", "Of the trial: some task waited for a disk."),
        _share("psi_memory", "Of the trial: some task waited for memory."),
    )

    def begin(self) -> None:
        """Read the counters."""
        self._before = HostReading.now()

    def end(self) -> dict[str, float]:
        """Read them again; the shares between."""
        return self._before.until(HostReading.now())


def _first_line(path: Path) -> str:
    with path.open(encoding="ascii") as stream:
        return stream.readline()


def _stalled(resource: str) -> float | None:
    try:
        line = _first_line(Path("/proc/pressure") / resource)
    except OSError:
        return None
    return int(line.rpartition("total=")[2]) / 1e6
