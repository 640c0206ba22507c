from __future__ import annotations

import math

import numpy as np
import pytest

from testing.synthetic import CURVE_WORKLOAD, WORKLOADS
from tests.support.pairskit import log_ratios_so_far
from ullage.runs.events import Reason, Trial
from ullage.runs.pairs import Cells, pair
from ullage.runs.records import Curve, Metric, Scalar

RATE = Metric(name="rate", unit="1/s", better="higher", description="", primary=True)
TIME = Metric(name="time", unit="s", better="lower", description="")
CURVE = CURVE_WORKLOAD.metrics[0]


def _trial(block: int, environment: str, metrics: dict[str, Scalar | Curve] | None) -> Trial:
    return Trial(
        trial=f"b{block:03d}-{environment}",
        block=block,
        order=0,
        position=0,
        environment=environment,
        workload="w",
        status="failed" if metrics is None else "ok",
        reason=Reason(code="exit-status", message="") if metrics is None else None,
        epoch_ns=block,
        start_ns=block,
        end_ns=block + 1,
        metrics=metrics or {},
    )


def _cells(
    vm: list[dict[str, Scalar | Curve] | None], native: list[dict[str, Scalar | Curve] | None]
) -> Cells:
    trials = [_trial(i, "vm", m) for i, m in enumerate(vm)]
    return Cells(trials + [_trial(i, "native", m) for i, m in enumerate(native)])


@pytest.mark.parametrize(("metric", "ratio"), [(RATE, 2.0), (TIME, 0.5)])
def test_above_one_is_worse(metric: Metric, ratio: float) -> None:
    cells = _cells([{metric.name: 10.0}], [{metric.name: 20.0}])
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), metric)
    assert paired.log_ratios == pytest.approx([math.log(ratio)])


def test_a_failed_trial_drops_its_pair_and_is_counted() -> None:
    cells = _cells(
        [{"rate": 1.0}, None, {"rate": 1.0}, {"other": 1.0}],
        [{"rate": 1.0}, {"rate": 1.0}, None, {"rate": 1.0}],
    )
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), RATE)
    assert [p.block for p in paired.pairs] == [0]
    assert (paired.failed, paired.missing, paired.blocks, paired.dropped) == (2, 1, 4, 3)


def test_a_block_that_is_not_done_is_no_failure() -> None:
    cells = _cells([{"rate": 1.0}, {"rate": 1.0}], [{"rate": 1.0}])
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), RATE)
    assert (len(paired.pairs), paired.dropped) == (1, 0)


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_one_figure_of_nothing_forbids_the_ratio(bad: float) -> None:
    """Dropping only the zeros would select: three retransmits against two, never none."""
    cells = _cells([{"rate": 1.0}, {"rate": bad}], [{"rate": 1.0}, {"rate": 1.0}])
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), RATE)
    assert (paired.pairs, paired.no_ratio, paired.dropped) == ((), 1, 2)


def test_a_curve_is_one_number_by_its_geometric_mean() -> None:
    cells = _cells(
        [{"throughput": [(1.0, 5.0), (2.0, 20.0)]}], [{"throughput": [(1.0, 10.0), (2.0, 20.0)]}]
    )
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), CURVE)
    assert paired.coordinates == (1.0, 2.0)
    assert paired.pairs[0].along == pytest.approx((math.log(2), 0.0))
    assert paired.log_ratios == pytest.approx([math.log(2) / 2])


def _curves(*points: dict[float, float]) -> list[dict[str, Scalar | Curve] | None]:
    return [{"throughput": sorted(curve.items())} for curve in points]


def test_a_hole_costs_only_its_own_point() -> None:
    """Of 7 trials one lacks size 2: there it is compared over six pairs, elsewhere over seven."""
    whole = {1.0: 10.0, 2.0: 40.0}
    cells = _cells(_curves({1.0: 5.0}, *[{1.0: 5.0, 2.0: 20.0}] * 6), _curves(*[whole] * 7))
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), CURVE)
    assert (paired.coordinates, paired.thin, paired.holes) == ((1.0, 2.0), (), 1)
    assert [math.isnan(p.along[1]) for p in paired.pairs] == [True] + [False] * 6
    assert paired.log_ratios == pytest.approx([math.log(2)] * 7)


def test_a_coordinate_with_few_pairs_is_left_out_and_named() -> None:
    mine = _curves(*[{1.0: 5.0, 2.0: 1.0}] * 5, *[{1.0: 5.0}] * 3)
    theirs = _curves(*[{1.0: 10.0, 2.0: 40.0, 4.0: 1.0}] * 8)
    cells = _cells(mine, theirs)
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), CURVE)
    assert (paired.coordinates, paired.thin) == ((1.0,), ((2.0, 5), (4.0, 0)))
    assert paired.log_ratios == pytest.approx([math.log(2)] * 8)


def test_a_coordinate_of_few_makings_is_left_out() -> None:
    """Twelve pairs of it, but all in two of eight makings."""
    cells = _cells(
        _curves(*[{1.0: 5.0, 2.0: 1.0}] * 12, *[{1.0: 5.0}] * 36),
        _curves(*[{1.0: 10.0, 2.0: 40.0}] * 48),
    )
    series = [
        {b: t.model_copy(update={"generation": b // 6}) for b, t in cells.series(key, "w").items()}
        for key in ("vm", "native")
    ]
    paired = pair(series[0], series[1], CURVE)
    assert (paired.coordinates, paired.thin) == ((1.0,), ((2.0, 2),))


def test_the_mean_of_curves_with_holes_does_not_take_size_for_speed() -> None:
    """Slow at size 2 only; the blocks that lack it are no faster for that."""
    mine = _curves(*[{1.0: 10.0, 2.0: 10.0}] * 6, *[{1.0: 10.0}] * 6)
    cells = _cells(mine, _curves(*[{1.0: 10.0, 2.0: 40.0}] * 12))
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), CURVE)
    assert paired.log_ratios == pytest.approx([math.log(2)] * 12)


def test_what_stands_for_a_curve_is_the_jackknifes_pseudo_value() -> None:
    rng = np.random.default_rng(1)
    x = np.where(rng.random((9, 4)) < 0.3, np.nan, rng.normal(size=(9, 4)))
    x[:3] = rng.normal(size=(3, 4))
    mine = [{float(k): math.exp(-v) for k, v in enumerate(row) if v == v} for row in x]
    cells = _cells(_curves(*mine), _curves(*[dict.fromkeys(map(float, range(4)), 1.0)] * 9))
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), CURVE)
    kept = x[:, [int(c) for c in paired.coordinates]]
    without = [np.nanmean(np.delete(kept, b, axis=0), axis=0).mean() for b in range(9)]
    effect = np.nanmean(kept, axis=0).mean()
    assert paired.holes > 0
    assert paired.log_ratios == pytest.approx([9 * effect - 8 * w for w in without])


def test_curves_without_a_common_point_make_no_pair() -> None:
    cells = _cells([{"throughput": [(1.0, 5.0)]}], [{"throughput": [(2.0, 5.0)]}])
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), CURVE)
    assert (paired.pairs, paired.missing, paired.thin) == ((), 1, ((1.0, 0), (2.0, 0)))


def test_a_number_where_a_curve_was_promised_is_missing() -> None:
    cells = _cells([{"throughput": 5.0}], [{"throughput": [(2.0, 5.0)]}])
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), CURVE)
    assert paired.missing == 1


def test_the_stop_rule_sees_the_primary_metrics_only() -> None:
    trials = [
        _trial(0, "vm", {"rate": 1.0, "time": 1.0}),
        _trial(0, "native", {"rate": 2.0, "time": 1.0}),
    ]
    ratios = log_ratios_so_far(trials, "native", ["vm"], {"w": (RATE, TIME)})
    assert ratios == {"vm/w/rate": pytest.approx([math.log(2)])}
    assert log_ratios_so_far([], "native", ["vm"], {w.key: w.metrics for w in WORKLOADS[:1]}) == {
        "vm/sysbench-cpu/events_rate": []
    }


def _duet(block: int, environment: str, partner: str, rate: float, order: int = 0) -> Trial:
    return _trial(block, environment, {"rate": rate}).model_copy(
        update={"partner": partner, "order": order, "trial": f"b{block}-{environment}-{partner}"}
    )


def test_of_a_duet_only_what_ran_beside_is_paired() -> None:
    trials = [
        _duet(0, "vm", "native", 1.0, 0),
        _duet(0, "native", "vm", 2.0, 1),
        _duet(0, "lxc", "native", 1.0, 2),
        _duet(0, "native", "lxc", 8.0, 3),
        _duet(1, "lxc", "native", 1.0, 0),
        _duet(1, "native", "lxc", 4.0, 1),
    ]
    cells = Cells(trials)
    assert [t.metrics["rate"] for t in cells.series("native", "w", "lxc").values()] == [8.0, 4.0]
    assert set(cells.series("native", "w", "vm")) == {0}
    assert cells.series("native", "w", "nobody") == {}
    assert cells.series("vm", "w", "native") == cells.series("vm", "w")
    first = cells.series("native", "w")
    assert [first[block].partner for block in (0, 1)] == ["vm", "lxc"]
    ratios = log_ratios_so_far(trials, "native", ["vm", "lxc"], {"w": (RATE,)})
    assert ratios["vm/w/rate"] == pytest.approx([math.log(2)])
    assert ratios["lxc/w/rate"] == pytest.approx([math.log(8), math.log(4)])


def test_without_a_duet_a_partner_changes_nothing() -> None:
    cells = _cells([{"rate": 1.0}], [{"rate": 2.0}])
    assert cells.series("native", "w", "vm") == cells.series("native", "w") != {}
    assert cells.series("nobody", "w", "vm") == {}


def test_the_stop_rule_sees_means_of_generations() -> None:
    ratios = [1.0, 4.0, 2.0, 2.0, 8.0]
    trials = [
        trials_of.model_copy(update={"generation": block // 2})
        for block, ratio in enumerate(ratios)
        for trials_of in (
            _trial(block, "vm", {"rate": 1.0}),
            _trial(block, "native", {"rate": ratio}),
        )
    ]
    cells = Cells(trials)
    paired = pair(cells.series("vm", "w"), cells.series("native", "w"), RATE)
    assert paired.generations == [0, 0, 1, 1, 2]
    by_key = log_ratios_so_far(trials, "native", ["vm"], {"w": (RATE,)})
    assert by_key["vm/w/rate"] == pytest.approx([math.log(2), math.log(2), math.log(8)])
    one_generation = log_ratios_so_far(trials[:4], "native", ["vm"], {"w": (RATE,)})
    assert one_generation["vm/w/rate"] == pytest.approx([0.0, math.log(4)]), (
        "one generation: its own values"
    )
