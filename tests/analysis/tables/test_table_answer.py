"""The answer of a table: right on known data, whatever order its rows have."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from testing.synthetic import make_run
from tests.analysis.tablekit import Columns, analysed, codes, logs, noisy, only, paired
from ullage.analysis import overhead
from ullage.analysis.comparison import words
from ullage.analysis.comparison.model import Comparison
from ullage.analysis.tables import answer as tabular
from ullage.analysis.tables import table
from ullage.analysis.tables.request import Criteria, TableRequest
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs import parquet
from ullage.runs.reader import RunFolder

# --- paired by block ------------------------------------------------------------------------------


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_paired_comparison_is_a_t_test_on_log_ratios(tmp_path: Path, better: str) -> None:
    columns = noisy(40, 1.03)
    c = only(analysed(tmp_path, columns, better))
    x = logs(columns) * (1 if better == "lower" else -1)
    test = stats.ttest_1samp(x, 0.0)
    low, high = test.confidence_interval(0.95)
    assert c.interval is not None
    assert c.ratio == pytest.approx(math.exp(x.mean()))
    assert (c.interval.low, c.interval.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert c.p_difference == pytest.approx(test.pvalue)
    assert (c.pairs, c.dropped, c.interval.n, c.precision) == (40, 0, 40, "repeatability")
    assert c.bootstrap is not None
    assert c.robust is not None
    assert c.environment_values is not None
    assert c.environment_values.median == pytest.approx(np.median(columns["value"][40:]))
    assert c.environment_values.q3 == pytest.approx(np.quantile(columns["value"][40:], 0.75))
    assert c.environment_values.p95 == pytest.approx(np.quantile(columns["value"][40:], 0.95))


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.2, "worse"), (0.8, "better"), (1.0005, "equivalent")]
)
def test_verdicts(tmp_path: Path, ratio: float, verdict: str) -> None:
    assert only(analysed(tmp_path, noisy(60, ratio, 0.01))).verdict == verdict
    few = only(analysed(tmp_path, noisy(5, ratio, 0.01)))
    assert (few.verdict, few.why, few.blocks_to_settle) == ("inconclusive", "too-few-blocks", 1)
    assert "too-few-blocks" in codes(few)


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("better", ["lower", "higher"])
def test_totals_and_tail_stand_beside_the_ratio(tmp_path: Path, better: str, blocks: bool) -> None:
    """One in ten takes five times as long: 1.4 times is paid, and the p95 is five times."""
    columns = noisy(200, 1.0, 0.01)
    times = np.array(columns["value"])
    times[200::10] *= 5
    columns["value"] = (times if better == "lower" else 1 / times).tolist()
    columns |= {"unit": ["s" if better == "lower" else "1/s"] * 400}
    if not blocks:
        del columns["block"]
    c = only(analysed(tmp_path, columns, better))
    assert c.ratio == pytest.approx(5**0.1, rel=0.05)
    assert c.totals is not None
    assert c.totals.estimate == pytest.approx(times[200:].sum() / times[:200].sum())
    assert c.totals.low < 1.4 < c.totals.high
    assert c.tail is not None
    assert c.tail.quantile == 0.95
    assert c.tail.ratio.estimate > 2
    assert "totals-disagree" in codes(c)


def test_a_ratio_of_means_needs_no_other(tmp_path: Path) -> None:
    columns = noisy(20)
    del columns["block"]
    c = only(analysed(tmp_path, columns, method="fieller"))
    assert (c.totals, c.tail) == (None, None)


@given(seed=st.integers(0, 1 << 30), shuffled=st.booleans())
def test_the_order_of_the_rows_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, seed: int, shuffled: bool
) -> None:
    folder = tmp_path_factory.mktemp("order")
    columns = noisy(12, 1.1, seed=seed)
    expected = analysed(folder, columns).analysis
    rng = np.random.default_rng(seed)
    order = rng.permutation(24) if shuffled else np.argsort(columns["block"], kind="stable")
    turned = {key: [values[at] for at in order] for key, values in columns.items()}
    analysis = analysed(folder, turned).analysis
    ours, theirs = only_of(analysis), only_of(expected)
    assert ours.model_dump() == theirs.model_dump()


def only_of(analysis: Any) -> Comparison:
    return analysis.comparisons[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("blocks_each", [None, 3])
def test_a_run_reads_the_same_from_its_samples(tmp_path: Path, blocks_each: int | None) -> None:
    run_folder = make_run(
        tmp_path, blocks=24, failures=(), blocks_each=blocks_each, between_sd=0.02
    )
    folder = RunFolder.open(run_folder)
    expected = overhead.analyse(folder)
    parquet.write(folder)
    sheet = table.read(folder.path / "samples.parquet")
    analysis = tabular.analyse(sheet, TableRequest("native", Criteria(0.02, 0.95))).analysis
    by_key = {(c.environment_label, c.workload, c.metric): c for c in analysis.comparisons}
    compared = 0
    for c in expected.comparisons:
        if c.interval is None or c.coordinate is not None or not c.primary:
            continue
        same = by_key[c.environment_label, c.workload, c.metric]
        assert same.interval is not None
        assert same.interval.model_dump() == pytest.approx(c.interval.model_dump())
        assert (same.floor, same.p_difference) == pytest.approx((c.floor, c.p_difference))
        assert same.totals is not None
        assert c.totals is not None
        assert same.totals.estimate == pytest.approx(c.totals.estimate)
        # A memory stretches the whole interval here, and only its error there.
        bounds = [(i.low, i.high) for i in (same.totals, c.totals)]
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-9 if c.memory == 1 else 0.01)
        assert (same.generations, same.precision) == (c.generations, c.precision)
        assert (same.pairs, same.dropped, same.emulated) == (c.pairs, c.dropped, c.emulated)
        compared += 1
    assert compared >= 4
    assert analysis.again_total == expected.again_total > 0


def test_missing_figures_and_blocks_drop_their_pairs_and_are_counted(tmp_path: Path) -> None:
    columns = noisy(30, 1.1)
    full = columns["value"].copy()
    columns["value"][4] = None
    lone = 30 + 7
    for column in columns.values():
        del column[lone]
    c = only(analysed(tmp_path, columns))
    keep = [at for at in range(30) if at not in (4, 7)]
    x = np.log(np.array(full)[30:][keep]) - np.log(np.array(full)[:30][keep])
    assert c.ratio == pytest.approx(math.exp(x.mean()))
    assert (c.pairs, c.dropped) == (28, 2)
    assert c.baseline_cell.without_figures == 1
    assert {"some-failures", "metric-missing"} <= codes(c)
    assert c.verdict == "worse"


def test_too_many_missing_figures_are_no_verdict(tmp_path: Path) -> None:
    columns = noisy(30, 1.5)
    columns["value"][30:34] = [None] * 4
    c = only(analysed(tmp_path, columns))
    assert c.verdict is None
    assert c.no_verdict == "too many missing figures: 4 of 30 in vm"
    assert "too-many-failures" in codes(c)


@pytest.mark.parametrize("figure", [0.0, -1.0])
def test_zero_and_negative_figures_have_no_ratio(tmp_path: Path, figure: float) -> None:
    columns = noisy(10)
    columns["value"][3] = figure
    c = only(analysed(tmp_path, columns))
    assert (c.ratio, c.interval, c.verdict, c.pairs) == (None, None, None, 0)
    assert c.no_verdict == "zero or negative figures in 1 of 10 pairs"
    assert "no-ratio" in codes(c)


def test_one_block(tmp_path: Path) -> None:
    c = only(analysed(tmp_path, paired([1.0], [1.2])))
    assert c.ratio == pytest.approx(1.2)
    assert (c.interval, c.verdict, c.blocks_to_settle) == (None, "inconclusive", 5)


def test_no_block_in_common(tmp_path: Path) -> None:
    columns = paired([1.0, 1.1], [1.2, 1.3])
    columns["block"] = [0, 1, 2, 3]
    c = only(analysed(tmp_path, columns))
    assert (c.pairs, c.dropped, c.ratio, c.verdict) == (0, 4, None, None)
    assert c.no_verdict is not None
    assert c.no_verdict.startswith("4 of 4 blocks have rows of one side only")


@pytest.mark.parametrize(("lone", "verdict"), [(3, "worse"), (4, None)])
def test_blocks_of_one_side_only_have_the_limit_of_a_run(
    tmp_path: Path, lone: int, verdict: str | None
) -> None:
    columns = noisy(30, 1.5)
    for column in columns.values():
        del column[60 - lone :]
    c = only(analysed(tmp_path, columns))
    assert (c.verdict, c.pairs) == (verdict, 30 - lone)
    (advice,) = (doubt.advice for doubt in c.doubts if doubt.code == "metric-missing")
    assert ("the same `block` on both sides" in advice) is (verdict is None)
    if verdict is None:
        assert c.p_difference_adjusted is None
        assert c.no_verdict == (
            "4 of 30 blocks have rows of one side only, and a block number must mean the same "
            "block on both sides"
        )


def test_block_numbers_that_begin_anew_on_one_side_are_no_verdict(tmp_path: Path) -> None:
    columns = noisy(24, 1.5)
    columns["generation"] = [f"g{at // 4}" for at in range(24)] * 2
    assert only(analysed(tmp_path, columns)).verdict == "worse"
    columns["block"][:24] = [at % 4 for at in range(24)]
    c = only(analysed(tmp_path, columns))
    assert c.verdict is None
    assert c.no_verdict is not None
    assert c.no_verdict.startswith("40 of 44 blocks have rows of one side only")
    assert "too-few-blocks" not in codes(c)


def test_no_spread(tmp_path: Path) -> None:
    c = only(analysed(tmp_path, paired([1.0, 2.0] * 5, [1.25, 2.5] * 5)))
    assert c.interval is not None
    assert (c.interval.low, c.interval.high) == pytest.approx((1.25, 1.25))
    assert (c.verdict, c.why) == ("inconclusive", "no-spread")
    assert words.settles(c) == "all pairs are equal: the figures are too coarse to tell, or exact"
    assert "no-spread" in codes(c)


def test_drift_dependence_and_outliers_are_doubts(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    native = rng.lognormal(0, 0.01, 60)
    slope = native * np.exp(np.linspace(0, 0.2, 60) + rng.normal(0, 0.01, 60))
    doubts = codes(only(analysed(tmp_path, paired(native.tolist(), slope.tolist()))))
    assert {"drift", "autocorrelated"} <= doubts
    quiet = noisy(60)
    assert not {"drift", "autocorrelated", "outliers"} & codes(only(analysed(tmp_path, quiet)))
    quiet["value"][60 + 17] *= 1000
    c = only(analysed(tmp_path, quiet))
    assert "outliers" in codes(c)
    assert "block 17" in next(d.message for d in c.doubts if d.code == "outliers")
    assert c.without_outliers is not None
    assert c.without_outliers.n == 59


def test_a_million_blocks(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 1_000_000
    columns = {
        "environment": pa.array(["native", "vm"]).take(pa.array(np.tile([0, 1], n))),
        "block": np.repeat(np.arange(n), 2),
        "value": rng.lognormal(0, 0.05, 2 * n) * np.tile([1.0, 1.001], n),
    }
    c = only(analysed(tmp_path, columns))
    assert c.interval is not None
    assert c.interval.n == n
    assert c.interval.low <= 1.001 <= c.interval.high
    assert c.verdict == "equivalent"
    assert "drift" not in codes(c)


# --- the whole table ------------------------------------------------------------------------------


def test_a_family_is_corrected_together(tmp_path: Path) -> None:
    columns: Columns = {"environment": [], "workload": [], "block": [], "value": []}
    for at in range(20):
        noise = noisy(15, 1.03, seed=at)
        columns["workload"] += [f"w{at}"] * 30
        for key, values in noise.items():
            columns[key] += values
    answer = analysed(tmp_path, columns)
    raw = np.array([c.p_difference for c in answer.analysis.comparisons])
    adjusted = np.array([c.p_difference_adjusted for c in answer.analysis.comparisons])
    assert answer.analysis.family == 20
    assert min(adjusted) == pytest.approx(20 * min(raw))
    rates = analysed(tmp_path, columns, correction="benjamini-hochberg").analysis.comparisons
    assert [c.p_difference_adjusted for c in rates] == pytest.approx(
        stats.false_discovery_control(raw)
    )


@pytest.mark.parametrize("again", [{"copy": "native"}, {"native": "copy"}])
def test_an_again_makes_the_floor(tmp_path: Path, again: dict[str, str]) -> None:
    columns = noisy(20, 1.02, 0.02)
    rng = np.random.default_rng(9)
    copy = np.array(columns["value"][:20]) * rng.lognormal(0.05, 0.02, 20)
    columns["environment"] += ["copy"] * 20
    columns["block"] += list(range(20))
    columns["value"] += copy.tolist()
    answer = analysed(tmp_path, columns, again=again)
    (null,) = answer.analysis.again
    c = only(answer)
    assert null.interval is not None
    assert c.floor == pytest.approx(max(null.interval.high, 1 / null.interval.low))
    assert (c.verdict, c.floor_biased) == ("inconclusive", True)
    assert "again-differs" in codes(c)
    assert answer.analysis.doubts == ()
    without = analysed(tmp_path, columns)
    assert [doubt.code for doubt in without.analysis.doubts] == ["no-again"]
    assert len(without.analysis.comparisons) == 2


def test_what_the_baseline_did_not_do_is_said(tmp_path: Path) -> None:
    columns = noisy(10)
    columns["workload"] = ["a"] * 20
    for name, value in (("workload", "b"), ("environment", "vm"), ("block", 0), ("value", 1.0)):
        columns[name].append(value)
    answer = analysed(tmp_path, columns)
    assert only(answer).workload == "a"
    assert any("1 cells are not compared" in note for note in answer.notes)
    columns["workload"] = ["a"] * 10 + ["b"] * 11
    with pytest.raises(UllageError) as caught:
        analysed(tmp_path, columns)
    assert caught.value.kind is errors.TABLE_NO_ROWS


def test_a_baseline_that_is_not_there(tmp_path: Path) -> None:
    for request_fields in ({"baseline": "nativ"}, {"again": {"copy": "native"}}):
        with pytest.raises(UllageError) as caught:
            analysed(tmp_path, noisy(5), **request_fields)
        assert caught.value.kind is errors.TABLE_NO_ENVIRONMENT


def test_absolute_values_are_in_si_units(tmp_path: Path) -> None:
    columns = noisy(10)
    c = only(analysed(tmp_path, {**columns, "unit": ["ms"] * 20}))
    assert c.unit == "s"
    assert c.baseline_values is not None
    assert c.baseline_values.mean == pytest.approx(np.mean(columns["value"][:10]) / 1000)
