"""Curves whose trials lack points: pairs by coordinate, and what may be said of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, make_run
from tests.analysis.doubtkit import doubted, draft
from ullage.analysis import overhead, sentences
from ullage.analysis.comparison import losses
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs.reader import RunFolder
from ullage.stats.interval import t_interval

SIZES = [float(2**k) for k in range(20)]
Points = list[list[float]]


def _analysed(
    tmp_path: Path, curve: Any, *, blocks: int = 12, sd: float = 0.001
) -> tuple[Analysis, Comparison]:
    """curve: (environment, block, points) → its points."""
    path = make_run(
        tmp_path / "run",
        raw=False,
        blocks=blocks,
        failures=[],
        workloads=[CURVE_WORKLOAD],
        environments=ENVIRONMENTS[:3],
    )
    rng = np.random.default_rng(1)
    lines = []
    for line in (path / "journal.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "trial":
            points = [[x, 1e6 * float(np.exp(rng.normal(0, sd)))] for x in SIZES]
            event["metrics"] = {"throughput": curve(event["environment"], event["block"], points)}
        lines.append(json.dumps(event))
    (path / "journal.jsonl").write_text("\n".join(lines) + "\n")
    analysis = overhead.analyse(RunFolder.open(path))
    return analysis, next(c for c in analysis.primary() if c.environment == "container")


def test_a_hole_does_not_hide_where_it_is_worse(tmp_path: Path) -> None:
    """Twice as slow at the three largest of twenty sizes, and one trial of twelve lacks these."""

    def curve(environment: str, block: int, points: Points) -> Points:
        if environment != "container":
            return points
        slow = [*points[:17], *([x, y / 2] for x, y in points[17:])]
        return slow[:17] if block == 7 else slow

    analysis, c = _analysed(tmp_path, curve)
    assert (c.verdict, c.pairs) == ("worse", 12)
    assert c.ratio == pytest.approx(2 ** (3 / 20), rel=1e-3)
    assert [p.pairs for p in c.curve] == [12] * 17 + [11] * 3
    assert c.curve[-1].ratio == pytest.approx(2, rel=1e-2)
    answer = " ".join(sentences.answer(analysis))
    assert "may not hold: container (crun) in" in answer
    assert "curve-ragged" in answer


def test_a_part_that_was_hardly_seen_forbids_equivalence(tmp_path: Path) -> None:
    def curve(environment: str, block: int, points: Points) -> Points:
        return points[:19] if environment == "container" and block >= 5 else points

    analysis, c = _analysed(tmp_path, curve)
    assert (c.verdict, c.why, c.blocks_to_settle) == ("inconclusive", "holes", None)
    assert len(c.curve) == 19
    (ragged,) = (doubt for doubt in c.doubts if doubt.code == "curve-ragged")
    assert ragged.message.startswith(
        "1 of 20 values of message size have too few pairs (524288: 5): they are left out"
    )
    assert "some places of the curve have too few pairs" in " ".join(sentences.answer(analysis))


def test_whole_curves_are_equivalent_as_ever(tmp_path: Path) -> None:
    _, c = _analysed(tmp_path, lambda environment, block, points: points)
    assert c.verdict == "equivalent"
    assert all(doubt.code != "curve-ragged" for doubt in c.doubts)


def test_curves_of_one_point(tmp_path: Path) -> None:
    _, c = _analysed(tmp_path, lambda environment, block, points: points[:1])
    assert (c.verdict, len(c.curve)) == ("equivalent", 1)
    assert c.ratio == pytest.approx(c.curve[0].ratio)


def test_points_that_are_there_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        _analysed(tmp_path, lambda environment, block, points: [*points, points[3]])
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    assert "'throughput' has two points at 8" in caught.value.message


def test_the_interval_of_curves_with_holes_covers() -> None:
    """Many of the larger sizes are missing at random; blocks and sizes have their own levels."""
    rng = np.random.default_rng(5)
    held, campaigns = 0, 300
    for _ in range(campaigns):
        x = rng.normal(0, 0.02, (14, 1)) + np.linspace(0, 0.4, 6) + rng.normal(0, 0.02, (14, 6))
        gone = rng.random((14, 6)) < np.array([0, 0, 0, 0.5, 0.3, 0.1])
        mine = [
            [(float(k), float(np.exp(row[k]))) for k in range(6) if not lost[k]]
            for row, lost in zip(x, gone, strict=True)
        ]
        comparison = draft(mine, [[(float(k), 1.0) for k in range(6)]] * 14)
        truth = np.mean([0.08 * k for k in comparison.paired.coordinates])
        interval = t_interval(comparison.units, 0.95)
        held += interval.low <= np.exp(truth) <= interval.high
    assert 0.925 <= held / campaigns <= 0.98


def test_holes_in_an_otherwise_whole_curve_are_counted() -> None:
    whole = [(1.0, 2.0), (2.0, 3.0)]
    message = doubted(draft([whole] * 7 + [whole[:1]], [whole] * 8))["curve-ragged"].message
    assert message.startswith("1 of 16 points along size are missing; each value is compared over")
    assert "Had they been the best or the worst of all, it would be " in message


def test_holes_are_filled_with_their_places_extremes() -> None:
    """At size 2 between 0.9 and 1.3 times as long: what is missing there may have been either."""
    at_two = [0.9, 1.3, 1.0, 1.1, 1.2, 1.05, 1.15]
    mine = [[(1.0, 1.0), (2.0, 4 * x)] for x in at_two] + [[(1.0, 1.0)]]
    best, worst = losses.fillings(draft(mine, [[(1.0, 1.0), (2.0, 4.0)]] * 8)) or (None, None)
    assert best is not None and worst is not None
    assert best.paired.pairs[-1].along == pytest.approx((0.0, np.log(0.9)))
    assert worst.paired.pairs[-1].log_ratio == pytest.approx(np.log(1.3) / 2)
    assert worst.paired.holes == 0
