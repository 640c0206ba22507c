"""Runs every benchmark of energy, one after the other."""

from __future__ import annotations

from benchmarks.energy import integrals, meter_cost
from benchmarks.figures import main_of_all

BENCHMARKS = {
    "integrals": integrals.measure,
    "meter_cost": meter_cost.measure,
}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
