"""The energy meters. A new one is a file in this folder and a line in this list."""

from __future__ import annotations

from ullage.meters.energy.base import REGISTRY, EnergyMeter

ENERGY_METERS: tuple[type[EnergyMeter], ...] = REGISTRY.load(
    "rapl.Rapl",
    "perf.Perf",
    "wattsup.Wattsup",
    "nut.Nut",
    "apcupsd.Apcupsd",
    "ipmi.Ipmi",
    "redfish.Redfish",
    "prometheus.Prometheus",
    "model.Model",
)

__all__ = ["ENERGY_METERS", "EnergyMeter"]
