"""What an environment that remembers takes from intervals: a state it keeps for several blocks.

Pairing takes out what both sides of a block share, also when it lasts. What one environment alone
keeps from block to block (a warm cache, a placement of its pages) stays in its log-ratios, and
makes their mean vary more than independent ones would.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike

from ullage.stats import Floats
from ullage.stats.interval import sample, t_quantile

LEAST = 12
"""Under so many values memory cannot be told from chance, and nothing is widened."""
CORRECTED_FOR = 0.75
"""Lag-one correlation of the memory whose bias is taken out."""
CORRECTED_FOR_THEN = 0.6
"""The same under rules 2."""
_LEVEL = 0.975
_MOST = 4096
"""More values are first averaged in stretches: only slow changes are looked at."""


@dataclass(frozen=True, slots=True)
class Course:
    """How the values of one comparison go on from block to block."""

    n: int
    neighbours: float
    """Lag-one correlation, without the bias −1/n of independent values."""
    variance: float
    """Of the mean, as a multiple of what it is of independent values."""


def course(values: ArrayLike, corrected_for: float = CORRECTED_FOR) -> Course | None:
    """Of log-ratios in the order of time; None under `LEAST`, or where all are equal.

    The long-run variance of a mean comes from the ν slowest cosines of its values (Müller 2004;
    Lazarus, Lewis, Stock & Watson 2018, J. Bus. Econ. Stat. 36:541), relative to their variance.
    Cosines see a short memory too small; that bias is taken out as it is for a first-order memory
    of that lag-one correlation.
    """
    x = sample(values, 0)
    if x.size < LEAST or float(np.ptp(x)) == 0:
        return None
    d = x - x.mean()
    squares = float(d @ d)
    slow = _stretched(d)
    n, number = slow.size, _cosines(slow.size)
    spectrum = _basis(n, number) @ slow
    # Of stretches of k values the variance of the sum is k² times that of their means.
    long_run = float(spectrum @ spectrum) / number * (x.size / n)
    return Course(
        n=x.size,
        neighbours=float(d[1:] @ d[:-1]) / squares + 1 / x.size,
        variance=1 + _bias(n, number, corrected_for) * (long_run * (x.size - 1) / squares - 1),
    )


class Courses:
    """Of the comparisons of several environments, one for each workload.

    Metrics of one workload are of the same trials: that which shows most counts, and once.
    """

    def __init__(self) -> None:
        self._courses: dict[str, dict[str, Course]] = {}

    def add(self, environment: str, workload: str, course: Course | None) -> None:
        """One more; None tells nothing."""
        of_environment = self._courses.setdefault(environment, {})
        if course is None:
            return
        known = of_environment.get(workload)
        if known is None or course.variance > known.variance:
            of_environment[workload] = course

    def factors(self) -> dict[str, float]:
        """Environment → its widening."""
        return {environment: widening(of.values()) for environment, of in self._courses.items()}


def widening(courses: Iterable[Course | None]) -> float:
    """Factor, at least 1, on the standard errors of one environment's means.

    Averaged over its comparisons, for what an environment keeps it keeps whatever runs in it. The
    factor's own uncertainty is in it: t has ν degrees of freedom for each comparison. Without any
    sign of memory (a mean correlation of neighbours of 0 or less) it is 1: half of all environments
    that have none keep the plain interval. `tests/stats/test_memory.py` has what it covers.
    """
    usable = [c for c in courses if c is not None]
    if not usable or fmean(c.neighbours for c in usable) <= 0:
        return 1.0
    degrees = sum(_cosines(min(c.n, _MOST)) for c in usable)
    fewest = min(c.n for c in usable)
    unsure = max(1.0, t_quantile(_LEVEL, degrees) / t_quantile(_LEVEL, fewest - 1))
    return max(1.0, unsure * math.sqrt(max(0.0, fmean(c.variance for c in usable))))


def _stretched(d: Floats) -> Floats:
    if d.size <= _MOST:
        return d
    length = d.size // _MOST
    means = d[: length * _MOST].reshape(_MOST, length).mean(axis=1)
    centred: Floats = means - means.mean()
    return centred


def _cosines(n: int) -> int:
    """ν: as many as leave their bias and their scatter about equal, growing as n^(2/3)."""
    return max(4, round(0.6 * math.pow(n, 2 / 3)))


@lru_cache(maxsize=64)
def _basis(n: int, number: int) -> Floats:
    """Orthonormal cosines of 1 to `number` half periods, one a row."""
    order = np.arange(1, number + 1)[:, None]
    rows: Floats = math.sqrt(2 / n) * np.cos(np.pi * order * (np.arange(n) + 0.5) / n)
    return rows


@lru_cache(maxsize=64)
def _bias(n: int, number: int, phi: float) -> float:
    """True excess of the mean's variance over what the cosines see, for a first-order memory."""
    angle = np.pi * np.arange(1, number + 1) / n
    seen = float(np.mean((1 - phi * phi) / (1 + phi * phi - 2 * phi * np.cos(angle))))
    lag = np.arange(1, n)
    true = 1 + 2 * float(np.sum((1 - lag / n) * phi**lag))
    return (true - 1) / (seen - 1)
