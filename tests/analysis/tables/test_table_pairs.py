"""Pairs from a table: several values in a block, and which pairs are independent."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.analysis.tablekit import analysed, codes, nested, noisy, only


def test_several_values_in_a_block_are_averaged_rightly_and_said_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    value = rng.lognormal(0, 0.2, (2, 10, 3))
    columns = {
        "environment": ["native"] * 30 + ["vm"] * 30,
        "block": np.tile(np.repeat(np.arange(10), 3), 2),
        "value": value.reshape(-1),
    }
    for better, mean, word in (
        ("lower", value.mean(axis=2), "arithmetic"),
        ("higher", 1 / (1 / value).mean(axis=2), "harmonic"),
    ):
        answer = analysed(tmp_path, columns, better)
        sign = 1 if better == "lower" else -1
        expected = np.exp(sign * np.log(mean[1] / mean[0]).mean())
        assert only(answer).ratio == pytest.approx(float(expected))
        assert any("in 20 places" in note and word in note for note in answer.notes)


def test_rows_that_stand_there_twice_count_once(tmp_path: Path) -> None:
    columns = noisy(12, 1.1)
    once = only(analysed(tmp_path, columns))
    twice = analysed(tmp_path, {key: values * 2 for key, values in columns.items()})
    assert only(twice).interval == once.interval
    assert any("24 of these values are exact copies" in note for note in twice.notes)


# --- generations ----------------------------------------------------------------------------------


def test_generations_are_what_counts(tmp_path: Path) -> None:
    columns, means = nested()
    c = only(analysed(tmp_path, columns))
    low, high = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert c.interval is not None
    assert (c.interval.low, c.interval.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert (c.generations, c.pairs, c.interval.n, c.precision) == (8, 40, 8, "intermediate")
    few = only(analysed(tmp_path, nested(generations=4)[0]))
    assert few.verdict == "inconclusive"
    assert (few.makings_to_settle, few.blocks_to_settle) == (2, 10)
    assert "few-generations" in codes(few)


def test_blocks_that_begin_anew_in_each_generation(tmp_path: Path) -> None:
    columns, _ = nested()
    expected = only(analysed(tmp_path, columns))
    columns["block"] = [block % 5 for block in columns["block"]]
    comparison = only(analysed(tmp_path, columns))
    assert comparison.interval == expected.interval
    assert comparison.pairs == 40


@pytest.mark.parametrize("single", ["native", "vm"])
def test_one_side_was_made_once(tmp_path: Path, single: str) -> None:
    columns, _ = nested()
    expected = only(analysed(tmp_path, columns))
    columns["generation"] = [
        "the one" if name == single else generation
        for name, generation in zip(columns["environment"], columns["generation"], strict=True)
    ]
    assert only(analysed(tmp_path, columns)).interval == expected.interval


def test_instances_of_their_own_on_each_side(tmp_path: Path) -> None:
    columns, _ = nested()
    expected = only(analysed(tmp_path, columns))
    columns["generation"] = [
        f"{name}-{generation}"
        for name, generation in zip(columns["environment"], columns["generation"], strict=True)
    ]
    assert only(analysed(tmp_path, columns)).interval == expected.interval


def test_each_pair_may_have_a_generation_of_its_own(tmp_path: Path) -> None:
    columns = noisy(12, 1.1)
    expected = only(analysed(tmp_path, columns))
    columns["generation"] = [f"g{block}" for block in columns["block"]]
    c = only(analysed(tmp_path, columns))
    assert (c.generations, c.precision, c.interval) == (12, "intermediate", expected.interval)
    columns["generation"] = ["the only one"] * 24
    c = only(analysed(tmp_path, columns))
    assert (c.generations, c.precision, c.interval) == (1, "repeatability", expected.interval)


def test_generations_that_cannot_be_told_apart(tmp_path: Path) -> None:
    columns, _ = nested()
    shifted = [columns["generation"][(at + 3) % 40] for at in range(40)]
    columns["generation"] = columns["generation"][:40] + shifted
    c = only(analysed(tmp_path, columns))
    assert (c.generations, c.precision) == (1, "repeatability")
    assert "few-generations" in codes(c)
