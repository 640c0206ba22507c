"""The formulas of elasticity against sums over every instant, and against cases known by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.experiments.elastic.analysis.curves import NOTHING, StepCurve
from ullage.experiments.elastic.analysis.elasticity import (
    NS,
    Elasticity,
    Span,
    instability,
    measure,
    speed_up,
    standing,
)

LONG = 50
SPANS = st.lists(st.tuples(st.integers(0, LONG), st.integers(0, LONG)), max_size=10)
Spans = list[tuple[int, int]]


def every(spans: Spans) -> list[int]:
    return [sum(a <= t < b for a, b in spans) for t in range(LONG)]


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def sign(x: int) -> int:
    return (x > 0) - (x < 0)


@given(SPANS, SPANS, st.integers(1, LONG - 1))
def test_integrals_are_sums_over_every_instant(demanded: Spans, supplied: Spans, h: int) -> None:
    d, s = every(demanded), every(supplied)
    pairs = list(zip(d, s, strict=True))
    curves = StepCurve.counted(demanded), StepCurve.counted(supplied)
    measured = measure(*curves, Span(0, LONG), h)
    assert measured.accuracy_u == pytest.approx(mean([max(a - b, 0) for a, b in pairs]))
    assert measured.accuracy_o == pytest.approx(mean([max(b - a, 0) for a, b in pairs]))
    assert measured.timeshare_u == pytest.approx(mean([a > b for a, b in pairs]))
    assert measured.timeshare_o == pytest.approx(mean([a < b for a, b in pairs]))
    assert measured.theta_u == pytest.approx(mean([max(a - b, 0) / max(a, 1) for a, b in pairs]))
    assert measured.theta_o == pytest.approx(mean([max(b - a, 0) / max(a, 1) for a, b in pairs]))
    moves = sum(abs(s[t] - s[t - 1]) - abs(d[t] - d[t - 1]) for t in range(1, LONG))
    assert measured.jitter == pytest.approx(moves / (LONG / NS))
    against = [min(abs(sign(s[t] - s[t - h]) - sign(d[t] - d[t - h])), 1) for t in range(h, LONG)]
    assert measured.instability == pytest.approx(mean([float(x) for x in against]))
    theta, tau = (
        (measured.theta_u + measured.theta_o) / 2,
        (measured.timeshare_u + measured.timeshare_o) / 2,
    )
    sigma = (theta**3 + tau**3 + measured.instability**3) ** (1 / 3)
    assert measured.deviation == pytest.approx(sigma)


@given(SPANS, st.integers(1, LONG))
def test_a_supply_that_follows_perfectly_has_no_deviation(spans: Spans, h: int) -> None:
    demand = StepCurve.counted(spans)
    assert measure(demand, demand, Span(0, LONG), h) == Elasticity(0, 0, 0, 0, 0, 0, 0, 0, 0)


def test_by_hand() -> None:
    """Demand 2 for 10 s, then 1 for 10 s; supply comes 4 s late and stays 2."""
    s = int(NS)
    demand = StepCurve.counted([(0, 20 * s), (0, 10 * s)])
    supply = StepCurve.counted([(4 * s, 20 * s), (4 * s, 20 * s)])
    measured = measure(demand, supply, Span(0, 20 * s), 2 * s)
    assert measured.accuracy_u == pytest.approx(8 / 20)
    assert measured.accuracy_o == pytest.approx(10 / 20)
    assert measured.timeshare_u == pytest.approx(4 / 20)
    assert measured.timeshare_o == pytest.approx(10 / 20)
    assert measured.theta_u == pytest.approx(4 / 20)
    assert measured.theta_o == pytest.approx(10 / 20)
    assert measured.jitter == pytest.approx((2 - 1) / 20)
    # Supply moves in [4, 6) as seen over the last 2 s, demand in [10, 12): 4 of 18 s.
    assert measured.instability == pytest.approx(4 / 18)


def test_instability_of_a_window_that_is_too_long_is_none() -> None:
    demand = StepCurve.counted([(0, 10)])
    assert instability(demand, NOTHING, Span(0, 10), 10) == 0.0


def test_speed_up_compares_with_a_constant_supply() -> None:
    demand = StepCurve.counted([(0, 50), (10, 30), (12, 26)])
    over = Span(0, 50)
    still, nodes = standing(demand, over)
    assert nodes == round((50 + 20 + 14) / 50)
    assert standing(StepCurve.counted([(0, 50), (10, 30)]), over)[1] == 1
    assert still.corners(0, 50) == [(0, nodes)]
    scaled = measure(demand, StepCurve.counted([(2, 50), (13, 32), (14, 27)]), over, 5)
    base = measure(demand, still, over, 5)
    ratios = [
        getattr(base, name) / getattr(scaled, name)
        for name in ("theta_u", "theta_o", "timeshare_u", "timeshare_o")
    ]
    assert speed_up(scaled, base) == pytest.approx(math.prod(ratios) ** 0.25)


def test_speed_up_of_nothing_to_compare_is_absent() -> None:
    demand = StepCurve.counted([(0, 50), (10, 30)])
    over = Span(0, 50)
    base = measure(demand, standing(demand, over)[0], over, 5)
    assert speed_up(measure(demand, demand, over, 5), base) is None
    assert speed_up(base, measure(demand, demand, over, 5)) is None


def test_an_empty_demand_has_one_standing_node() -> None:
    assert standing(NOTHING, Span(0, 10))[1] == 1
