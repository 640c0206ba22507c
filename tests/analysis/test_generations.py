"""Instances made anew: what counts are the makings, in every figure that claims something."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, WORKLOADS, make_run
from ullage.analysis import overhead, sentences
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.report.export import export, lines, rows
from ullage.runs.reader import RunFolder
from ullage.stats.interval import t_interval
from ullage.stats.stop import widening

CPU = WORKLOADS[0]


def _run(path: Path, **more: Any) -> Analysis:
    options = {"blocks": 28, "blocks_each": 4, "between_sd": 0.05, "noise_sd": 0.01, "failures": []}
    return overhead.analyse(RunFolder.open(make_run(path, raw=False, **{**options, **more})))


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return _run(tmp_path_factory.mktemp("nested") / "run")


def _cpu(analysis: Analysis, environment: str = "lxc") -> Comparison:
    return next(
        c
        for c in (*analysis.comparisons, *analysis.again)
        if c.primary and (c.environment, c.workload) == (environment, CPU.key)
    )


def _means(c: Comparison) -> list[float]:
    """Of the log-ratios of each making, computed here."""
    by_making: dict[int, list[float]] = {}
    for point in c.points:
        by_making.setdefault(point.generation, []).append(math.log(point.ratio))
    return [float(np.mean(x)) for x in by_making.values()]


def test_the_interval_rests_on_the_makings(nested: Analysis) -> None:
    assert (nested.generations, nested.blocks_each) == (7, 4)
    for c in (*nested.comparisons, *nested.again):
        if c.interval is None:
            continue
        reference = t_interval(_means(c), 0.95)
        assert (c.interval.low, c.interval.high) == pytest.approx((reference.low, reference.high))
        assert c.interval.n == c.generations == 7
        assert (c.pairs, len(c.points), c.precision) == (28, 28, "intermediate")
        for check in (c.bootstrap, c.robust):
            assert check is not None
            assert check.n == 7


def test_the_floor_and_the_barrels_rest_on_them_too(nested: Analysis) -> None:
    null = _cpu(nested, "native~again")
    reference = t_interval(_means(null), 0.95)
    reach = max(abs(math.log(reference.low)), abs(math.log(reference.high)))
    assert _cpu(nested).floor == pytest.approx(math.exp(reach))
    (barrel,) = [r for r in nested.resources if (r.environment, r.resource) == ("lxc", "cpu")]
    assert (barrel.generations, barrel.pairs, barrel.precision) == (7, 28, "intermediate")


def test_several_figures_of_a_resource_are_averaged_within_the_makings(tmp_path: Path) -> None:
    two = CPU.model_copy(update={"key": "sysbench-cpu[threads=2]"})
    analysis = _run(tmp_path / "run", workloads=[CPU, two])
    barrel = next(r for r in analysis.resources if r.environment == "lxc")
    mine = [c for c in analysis.primary() if c.environment == "lxc"]
    means = np.mean([_means(c) for c in mine], axis=0)
    assert barrel.interval is not None
    assert barrel.interval.high == pytest.approx(t_interval(means, 0.95).high)
    assert (barrel.interval.n, barrel.generations, barrel.pairs) == (7, 7, 28)


def test_more_of_the_same_instances_prove_nothing(tmp_path: Path) -> None:
    """Three makings of ten blocks: thirty pairs, and no verdict."""
    c = _cpu(_run(tmp_path / "run", blocks=30, blocks_each=10))
    assert (c.verdict, c.why, c.pairs) == ("inconclusive", "too-few-blocks", 30)
    assert (c.makings_to_settle, c.blocks_to_settle) == (3, 30)


def test_what_would_settle_it_is_told_in_blocks(nested: Analysis) -> None:
    unsettled = [c for c in nested.primary() if c.blocks_to_settle is not None]
    assert unsettled
    for c in unsettled:
        assert c.makings_to_settle is not None
        assert c.blocks_to_settle == 4 * c.makings_to_settle


def test_looking_is_paid_for_by_the_makings(tmp_path: Path) -> None:
    """The plan has at least 24 blocks, which are six makings of four: so does the engine count."""
    looked = _run(tmp_path / "run", until=0.02, least=24)
    assert looked.stop.widening == widening(6)


def test_one_making_is_a_claim_about_these_instances(tmp_path: Path) -> None:
    analysis = _run(tmp_path / "run", blocks=8, blocks_each=8)
    c = _cpu(analysis)
    assert (c.precision, c.generations, c.pairs) == ("repeatability", 1, 8)
    assert c.interval is not None
    assert c.interval.n == 8
    assert c.makings_to_settle is None
    assert "8 blocks" in sentences.comparison_sentence(analysis, c)


def test_outliers_are_flagged_by_pair_and_left_out_within_the_makings(tmp_path: Path) -> None:
    heavy = _run(tmp_path / "run", tails="heavy", between_sd=0.0, seed=5, blocks=80, blocks_each=8)
    flagged = [c for c in heavy.comparisons if c.without_outliers is not None]
    assert flagged
    for c in flagged:
        without = c.model_copy(update={"points": tuple(p for p in c.points if not p.outlier)})
        assert c.without_outliers is not None
        assert c.without_outliers.high == pytest.approx(t_interval(_means(without), 0.95).high)
        assert c.without_outliers.n == 10


def test_a_curves_band_rests_on_the_makings(tmp_path: Path) -> None:
    analysis = _run(tmp_path / "run", workloads=[CURVE_WORKLOAD])
    c = next(c for c in analysis.primary() if c.environment == "lxc")
    assert c.curve[0].low is not None
    width = math.log(c.curve[0].high / c.curve[0].low) if c.curve[0].high else 0.0
    assert width > 0.05, "four blocks of a making do not narrow what the makings differ by"


def test_medians_rest_on_the_makings(tmp_path: Path) -> None:
    path = tmp_path / "run"
    values = _cpu(_run(path)).environment_values
    makings: dict[int, list[float]] = {}
    for trial in RunFolder.open(path).trials:
        value = trial.metrics.get("events_rate")
        if trial.environment == "lxc" and isinstance(value, float):
            makings.setdefault(trial.generation, []).append(value)
    medians = sorted(float(np.median(x)) for x in makings.values())
    assert values is not None
    assert values.n == 28
    assert values.median == medians[3]
    # Of seven the extremes bound the median at 98.4 %, the next ones at 87.5 %.
    assert (values.median_low, values.median_high) == (medians[0], medians[-1])
    few = _cpu(_run(tmp_path / "few", blocks=20)).environment_values
    assert few is not None
    assert few.median_low is None, "five makings cannot bound a median at 95 %"


def test_repeats_within_an_instance_are_never_counted_as_n(tmp_path: Path) -> None:
    """Makings differ by 5 %, pairs of one by 1 %: the makings' intervals cover, the pairs' do not.

    40 runs of 3 comparisons without an effect. Monte-Carlo error of 120 at 95 %: 2 %.
    """
    right = wrong = total = 0
    for seed in range(40):
        path = tmp_path / str(seed)
        analysis = _run(path, seed=seed, workloads=[CPU], truth={}, between_sd=0.05)
        for c in analysis.primary():
            assert c.interval is not None
            naive = t_interval([math.log(p.ratio) for p in c.points], 0.95)
            right += c.interval.low <= 1 <= c.interval.high
            wrong += not naive.excludes(1.0)
            total += 1
    assert right / total >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / total)
    assert wrong / total < 0.8


def test_the_words_and_the_table_say_it(nested: Analysis) -> None:
    answer = sentences.answer(nested)
    assert all("7 makings of the instances (28 blocks)" in s for s in answer[:3])
    text = "\n".join(lines(nested))
    assert "levels: 7 makings of the instances, anew after every 4 blocks" in text
    assert "covers: intermediate precision: what instances made anew on this host" in text
    row = next(r for r in rows(nested) if r["environment"] == "lxc")
    assert (row["precision"], row["generations"], row["pairs"]) == ("intermediate", 7, 28)
    assert b"7 makings (28 blocks)" in export(nested, "latex")


def test_a_lost_making_is_not_made_up(tmp_path: Path) -> None:
    """All trials of one environment failed in one making: six are left, and said."""
    failures = [(b, "lxc", CPU.key) for b in range(8, 10)]
    analysis = _run(tmp_path / "run", blocks=42, blocks_each=2, failures=failures)
    c = _cpu(analysis)
    assert (c.generations, c.pairs, c.dropped) == (20, 40, 2)
    assert c.interval is not None
    assert c.interval.n == 20
    assert ENVIRONMENTS[3].label in sentences.comparison_sentence(analysis, c)
