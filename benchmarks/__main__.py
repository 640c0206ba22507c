"""Runs every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import agent_cost, clock, demo_time, engine_cost, footprint, ocean
from benchmarks.figures import main

BENCHMARKS = (footprint, engine_cost, agent_cost, demo_time, clock, ocean)

if __name__ == "__main__":
    main(
        lambda quick: [row for each in BENCHMARKS for row in each.measure(quick)],
        "all benchmarks",
    )
