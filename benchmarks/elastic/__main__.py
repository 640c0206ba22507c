"""Runs every benchmark of elasticity, one after the other, but for `allocation`: it takes hours."""

from __future__ import annotations

from benchmarks.elastic import (
    decisions,
    front,
    paced,
    policies,
    published,
    simulator,
    sweep,
    twin,
    viewers,
)
from benchmarks.figures import main_of_all

BENCHMARKS = {
    "decisions": decisions.measure,
    "simulator": simulator.measure,
    "sweep": sweep.measure,
    "front": front.measure,
    "viewers": viewers.measure,
    "paced": paced.measure,
    "published": published.measure,
    "policies": policies.measure,
    "twin": twin.measure,
}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
