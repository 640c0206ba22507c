"""Step curves against a count at every instant."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ullage.experiments.elastic.analysis.curves import NOTHING, StepCurve, share, times

Spans = list[tuple[int, int]]
INSTANT = st.integers(0, 60)
SPANS = st.lists(st.tuples(INSTANT, INSTANT), max_size=12)


def counted(spans: Spans, at: int) -> int:
    return sum(a <= at < b for a, b in spans)


@given(SPANS, INSTANT)
def test_counts_the_spans_that_hold_an_instant(spans: Spans, at: int) -> None:
    curve = StepCurve.counted(spans)
    assert int(curve(at)) == counted(spans, at)
    assert curve(np.array([at, at], dtype=np.int64)).tolist() == [counted(spans, at)] * 2
    assert (np.diff(curve.at) > 0).all()
    assert (np.diff(np.concatenate(([0], curve.value))) != 0).all()


@given(SPANS, INSTANT, st.integers(1, 40))
def test_integral_is_the_sum_over_every_instant(spans: Spans, begin: int, length: int) -> None:
    end = begin + length
    values = [counted(spans, t) for t in range(begin, end)]
    curve = StepCurve.counted(spans)
    assert curve.integral(begin, end) == sum(values)
    assert curve.most(begin, end) == max(values)


@given(SPANS, SPANS, INSTANT, st.integers(1, 40))
def test_times_are_those_of_every_combination(
    spans: Spans, other: Spans, begin: int, length: int
) -> None:
    end = begin + length
    parts = times(begin, end, StepCurve.counted(spans), StepCurve.counted(other))
    assert sum(ns for ns, _ in parts) == length
    assert len({values for _, values in parts}) == len(parts)
    for ns, values in parts:
        same = [t for t in range(begin, end) if (counted(spans, t), counted(other, t)) == values]
        assert ns == len(same)


@given(SPANS, st.integers(1, 5), INSTANT)
def test_bins_are_rounded_up(spans: Spans, units: int, at: int) -> None:
    assert int(StepCurve.counted(spans).over(units)(at)) == math.ceil(counted(spans, at) / units)


@given(SPANS, st.integers(0, 30), INSTANT)
def test_delayed_is_the_same_later(spans: Spans, by: int, at: int) -> None:
    assert int(StepCurve.counted(spans).delayed(by)(at)) == counted(spans, at - by)


@given(SPANS, INSTANT, st.integers(1, 40))
def test_corners_tell_the_whole_curve(spans: Spans, begin: int, length: int) -> None:
    end = begin + length
    corners = StepCurve.counted(spans).corners(begin, end)
    assert corners[0][0] == begin
    assert all(begin <= t < end for t, _ in corners)
    for at in range(begin, end):
        assert counted(spans, at) == [value for t, value in corners if t <= at][-1]


def test_large_numbers_stay_exact() -> None:
    thirteen_days = 1 << 50
    curve = StepCurve.counted([(0, thirteen_days - 1)] * 1_000 + [(7, 8)])
    assert curve.integral(0, thirteen_days) == 1_000 * (thirteen_days - 1) + 1


def test_nothing_is_zero_for_ever() -> None:
    assert int(NOTHING(5)) == 0
    assert NOTHING.integral(3, 9) == 0
    assert NOTHING.corners(3, 9) == [(3, 0)]
    assert StepCurve.counted([(4, 4), (9, 2)]).at.size == 0
    assert times(5, 5, NOTHING) == []


def test_share_is_rounded_once() -> None:
    assert share(0, 10, [(1, 0.1)] * 10) == 0.1
