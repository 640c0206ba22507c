"""Meter `rapl`."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field

from ullage.common.quantities import Seconds
from ullage.meters.energy.base import EnergyMeter, Every, FaultError, MeterOptions, refusal
from ullage.runs.readings import Channel, Scope

STEP_J: Final = 2.0**-14
"""Smallest step of the counters, or less: Intel's manual, volume 3B, MSR_RAPL_POWER_UNIT."""

_ZONE: Final = re.compile(r"intel-rapl:\d+(:\d+)?")
_PACKAGE: Final = re.compile(r"package(-\d{1,4}(?:-die-\d{1,4})?)")
_LOOKS: Final = 200
_POLL_S: Final = 0.005
_FIXES: Final = {
    "gone": "energy of the processor can be read on the machine itself, not in most guests and"
    " containers; `modprobe intel_rapl_msr` where it is a module;"
    " docs/guide/energy-meters.md has others",
    "denied": "only root may read it since CVE-2020-8694: run as root, or as root let a group:"
    " `chgrp GROUP FILE; chmod g+r FILE` for each `energy_uj` (docs/guide/energy-meters.md has"
    " the udev rule that does it at each boot)",
    "nonsense": "leave this meter out; a hypervisor may show counters that do not count",
}


class RaplOptions(MeterOptions):
    """What a plan may say of `rapl`."""

    every: Every = Field(
        Seconds(1.0),
        le=60,
        description="between two readings, `1s` or `0.5s`; 10 ms at least, a minute at most, so"
        " that no counter wraps past itself",
    )
    powercap: str = Field("/sys/class/powercap", description="where the kernel has its zones")


@dataclass(frozen=True)
class Zone:
    """A counter of the kernel that becomes a channel."""

    channel: str
    scope: Scope
    place: Path
    wraps_at: float | None
    """J."""

    def joules(self) -> float:
        """The counter now; FaultError when it cannot be read or is none."""
        text = _text(self.place / "energy_uj")
        if not (text.isascii() and text.isdecimal()):
            raise FaultError("nonsense", f"{self.channel} says {text[:40]!r}, no count of µJ")
        value = int(text) / 1e6
        if self.wraps_at is not None and value > self.wraps_at:
            raise FaultError("nonsense", f"{self.channel} says {value:g} J, beyond its own range")
        return value


class Rapl(EnergyMeter):
    """Energy of each processor package and of its memory, counted by the processor itself.

    Running average power limit (RAPL) of Intel and AMD, from the kernel's `powercap` tree. Every
    package is a channel (`package-0`), and where the processor counts it, the memory of each
    (`memory-0`); both measured, by the host. Cores and graphics (`core`, `uncore`) are parts of a
    package and not given, so that nothing is added twice; nor is `psys`, as every maker wires it
    to something else. Intel has measured since Haswell (2013); before that, and on some machines
    of AMD, the processor computes it from what its parts do. Its maker states no accuracy. The
    counters move about every millisecond and wrap, after minutes at the earliest. Needs root, or
    `energy_uj` opened to a group; the directory is not there in most guests and containers.
    """

    name = "rapl"
    Options = RaplOptions

    def __init__(self, options: RaplOptions) -> None:
        super().__init__(options)
        self._zones: tuple[Zone, ...] = ()

    def open(self) -> tuple[Channel, ...]:
        """Find the zones, and see that they can be read and that the packages count."""
        try:
            zones = self._find()
            _check_counting(zones)
        except FaultError as fault:
            where = self.options.powercap
            fix = _FIXES.get(fault.code, _FIXES["nonsense"])
            raise refusal(self.name, where, fault, fix) from fault
        self._zones = zones
        return tuple(_channel(zone) for zone in zones)

    def read(self) -> Mapping[str, float]:
        return _joules(self._zones)

    def close(self) -> None:
        """Nothing is held."""

    def _find(self) -> tuple[Zone, ...]:
        root = Path(self.options.powercap)
        if not root.is_dir():
            raise FaultError("gone", "no such directory, as in most virtual machines")
        places = [place for place in root.iterdir() if _ZONE.fullmatch(place.name)]
        if not places:
            raise FaultError("gone", "it has no zone of RAPL")
        zones = {zone.channel: zone for zone in _zones(sorted(places, key=_order))}
        if not any(zone.scope == "package" for zone in zones.values()):
            raise FaultError("gone", "none of its zones is a package")
        return tuple(zones.values())


def _joules(zones: tuple[Zone, ...]) -> dict[str, float]:
    return {zone.channel: zone.joules() for zone in zones}


def _check_counting(zones: tuple[Zone, ...]) -> None:
    """A package that runs this very loop draws power; FaultError when its count stands."""
    before = _joules(zones)
    still = {zone.channel for zone in zones if zone.scope == "package"}
    for _ in range(_LOOKS):
        time.sleep(_POLL_S)
        now = _joules(zones)
        still = {name for name in still if now[name] == before[name]}
        if not still:
            return
    raise FaultError("nonsense", f"{min(still)} stands still at {before[min(still)]:g} J")


def _zones(places: list[Path]) -> Iterator[Zone]:
    """Packages, and the memory of each."""
    for place in places:
        name, scope = _text(place / "name"), "package"
        if name == "dram":
            # A zone of the kernel is named after the one it is part of.
            name, scope = _text(place.with_name(place.name.rpartition(":")[0]) / "name"), "memory"
        package = _PACKAGE.fullmatch(name)
        if package and scope == "package":
            yield Zone(name, "package", place, _range_j(place))
        elif package:
            yield Zone(f"memory{package[1]}", "memory", place, _range_j(place))


def _range_j(place: Path) -> float | None:
    """Where the counter starts again; None where the kernel does not say."""
    text = _text(place / "max_energy_range_uj")
    return int(text) / 1e6 if text.isascii() and text.isdecimal() and int(text) > 0 else None


def _channel(zone: Zone) -> Channel:
    return Channel(
        name=zone.channel,
        kind="energy",
        method="measured",
        scope=zone.scope,
        observer="host",
        resolution=STEP_J,
        wraps_at=zone.wraps_at,
        source=str(zone.place / "energy_uj"),
    )


def _order(place: Path) -> list[int]:
    """`intel-rapl:2` before `intel-rapl:10`."""
    return [int(number) for number in place.name.split(":")[1:]]


def _text(file: Path) -> str:
    """What the file says; FaultError when it does not."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, 64).decode("ascii", "replace").strip()
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        hidden = "; container runtimes hide what it leads to" if file.parent.is_symlink() else ""
        raise FaultError("gone", f"no {file}{hidden}") from error
    except OSError as error:
        code = {errno.EACCES: "denied", errno.EPERM: "denied", errno.ENODEV: "gone"}
        reason = f"{file}: {error.strerror}"
        raise FaultError(code.get(error.errno or 0, "silent"), reason) from error
