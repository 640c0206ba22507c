"""Slow-downs with a known truth: what a run of a profile would have measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ullage.analysis.profiles.model import LinearEstimate, Profile, Survey, Weight
from ullage.analysis.profiles.solution import LogSlowdowns
from ullage.runs.records import Resource
from ullage.stats import Floats

THREE: tuple[Resource, ...] = ("cpu", "memory", "disk")
CROSS = np.array([[4.0, 4.0, 1.0], [1.0, 1.8, 1.0], [1.0, 1.0, 4.0]])
"""Row: what is slowed; column: how much slower the probe of each resource is. A CPU quota slows
copies of memory as much as anything."""


def measured(
    weights: Sequence[float],
    *,
    blocks: int = 6,
    noise: float = 0.0,
    cross: ArrayLike = CROSS,
    resources: Sequence[Resource] = THREE,
    seed: int | np.random.Generator = 0,
) -> LogSlowdowns:
    """noise: standard deviation of the log of one trial; the undisturbed one is shared, as it is
    by all pairs of a block."""
    rng = np.random.default_rng(seed)
    truth = np.asarray(cross, dtype=np.float64)
    size = len(resources)
    times = np.log(1 + (truth - 1) @ np.asarray(weights))
    own = rng.normal(0, noise, (blocks, size)) - rng.normal(0, noise, (blocks, 1))
    probes = rng.normal(0, noise, (blocks, size, size)) - rng.normal(0, noise, (blocks, 1, size))
    command: Floats = times + own
    return LogSlowdowns(tuple(resources), command, np.log(truth) + probes)


def survey(**more: object) -> Survey:
    return Survey.model_validate(
        {
            "argv": ["work"],
            "directory": "/",
            "cpus": 1,
            "seconds": 2.0,
            "first_seconds": 2.1,
            "cpu_seconds": None,
            **more,
        }
    )


def made_profile(
    shares: Mapping[str, float],
    *,
    sd: float | Sequence[float] = 0.02,
    blocks: int = 6,
    **more: object,
) -> Profile:
    """shares: `cpu+memory` → share. sd: of all, or of each."""
    weights = []
    sds = np.broadcast_to(sd, len(shares))
    for (name, value), error in zip(shares.items(), sds, strict=True):
        half = 3 * float(error)
        span = LinearEstimate(
            estimate=value, low=max(0.0, value - half), high=min(1.0, value + half)
        )
        weights.append(
            Weight.model_validate({"resources": name.split("+"), "share": span, "unclipped": span})
        )
    unexplained = 1 - sum(shares.values())
    total = 1 - unexplained
    return Profile.model_validate(
        {
            "survey": survey(),
            "folder": "profiles/x",
            "confidence": 0.95,
            "blocks": blocks,
            "dropped": 0,
            "weights": weights,
            "rest": LinearEstimate(estimate=unexplained, low=unexplained, high=unexplained),
            "total": LinearEstimate(estimate=total, low=total, high=total),
            "normalised": False,
            "covariance": np.diag(sds**2).tolist(),
            **more,
        }
    )
