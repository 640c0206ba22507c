"""Others' rules on numbers that can be followed by hand, and against their own formulas."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from benchmarks.statistics import peers
from benchmarks.statistics.design import Plan
from benchmarks.statistics.noise import SYNTHETIC, Regime
from benchmarks.statistics.peers import DESIGNS, claims, session
from ullage.stats import Floats

BASELINE = np.array([[10.0, 11.0, 12.0, 13.0]])
NEAR = np.array([[12.0, 13.0, 14.0, 15.0]])
FAR = np.array([[14.0, 15.0, 16.0, 17.0]])
RAMP = Regime(
    "ramp", "", lambda _rng, campaigns, n: np.tile(np.log(np.arange(n) + 1.0), (campaigns, 1))
)


def test_student_by_hand() -> None:
    # Means 11.5 and 13.5, each variance 5/3: t = 2 / √(2·5/12) = 2.191 < 2.447 = t(6; 0.975).
    assert list(peers.student(NEAR, BASELINE)) == [0]
    # 4 / 0.9129 = 4.38.
    assert list(peers.student(FAR, BASELINE)) == [1]
    assert list(peers.student(BASELINE, FAR)) == [-1]


def test_welch_by_hand() -> None:
    # Variances 5/3 and 60: error √(5/12 + 15) = 3.926, t = 9/3.926 = 2.292; df by Welch and
    # Satterthwaite 15.4167² / ((5/12)²/3 + 15²/3) = 3.167, critical 3.09. Pooled: 2.447.
    wide = np.array([[10.5, 20.5, 20.5, 30.5]])
    variance = float(wide.var(ddof=1))
    assert variance == pytest.approx(200 / 3)
    t = 9 / np.sqrt(5 / 12 + variance / 4)
    df = (5 / 12 + variance / 4) ** 2 / ((5 / 12) ** 2 / 3 + (variance / 4) ** 2 / 3)
    assert t < float(stats.t.ppf(0.975, df))
    assert list(peers.welch(wide, BASELINE)) == [0]
    assert list(peers.welch(FAR, BASELINE)) == [1]


def test_ranges() -> None:
    assert list(peers.ranges_apart(NEAR, BASELINE)) == [0]
    assert list(peers.ranges_apart(FAR, BASELINE)) == [1]
    assert list(peers.ranges_apart(BASELINE, FAR)) == [-1]


def test_a_fixed_share_of_the_means() -> None:
    # 13.5 / 11.5 = 1.174.
    assert list(peers.means_apart(NEAR, BASELINE, 0.10)) == [1]
    assert list(peers.means_apart(NEAR, BASELINE, 0.18)) == [0]
    assert list(peers.means_apart(BASELINE, NEAR, 0.10)) == [-1]


def test_bars() -> None:
    # Both standard deviations are 1.291: bars end 2.582 apart at least, and the means are 2 or 4.
    assert list(peers.bars_apart(NEAR, BASELINE, 1.0)) == [0]
    assert list(peers.bars_apart(FAR, BASELINE, 1.0)) == [1]
    assert list(peers.bars_apart(FAR, BASELINE, 1.96)) == [0]


def test_rerun_until_steady() -> None:
    times = np.array([[10.0, 12.0, 11.0, 11.0, 11.0], [10.0, 10.0, 10.0, 30.0, 99.0]])
    # Coefficients of variation of the first row: 0.0909 of three, 0.0742 of four, 0.0643 of five.
    kept, used = peers.until_steady(times, 0.075, 3)
    assert list(used) == [4, 3]
    np.testing.assert_array_equal(kept[0], [10, 12, 11, 11, np.nan])
    np.testing.assert_array_equal(kept[1], [10, 10, 10, np.nan, np.nan])
    assert list(peers.until_steady(times, 0.01, 3)[1]) == [5, 3]


def test_sets_until_quiet() -> None:
    times = np.array([[1.0, 9.0, 5.0, 5.1, 7.0, 7.0], [1.0, 9.0, 1.0, 9.0, 1.0, 9.0]])
    kept, used = peers.until_quiet(times, 0.05, 2)
    np.testing.assert_array_equal(kept[0], [5.0, 5.1])
    assert np.isnan(kept[1]).all()
    assert list(used) == [4, 6]
    assert list(peers.welch(kept, kept)) == [0, 0]


def test_one_environment_after_the_other() -> None:
    design = peers.Design("all", "", "", 3, peers.fixed, peers.ranges_apart)
    measured = session(design, RAMP, np.random.default_rng(1), 2, Plan(("a",), ("x", "y")))
    expected = {(0, 0): 1, (0, 1): 4, (1, 0): 7, (1, 1): 10}
    for cell, first in expected.items():
        np.testing.assert_allclose(measured.cells[cell][0], [first, first + 1, first + 2])
    assert list(measured.trials) == [12, 12]
    assert claims(design, measured, [(1, 0, 1.0), (1, 1, 0.1)]).tolist() == [[1, -1]] * 2


def test_a_cell_that_needs_fewer_trials_lets_the_next_begin() -> None:
    def first_only(times: Floats) -> tuple[Floats, NDArray[np.int64]]:
        return times[:, :1], np.ones(len(times), dtype=np.int64)

    design = peers.Design("one", "", "", 3, first_only, peers.welch)
    measured = session(design, RAMP, np.random.default_rng(1), 2, Plan(("a",), ("x", "y")))
    firsts = [float(measured.cells[e, w][0, 0]) for e in (0, 1) for w in (0, 1)]
    np.testing.assert_allclose(firsts, [1, 2, 3, 4])


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_every_design_sees_a_doubling_and_no_unit(design: peers.Design) -> None:
    white = SYNTHETIC[0]
    measured = session(design, white, np.random.default_rng(2), 200, Plan(("a",), ("x",)))
    assert measured.trials.max() <= 2 * design.most
    doubled = claims(design, measured, [(1, 0, 2.0)])[:, 0]
    # Sets whose spread never falls give no result, and so no claim.
    assert np.mean(doubled == 1) > 0.95
    in_minutes = peers.Session({k: v / 60 for k, v in measured.cells.items()}, measured.trials)
    np.testing.assert_array_equal(claims(design, in_minutes, [(1, 0, 2.0)])[:, 0], doubled)


def test_the_interval_of_the_log_ratio_is_welch_s() -> None:
    rng = np.random.default_rng(3)
    one, other = np.exp(rng.standard_normal((2, 1, 8)))
    low, high = peers.log_interval(one, other)
    a, b = np.log(one[0]), np.log(other[0])
    va, vb = a.var(ddof=1) / 8, b.var(ddof=1) / 8
    df = (va + vb) ** 2 / (va**2 / 7 + vb**2 / 7)
    half = float(stats.t.ppf(0.975, df)) * np.sqrt(va + vb)
    np.testing.assert_allclose([low[0], high[0]], a.mean() - b.mean() + np.array([-half, half]))
