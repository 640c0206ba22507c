"""Waiting for what must come, on a machine that may be slow."""

from __future__ import annotations

import time
from collections.abc import Callable

from ullage.meters.energy.base import EnergyMeter, FaultError

PATIENCE_S = 120.0


def until(condition: Callable[[], bool], awaited: str) -> None:
    """Ask until it is so; a failure after two minutes."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"never: {awaited}"
        time.sleep(0.05)


def until_fault(meter: EnergyMeter, code: str) -> FaultError:
    """Read until a fault of this code comes."""
    faults: list[FaultError] = []

    def came() -> bool:
        try:
            meter.read()
        except FaultError as fault:
            faults.append(fault)
        return bool(faults) and faults[-1].code == code

    until(came, f"a fault {code}")
    return faults[-1]


def until_value(meter: EnergyMeter, value: float, channel: str = "wall") -> None:
    """Read until the channel tells this, within 1 in 10^6."""

    def came() -> bool:
        try:
            return abs(meter.read()[channel] - value) <= 1e-6 * value
        except FaultError:
            return False

    until(came, f"{channel} at {value}")
