"""Tables without blocks: two samples, quantiles, p-values from intervals."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.analysis.tablekit import Columns, analysed, noisy, only, separate
from ullage.analysis import sentences
from ullage.analysis.comparison import words
from ullage.analysis.comparison.rounding import count
from ullage.analysis.tables.pairs import by_inversion, halves_repeat
from ullage.stats import quantiles, unpaired
from ullage.stats.interval import IntervalEstimate, moments
from ullage.stats.verdict import p_values

# --- without blocks -------------------------------------------------------------------------------


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize("method", ["welch", "fieller", "delta"])
def test_two_samples(tmp_path: Path, method: str, better: Any) -> None:
    columns, vm, native = separate(30, 40, 1.1)
    way = {
        "welch": unpaired.welch_log,
        "fieller": unpaired.fieller,
        "delta": unpaired.delta_log,
    }[method]
    c = only(analysed(tmp_path, columns, better, method=method))
    expected = way(vm, native, better, 0.95)
    assert c.interval is not None
    assert (c.interval.low, c.interval.estimate, c.interval.high) == pytest.approx(
        (expected.low, expected.estimate, expected.high)
    )
    assert c.pairs == 0
    assert c.verdict == ("inconclusive" if expected.low <= 1 <= expected.high else c.verdict)


def test_welch_has_the_p_value_of_its_test(tmp_path: Path) -> None:
    columns, vm, native = separate(30, 40, 1.1)
    c = only(analysed(tmp_path, columns))
    test = stats.ttest_ind(np.log(vm), np.log(native), equal_var=False)
    assert c.p_difference == pytest.approx(test.pvalue, rel=1e-4)
    assert c.p_difference >= test.pvalue


@given(seed=st.integers(0, 1 << 30), n=st.integers(3, 40), shift=st.floats(-0.1, 0.1))
def test_inverted_intervals_give_the_p_values_of_t(seed: int, n: int, shift: float) -> None:
    x = np.random.default_rng(seed).normal(shift, 0.03, n)
    m = moments(x)

    def at(confidence: float) -> IntervalEstimate:
        half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * m.error
        with np.errstate(over="ignore"):
            low, high = (float(v) for v in np.exp([m.mean - half, m.mean + half]))
        return IntervalEstimate(math.exp(m.mean), low, high, confidence, n, "t")

    inverted, exact = by_inversion(at, 0.02, n), p_values(m, 0.02)
    assert inverted.difference == pytest.approx(max(exact.difference, 1e-12), rel=1e-3)
    # Beyond the margin the two one-sided tests have no level under 1/2 that rejects.
    expected = max(exact.equivalence, 1e-12) if exact.equivalence < 0.5 else 1.0
    assert inverted.equivalence == pytest.approx(expected, rel=1e-3)


def test_zeros_in_costs_without_blocks(tmp_path: Path) -> None:
    columns, _, _ = separate(30, 40, 1.5)
    columns["value"][50] = 0.0
    c = only(analysed(tmp_path, columns))
    assert c.no_verdict == "zero or negative figures in 1 of 70 values"
    assert only(analysed(tmp_path, columns, method="fieller")).verdict == "worse"


def test_a_baseline_whose_mean_is_not_clear_of_zero(tmp_path: Path) -> None:
    columns = {
        "environment": ["native"] * 6 + ["vm"] * 6,
        "value": [0.0, 0.0, 0.0, 0.0, 0.0, 9.0, 1.0, 2.0, 1.5, 1.2, 1.1, 1.0],
    }
    c = only(analysed(tmp_path, columns, method="fieller"))
    assert c.no_verdict is not None
    assert "clear of 0" in c.no_verdict


def test_a_side_with_few_values_is_no_verdict_however_many_the_other_has(tmp_path: Path) -> None:
    columns, _, _ = separate(5, 5000, 2.0)
    c = only(analysed(tmp_path, columns))
    assert (c.verdict, c.why, c.blocks_to_settle) == ("inconclusive", "too-few-blocks", 1)
    few = "5 against 5,000 values are too few, at least 1 more value on each side"
    assert sentences.too_few(c) == few
    single = only(analysed(tmp_path, separate(1, 5000, 2.0)[0]))
    assert (single.interval, single.verdict, single.blocks_to_settle) == (None, "inconclusive", 5)
    none = "1 against 5,000 values are too few, at least 5 more values on each side"
    assert sentences.too_few(single) == none
    (doubt,) = (doubt for doubt in single.doubts if doubt.code == "too-few-blocks")
    assert "block" not in f"{doubt.message} {doubt.advice}"
    paired = {**noisy(4), "block": [0, 1, 2, 3, 4, 5, 6, 7]}
    assert "blocks" in sentences.too_few(only(analysed(tmp_path, paired)))


@pytest.mark.parametrize("number", [3, 12])
def test_a_quantile_that_the_values_cannot_bound_says_how_many_could(
    tmp_path: Path, number: int
) -> None:
    columns, _, _ = separate(number, number, 1.2)
    c = only(analysed(tmp_path, columns, quantile=0.99))
    least = quantiles.least_for(0.99, math.sqrt(0.95))
    assert c.no_verdict is not None
    assert f"at least {least} are needed" in c.no_verdict
    assert words.briefly(c) == f"{number} against {number} values"
    (doubt,) = (doubt for doubt in c.doubts if doubt.code in ("too-few-blocks", "no-ratio"))
    assert f"at least {least} are needed, on each side" in doubt.message
    assert "ratio" not in doubt.message


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        (noisy(12), {"method": "fieller"}, "blocks are paired"),
        (separate(20, 20, 1.1)[0], {"method": "delta", "quantile": 0.5}, "a quantile is compared"),
    ],
)
def test_a_method_that_is_not_used_is_said(
    tmp_path: Path, columns: Columns, options: dict[str, Any], expected: str
) -> None:
    unused = f"`--method {options['method']}` is not used: {expected}"
    assert any(note.startswith(unused) for note in analysed(tmp_path, columns, **options).notes)
    usual = analysed(tmp_path, columns, **{**options, "method": "welch"})
    assert not any("--method" in note for note in usual.notes)


def test_generations_without_blocks(tmp_path: Path) -> None:
    columns, vm, native = separate(32, 40, 1.1)
    columns["generation"] = [f"n{at // 5}" for at in range(40)] + [
        f"v{at // 4}" for at in range(32)
    ]
    c = only(analysed(tmp_path, columns))
    means = [np.exp(np.log(x).reshape(8, -1).mean(axis=1)) for x in (vm, native)]
    expected = unpaired.welch_log(means[0], means[1], "lower", 0.95)
    assert c.interval is not None
    assert (c.interval.low, c.interval.high) == pytest.approx((expected.low, expected.high))
    assert (c.generations, c.precision) == (8, "intermediate")


def test_what_settles_generations_without_blocks_is_makings(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    instances = np.exp(np.append(rng.normal(0, 0.1, 8), rng.normal(0.08, 0.1, 8)))
    columns = {
        "environment": ["native"] * 40 + ["vm"] * 40,
        "generation": [f"g{at // 5}" for at in range(80)],
        "value": np.repeat(instances, 5) * rng.lognormal(0, 0.01, 80),
    }
    c = only(analysed(tmp_path, columns))
    expected = c.makings_to_settle
    assert c.verdict == "inconclusive"
    assert expected is not None
    assert expected > 1
    assert c.blocks_to_settle == 5 * expected, "five values of each making"
    assert words.settles(c) == f"about {count(expected)} more makings on each side may be enough"
    never = c.model_copy(update={"blocks_to_settle": None, "makings_to_settle": None})
    assert words.settles(never) == "no practical number of makings would settle it"
    del columns["generation"]
    rows = only(analysed(tmp_path, {**columns, "value": np.tile(instances, 5)[:80]}))
    assert "making" not in words.settles(rows)


def test_a_quantile(tmp_path: Path) -> None:
    columns, vm, native = separate(3000, 3000, 1.0)
    c = only(analysed(tmp_path, columns, quantile=0.99))
    assert c.interval is not None
    assert c.ratio == pytest.approx(np.quantile(vm, 0.99) / np.quantile(native, 0.99))
    assert c.interval.low < c.interval.estimate < c.interval.high
    assert c.verdict == "worse"
    assert only(analysed(tmp_path, separate(300, 300, 1.0)[0], quantile=0.99)).no_verdict == (
        "300 values cannot bound the 0.99 quantile, at least 435 are needed"
    )


def test_a_quantile_of_several_generations_is_no_verdict(tmp_path: Path) -> None:
    """Six instances that differ by 20 %, a hundred rows of each: rows taken as independent lie."""
    rng = np.random.default_rng(0)
    levels = np.repeat(rng.lognormal(0, 0.2, 12), 100)
    columns = {
        "environment": ["native"] * 600 + ["vm"] * 600,
        "value": levels * rng.lognormal(0, 0.01, 1200),
    }
    assert only(analysed(tmp_path, columns, quantile=0.5)).verdict in ("worse", "better")
    columns["generation"] = [f"g{at // 100}" for at in range(1200)]
    c = only(analysed(tmp_path, columns, quantile=0.5))
    assert (c.verdict, c.interval) == (None, None)
    assert c.no_verdict == "the 0.5 quantile of all rows does not count the generations"
    (doubt,) = c.doubts
    assert doubt.code == "few-generations"
    assert "quantile of each generation" in doubt.advice
    columns["generation"] = columns["environment"]  # one of each
    assert only(analysed(tmp_path, columns, quantile=0.5)).interval is not None


def test_values_that_are_all_equal_are_said_to_be_so(tmp_path: Path) -> None:
    columns = {"environment": ["native"] * 8 + ["vm"] * 8, "value": [10.0] * 8 + [11.0] * 8}
    c = only(analysed(tmp_path, columns))
    assert (c.verdict, c.why) == ("inconclusive", "no-spread")
    assert words.settles(c).startswith("all values of each side are equal")


def test_a_table_that_holds_itself_twice(tmp_path: Path) -> None:
    columns, vm, _ = separate(30, 40, 1.1)
    doubled = {
        "environment": columns["environment"] * 2,
        "value": np.tile(columns["value"], 2),
    }
    assert any("twice" in note for note in analysed(tmp_path, doubled).notes)
    assert not any("twice" in note for note in analysed(tmp_path, columns).notes)
    assert not halves_repeat(np.ones(10))
    assert halves_repeat(np.tile(vm, 2))
