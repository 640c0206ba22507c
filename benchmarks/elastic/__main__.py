"""Runs every benchmark of elasticity in one run, but for `allocation`, which takes hours."""

from __future__ import annotations

from benchmarks.elastic import decisions, front, published, simulator, twin, viewers
from benchmarks.figures import main

BENCHMARKS = (decisions, simulator, front, viewers, published, twin)

if __name__ == "__main__":
    main(
        lambda quick: [row for each in BENCHMARKS for row in each.measure(quick)],
        "all benchmarks of elasticity",
    )
