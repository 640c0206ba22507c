"""The best test of a memory: it keeps its level, sees what is plain, and is told of each attack."""

from __future__ import annotations

import numpy as np

from benchmarks.statistics.attacks import limits
from benchmarks.statistics.attacks.regimes import ATTACKS
from benchmarks.statistics.noise import ar1

BY_NAME = {attack.name: attack for attack in ATTACKS}


def test_a_plain_memory_is_seen_and_none_is_not() -> None:
    rng = np.random.default_rng(1)
    covariance = limits.memory_of(BY_NAME["AR 0.8, 30 blocks"])
    assert covariance is not None
    nulls = limits.evidence(rng.standard_normal((4000, 30)), covariance)
    line = np.quantile(nulls, 0.95)
    white = limits.evidence(3 * rng.standard_normal((2000, 30)) + 7, covariance)
    remembering = limits.evidence(ar1(rng, 2000, 30, 0.8, 0.04), covariance)
    assert 0.03 < (white > line).mean() < 0.07, "neither mean nor scale matters"
    assert (remembering > line).mean() > 0.8


def test_every_attack_by_memory_has_its_limit() -> None:
    known = limits.limits(3, 1)
    assert [of.attack for of in known] == [
        name for name in BY_NAME if name.startswith(("AR", "switching"))
    ]
    assert all(len(row) == len(limits.table(known).header) for row in limits.table(known).rows)
    assert limits.memory_of(BY_NAME["unequal spread"]) is None
