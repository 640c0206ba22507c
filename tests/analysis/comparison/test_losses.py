"""Trials that gave no figure, perhaps because they were slow: bounds, and verdicts that fall."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analysis.tablekit import analysed, codes, only, paired
from ullage.analysis import sentences

NAN = math.nan


def _slowest_missing(seed: int, n: int, share: float = 0.09, sd: float = 0.05) -> Any:
    """Times of two equal environments; of the second the slowest are missing."""
    rng = np.random.default_rng(seed)
    native, vm = np.exp(rng.normal(0, sd, (2, n)))
    vm[vm >= np.quantile(vm, 1 - share)] = NAN
    return paired(native.tolist(), vm.tolist())


def _unblocked(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: column for name, column in columns.items() if name != "block"}


@pytest.mark.parametrize("form", [dict, _unblocked])
def test_the_slowest_missing_make_nobody_better(
    tmp_path: Path, form: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """100 blocks: the interval misses the truth in a quarter of the cases, the bounds do not."""
    comparisons = [
        only(analysed(tmp_path, form(_slowest_missing(seed, 100)))) for seed in range(40)
    ]
    assert sum(c.interval is not None and c.interval.high < 1 for c in comparisons) >= 6
    assert sum(c.verdict == "better" for c in comparisons) <= 2
    assert sum(c.why == "losses" for c in comparisons) >= 4
    bounds = [c.losses for c in comparisons if c.losses is not None]
    assert len(bounds) == 40
    assert sum(b.low <= 1 <= b.high for b in bounds) >= 37
    assert all(b.lost == 9 for b in bounds)


def test_losses_stand_beside_the_verdict(tmp_path: Path) -> None:
    """A difference of a factor of two survives one lost trial of twelve, and says so."""
    columns = _slowest_missing(1, 12, share=0.05)
    columns["value"] = [*columns["value"][:12], *(2 * x for x in columns["value"][12:])]
    answer = analysed(tmp_path, columns)
    c = only(answer)
    assert (c.verdict, c.pairs) == ("worse", 11)
    assert c.losses is not None and c.interval is not None
    assert c.losses.lost == 1
    assert c.losses.low < c.interval.low and c.losses.high > c.interval.high
    (doubt,) = (doubt for doubt in c.doubts if doubt.code == "some-failures")
    assert "Had they been the best or the worst of all, it would be 1." in doubt.message
    assert "(some-failures)" in (sentences.care(answer.analysis) or "")


def test_rows_that_are_not_there_are_lost_too(tmp_path: Path) -> None:
    columns = _slowest_missing(2, 100)
    kept = [at for at, value in enumerate(columns["value"]) if value == value]
    c = only(analysed(tmp_path, {k: [v[at] for at in kept] for k, v in columns.items()}))
    whole = only(analysed(tmp_path, columns))
    assert c.losses == whole.losses
    assert "Had they been" in next(d for d in c.doubts if d.code == "metric-missing").message


def test_equivalence_must_hold_with_the_lost(tmp_path: Path) -> None:
    """Equal to a thousandth but for one pair that is 30 % faster; seven more are lost."""
    ratios = [*np.exp(np.random.default_rng(3).normal(0, 0.001, 99)), 1 / 1.3]
    vm = [*ratios, NAN, NAN, NAN, NAN, NAN, NAN, NAN]
    c = only(analysed(tmp_path, paired([1.0] * len(vm), vm)))
    assert c.interval is not None and c.losses is not None
    assert c.losses.low < 1 / 1.02 < c.interval.low
    assert (c.verdict, c.why, c.blocks_to_settle) == ("inconclusive", "losses", None)


def test_nothing_lost_has_no_bounds(tmp_path: Path) -> None:
    c = only(analysed(tmp_path, paired([1.0, 1.1] * 6, [1.3, 1.35] * 6)))
    assert c.losses is None
    assert not codes(c) & {"some-failures", "metric-missing"}


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_of_values_without_blocks_each_side_takes_its_own_extremes(
    tmp_path: Path, better: str
) -> None:
    native = [1.0, 1.1, 1.2, 1.3, 1.15, 1.25, 1.05, 1.18, 1.22, 1.11, 1.09]
    vm = [2.0, 2.2, 2.1, 2.3, 2.15, 2.25, 2.05, 2.18, 2.22, 2.11, NAN]

    def ratio(last: float) -> float:
        logs = np.log([*vm[:-1], last]).mean() - np.log(native).mean()
        return float(np.exp(logs if better == "lower" else -logs))

    c = only(analysed(tmp_path, _unblocked(paired(native, vm)), better=better))
    assert c.losses is not None
    assert c.losses.lost == 1
    assert c.losses.low < min(ratio(2.0), ratio(2.3)) < max(ratio(2.0), ratio(2.3)) < c.losses.high
    filled = [
        only(analysed(tmp_path, _unblocked(paired(native, [*vm[:-1], x])), better=better))
        for x in (2.0, 2.3)
    ]
    ends = sorted(
        bound for f in filled if f.interval for bound in (f.interval.low, f.interval.high)
    )
    assert (c.losses.low, c.losses.high) == pytest.approx((ends[0], ends[-1]))
