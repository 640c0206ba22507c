"""Trials needed, against SciPy's tests and the power that theory gives."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.statistics.injection import designs
from benchmarks.statistics.injection.designs import Design, Tries, paired, sequential, trials_needed
from tests.benchmarks.injection.records import Maker, wandering, white


def test_the_statistics_are_those_of_scipy() -> None:
    x = np.random.default_rng(1).normal(0, 1, 40)
    ours = paired(x, 7, 0.3)
    assert ours.size == 34
    assert ours[5] == pytest.approx(stats.ttest_1samp(x[5:12] + 0.3, 0).statistic)
    theirs = sequential(x, 6, 0.3)
    assert theirs.size == 29
    expected = stats.ttest_ind(x[9:15] + 0.3, x[3:9], equal_var=False).statistic
    assert theirs[3] == pytest.approx(expected)


def test_no_spread_and_no_difference_is_no_evidence() -> None:
    assert list(paired(np.zeros(3), 2, 0.0)) == [0.0, 0.0]
    assert list(paired(np.zeros(3), 2, 0.1)) == [math.inf, math.inf]


@pytest.mark.parametrize("spread", [0.03, 0.05])
def test_white_noise_needs_what_theory_says(spread: float) -> None:
    """Noncentral t at level 5 %, power 0.8: of one sample, and of two with 2n − 2 degrees."""
    rng = np.random.default_rng(2)
    ours = Design(paired, ((0, rng.normal(0, spread, 10_000)),), 1, 3)
    theirs = Design(sequential, ((0, rng.normal(0, spread, 10_000)),), 2, 2)
    n = theory(spread, 1)
    assert Tries.of(short(ours), designs.EFFECT).least() == pytest.approx(n, abs=1)
    m = theory(spread * math.sqrt(2), 2)
    assert Tries.of(short(theirs), designs.EFFECT).least() == pytest.approx(m, abs=1)


def short(design: Design) -> Design:
    """The same noise as many short records, so that the search stays small."""
    ((_, series),) = design.series
    return Design(
        design.statistic, tuple(enumerate(series.reshape(-1, 80))), design.span, design.per_n
    )


def theory(spread: float, samples: int) -> int:
    for n in range(2, 100):
        df = samples * (n - 1)
        shift = math.log(designs.EFFECT) * math.sqrt(n) / spread
        if stats.nct.sf(stats.t.ppf(0.975, df), df, shift) >= designs.POWER:
            return n
    raise AssertionError


def test_where_the_machine_wanders_pairs_need_far_fewer() -> None:
    maker = Maker()
    for number in range(4):
        maker.blocks(f"blocks-{number}", 36, wandering(0.01, 0.01, number))
        maker.sequence(f"cpu-{number}", 4, 36, wandering(0.01, 0.01, 10 + number))
    ours = trials_needed(designs.of_blocks(maker.recording, "cpu"))
    theirs = trials_needed(designs.of_sequences(maker.recording, "cpu"))
    assert ours.trials is not None
    assert ours.low is not None and ours.low <= ours.trials
    assert ours.bound <= 0.5 * theirs.bound
    assert theirs.nominal_rate > 0.2 > ours.nominal_rate


def test_where_it_is_steady_pairs_gain_nothing() -> None:
    maker = Maker()
    for number in range(4):
        maker.blocks(f"blocks-{number}", 36, white(0.03, number))
        maker.sequence(f"cpu-{number}", 4, 36, white(0.03, 10 + number))
    ours = trials_needed(designs.of_blocks(maker.recording, "cpu"))
    theirs = trials_needed(designs.of_sequences(maker.recording, "cpu"))
    assert ours.bound > 0.5 * theirs.bound


def test_the_factors_are_taken_out() -> None:
    maker = Maker()
    maker.blocks("blocks-0", 12, white(0.0, 1))
    maker.sequence("cpu-0", 2, 18, white(0.0, 2))
    for design in (
        designs.of_blocks(maker.recording, "cpu"),
        designs.of_sequences(maker.recording, "cpu"),
    ):
        for _, series in design.series:
            assert np.ptp(series) < 1e-9


def test_too_short_a_record_says_so() -> None:
    with pytest.raises(ValueError, match="too few trials"):
        trials_needed(Design(paired, ((0, np.zeros(5)),), 1, 3))
