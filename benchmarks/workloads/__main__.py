"""Runs every benchmark of workloads of our own, one after the other."""

from __future__ import annotations

from benchmarks.figures import main_of_all
from benchmarks.workloads import basics_pairs, connections, flood_ping, open_loop, pipelines

BENCHMARKS = {
    "basics_pairs": basics_pairs.measure,
    "connections": connections.measure,
    "flood_ping": flood_ping.measure,
    "open_loop": open_loop.measure,
    "pipelines": pipelines.measure,
}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
