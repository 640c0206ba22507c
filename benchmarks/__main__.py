"""Runs every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import (
    agent_cost,
    analysis_speed,
    causes_cost,
    clock,
    demo_time,
    energy,
    engine_cost,
    footprint,
    meter_cost,
    ocean,
    pipelines,
    prediction,
)
from benchmarks.elastic import allocation
from benchmarks.elastic.__main__ import BENCHMARKS as ELASTIC
from benchmarks.figures import main
from benchmarks.injection import command as injection
from benchmarks.trust import aims as trust
from benchmarks.workloads import connections, flood_ping, nas, pingpong

BENCHMARKS = (
    footprint,
    engine_cost,
    analysis_speed,
    agent_cost,
    demo_time,
    clock,
    ocean,
    trust,
    energy,
    injection,
    pingpong,
    nas,
    connections,
    flood_ping,
    pipelines,
    prediction,
    allocation,
    *ELASTIC,
    meter_cost,
    causes_cost,
)

if __name__ == "__main__":
    main(
        lambda quick: [row for each in BENCHMARKS for row in each.measure(quick)],
        "all benchmarks",
    )
