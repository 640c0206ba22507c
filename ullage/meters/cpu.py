"""Meter `cpu`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ullage.meters import procfs
from ullage.meters.base import Meter
from ullage.runs.records import Quantity

SYSFS = Path("/sys/devices/system/cpu")
CPUINFO = Path("/proc/cpuinfo")
_PATIENCE_S = 0.005


@dataclass(frozen=True)
class CpuFiles:
    """What this host tells of its CPUs, and where."""

    frequencies: tuple[str, ...]
    """One for each CPU, in kHz."""
    throttles: tuple[str, ...]
    """Counters: one for each CPU, and one for each package."""
    cpuinfo: Path | None
    """Where no file tells a frequency and this one does; None: it would be a constant."""

    @classmethod
    @cache
    def find(cls, sysfs: Path = SYSFS, cpuinfo: Path = CPUINFO) -> CpuFiles:
        """Look once: nothing of it comes or goes while the host is up, but for a CPU plugged out.

        `cpu MHz` in /proc/cpuinfo is measured only where the processor counts its cycles
        (`aperfmperf`, arch/x86/kernel/cpu/aperfmperf.c): most virtual machines show a constant.
        """
        cpus = sorted(sysfs.glob("cpu[0-9]*"))
        frequencies = tuple(
            str(file) for cpu in cpus if (file := cpu / "cpufreq/scaling_cur_freq").exists()
        )
        live = not frequencies and "aperfmperf" in (procfs.read(cpuinfo) or "").split()
        return cls(frequencies, tuple(_throttles(cpus)), cpuinfo if live else None)

    def frequency_hz(self) -> float | None:
        """Of the CPU that runs fastest now; None when it is not told, or not in 5 ms.

        (Kernels from 4.13 to 5.17 sleep for 10 ms or more for each CPU that has been idle.)
        """
        if self.cpuinfo is not None:
            return _fastest_hz(self.cpuinfo)
        deadline = time.perf_counter() + _PATIENCE_S
        readings = []
        for file in self.frequencies:
            readings.append(procfs.number(file))
            if time.perf_counter() > deadline:
                return None
        khz_read = [khz for khz in readings if khz]
        return max(khz_read) * 1e3 if khz_read else None

    def throttled(self) -> tuple[int | None, ...]:
        return tuple(procfs.number(file) for file in self.throttles)


class Cpu(Meter):
    """How fast the CPUs ran, and whether heat slowed them down.

    From `cpufreq` and `thermal_throttle` under `/sys/devices/system/cpu`, or `cpu MHz` of
    `/proc/cpuinfo` where that is measured. It is the frequency of the fastest CPU right after the
    programs have ended, and no mean over the trial: to sample it during the trial would disturb
    what is measured. Most virtual machines tell neither; then both are absent. A few microseconds
    for each CPU.
    """

    name = "cpu"
    quantities = (
        Quantity(
            name="frequency",
            unit="1/s",
            description="Cycles of the fastest CPU, right after the programs had ended.",
        ),
        Quantity(
            name="throttled",
            unit="1",
            description="CPUs and packages that were slowed down for their heat.",
        ),
    )

    def __init__(self, sysfs: Path = SYSFS, cpuinfo: Path = CPUINFO) -> None:
        self._files = CpuFiles.find(sysfs, cpuinfo)

    def begin(self) -> None:
        self._before = self._files.throttled()

    def end(self) -> dict[str, float]:
        """The frequency, before anything else goes idle; then which counters have risen."""
        figures: dict[str, float] = {}
        frequency = self._files.frequency_hz()
        if frequency is not None:
            figures["frequency"] = frequency
        pairs = zip(self._before, self._files.throttled(), strict=True)
        risen = [now > then for then, now in pairs if now is not None and then is not None]
        if risen:
            figures["throttled"] = float(sum(risen))
        return figures


def _throttles(cpus: list[Path]) -> list[str]:
    files = [cpu / "thermal_throttle/core_throttle_count" for cpu in cpus]
    packages: dict[str | None, Path] = {}
    for cpu in cpus:
        package = procfs.read(cpu / "topology/physical_package_id")
        packages.setdefault(package, cpu / "thermal_throttle/package_throttle_count")
    return [str(file) for file in (*files, *packages.values()) if file.exists()]


def _fastest_hz(cpuinfo: Path) -> float | None:
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    values = [line.rpartition(":")[2] for line in lines if line.startswith("cpu MHz")]
    return max(map(float, values)) * 1e6 if values else None
