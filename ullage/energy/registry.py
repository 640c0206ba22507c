"""What the list of energy meters refuses at start."""

from __future__ import annotations

from typing import Final

from ullage.energy.base import EnergyMeter, MeterOptions
from ullage.registry import Registry, fields_fault


def _fault(meter: type[EnergyMeter]) -> str | None:
    return fields_fault("Options", meter.Options, MeterOptions, frozenset({"meter", "optional"}))


REGISTRY: Final = Registry("energy meter", EnergyMeter, ("Options",), _fault)
