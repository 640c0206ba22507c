"""Trials needed: against the noncentral t, and equal false claims on both sides."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import special, stats

from benchmarks.statistics import sample_size
from benchmarks.statistics.noise import SYNTHETIC
from benchmarks.statistics.sample_size import MOST_TRIALS, Row, SampleSize, counts, least_with_power
from ullage.stats import Floats

WHITE = SYNTHETIC[0]


def exact(shift_per_root_n: float, df_of_n: int) -> int:
    """n at which a two-sided 5 % t test with df = df_of_n · (n − 1) has power 0.8."""
    for n in range(2, 500):
        df = df_of_n * (n - 1)
        critical = float(special.stdtrit(df, 0.975))
        if 1 - float(special.nctdtr(df, shift_per_root_n * math.sqrt(n), critical)) >= 0.8:
            return n
    raise AssertionError


def test_both_tests_need_what_the_noncentral_t_says() -> None:
    rng = np.random.default_rng(5)
    null, other = (0.05 * rng.standard_normal((8000, 200)) for _ in range(2))
    effect = math.log(1.05)

    def slower(n: int) -> Floats:
        series = other[:, : 2 * n].copy()
        series[:, n:] += effect
        return series

    of_two = least_with_power(sample_size.sequential, null, slower, range(2, 100))
    assert of_two is not None
    assert abs(of_two - exact(effect / (0.05 * math.sqrt(2)), 2)) <= 1
    of_pairs = least_with_power(
        sample_size.paired, null, lambda n: other[:, :n] + effect, range(2, 100)
    )
    assert of_pairs is not None
    assert abs(of_pairs - exact(effect / 0.05, 1)) <= 1


def test_calibration_makes_a_greedy_statistic_pay() -> None:
    """Ten times t finds no more: its critical value is ten times as high."""
    rng = np.random.default_rng(6)
    null, other = rng.standard_normal((2, 3000, 40))

    def greedy(series: Floats, n: int) -> Floats:
        return 10 * sample_size.paired(series, n)

    counted = [
        least_with_power(statistic, null, lambda n: other[:, :n] + 0.8, range(2, 40))
        for statistic in (sample_size.paired, greedy)
    ]
    assert counted[0] == counted[1]
    assert counted[0] is not None


def test_what_is_never_found_is_not_a_number() -> None:
    null = np.random.default_rng(7).standard_normal((500, 30))
    assert least_with_power(sample_size.paired, null, lambda n: null[:, :n], range(2, 30)) is None


def test_the_table_of_one_regime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_size, "MOST_TRIALS", 300)
    rows = {row.effect: row for row in sample_size.run(WHITE, 300, 1)}
    assert set(rows) == set(sample_size.EFFECTS)
    of = rows[1.05].designs
    pairs, sequential, verdict = (of[name] for name in ("paired t", "sequential t", "verdict"))
    assert pairs.trials is not None
    assert sequential.trials is not None
    assert verdict.trials is not None
    # In white noise pairing gains nothing, and the second copy is a third of our trials.
    assert 1.2 < pairs.trials / sequential.trials < 2.2
    assert verdict.trials >= pairs.trials
    assert verdict.false is not None
    assert verdict.false.at_most(0.05)
    assert all(row.designs["paired t"].trials for row in rows.values())


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (30, 60, (0.5, "")),
        (30, None, (30 / MOST_TRIALS, "below ")),
        (None, 60, (MOST_TRIALS / 60, "above ")),
        (None, None, None),
    ],
)
def test_ratios_and_bounds(
    mine: int | None, theirs: int | None, expected: tuple[float, str] | None
) -> None:
    row = Row(WHITE, 1.05, {"paired t": SampleSize(mine), "sequential t": SampleSize(theirs)})
    assert row.ratio("paired t") == expected


def test_counts_rise_to_the_end() -> None:
    rising = counts(2, 400)
    assert rising[0] == 2
    assert rising[-1] == 400
    assert rising == sorted(set(rising))
    assert all(b <= a * 1.08 + 1 for a, b in pairwise(rising))


def test_the_sequential_statistic_is_welch_s() -> None:
    series = np.random.default_rng(8).standard_normal((20, 12))
    expected = stats.ttest_ind(series[:, 5:10], series[:, :5], axis=1, equal_var=False).statistic
    np.testing.assert_allclose(sample_size.sequential(series, 5), expected, rtol=1e-12)
