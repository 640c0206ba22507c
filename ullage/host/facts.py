"""Facts about this host that belong beside every figure."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from ullage.common.quantities import memory_bytes


def facts() -> dict[str, Any]:
    """Kernel, CPU, memory, power state, mitigations; what cannot be read is left out."""
    cpuinfo = _cpuinfo()
    known_facts: dict[str, Any] = {
        "hostname": platform.node(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "os": _os_name(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "cpu_model": cpuinfo.get("model name"),
        "microcode": cpuinfo.get("microcode"),
        "virtualised": "hypervisor" in cpuinfo.get("flags", "").split(),
        "memory_bytes": memory_bytes(),
        "clocksource": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "turbo_disabled": _read("/sys/devices/system/cpu/intel_pstate/no_turbo"),
        "smt": _read("/sys/devices/system/cpu/smt/active"),
        "numa_nodes": _read("/sys/devices/system/node/online"),
        "transparent_hugepage": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "congestion_control": _read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "mitigations": _mitigations(),
    }
    return {name: value for name, value in known_facts.items() if value not in (None, {})}


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _cpuinfo() -> dict[str, str]:
    """Fields of the first processor in /proc/cpuinfo."""
    first = (_read("/proc/cpuinfo") or "").partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _os_name() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _mitigations() -> dict[str, str]:
    folder = Path("/sys/devices/system/cpu/vulnerabilities")
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return {}
    return {file.name: state for file in files if (state := _read(str(file)))}
