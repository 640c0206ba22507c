from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ullage.stats.walsh import ALL, order_statistics

Floats = NDArray[np.float64]
SHAPES = ("normal", "skewed", "wild", "two-humped", "rounded", "coarse", "two values", "one value")


def _series(shape: str, n: int, rng: np.random.Generator) -> Floats:
    x = rng.normal(size=n)
    series_by_name: dict[str, Floats] = {
        "normal": x,
        "skewed": np.exp(x),
        "wild": np.append(rng.standard_cauchy(n - 1), 1e12),
        "two-humped": 0.01 * x + rng.integers(0, 2, n),
        "rounded": np.round(x, 2),
        "coarse": np.log(np.round(10 + x)),
        "two values": rng.integers(0, 2, n).astype(float),
        "one value": np.full(n, 0.1),
    }
    return np.sort(series_by_name[shape])


def _all(x: Floats) -> Floats:
    """Every average, the slow way."""
    return np.sort(np.array([(a + b) / 2 for i, a in enumerate(x) for b in x[i:]]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 2, ALL, ALL + 1, 700])
def test_they_are_those_of_all_averages(shape: str, n: int) -> None:
    """On both sides of the switch, at both ends, in the middle, and at random."""
    rng = np.random.default_rng(n)
    x = _series(shape, n, rng)
    reference = _all(x)
    ranks = [1, reference.size, (reference.size + 1) // 2, reference.size // 2 + 1]
    ranks += [int(rank) for rank in rng.integers(1, reference.size + 1, 20)]
    statistic = order_statistics(x, ranks)
    assert statistic == pytest.approx([reference[rank - 1] for rank in ranks], rel=1e-15, abs=1e-15)


@given(st.lists(st.integers(-8, 8), min_size=ALL + 1, max_size=ALL + 40), st.data())
@settings(deadline=None, max_examples=40)
def test_ties_of_any_kind(x: list[int], data: st.DataObject) -> None:
    reference = _all(np.sort(np.array(x, dtype=float)))
    rank = data.draw(st.integers(1, reference.size))
    assert order_statistics(np.sort(np.array(x, dtype=float)), [rank]) == [reference[rank - 1]]


@pytest.mark.parametrize("shape", SHAPES)
def test_of_many_values_as_many_are_below_as_the_rank_says(shape: str) -> None:
    n = 20_000
    x = _series(shape, n, np.random.default_rng(1))
    total = n * (n + 1) // 2
    for rank in (total // 2, total // 5):
        (statistic,) = order_statistics(x, [rank])
        slack = 1e-12 * (abs(statistic) + 1)
        below, up_to = (_count(x, statistic - slack), _count(x, statistic + slack))
        assert below < rank <= up_to


def _count(x: Floats, at: float) -> int:
    """Averages up to a point, by walking in from both ends."""
    count, last = 0, x.size - 1
    for first in range(x.size):
        while last >= first and x[first] + x[last] > 2 * at:
            last -= 1
        if last < first:
            break
        count += last - first + 1
    return count
