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
from benchmarks.figures import main_of_all
from benchmarks.injection import command as injection
from benchmarks.trust import aims as trust
from benchmarks.workloads import connections, flood_ping, nas, pingpong

BENCHMARKS = {
    "footprint": footprint.measure,
    "engine_cost": engine_cost.measure,
    "analysis_speed": analysis_speed.measure,
    "agent_cost": agent_cost.measure,
    "demo_time": demo_time.measure,
    "clock": clock.measure,
    "ocean": ocean.measure,
    "trust": trust.measure,
    "energy": energy.measure,
    "injection": injection.measure,
    "pingpong": pingpong.measure,
    "nas": nas.measure,
    "connections": connections.measure,
    "flood_ping": flood_ping.measure,
    "pipelines": pipelines.measure,
    "prediction": prediction.measure,
    "allocation": allocation.measure,
    **ELASTIC,
    "meter_cost": meter_cost.measure,
    "causes_cost": causes_cost.measure,
}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, "all benchmarks")
