"""What several figures of one trial come to."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.engine import figures
from ullage.runs.records import Coordinate, Metric
from ullage.workloads.base import Figures, InvalidTrialError

RATE = Metric(name="rate", unit="B/s", better="higher", description="", primary=True)
TIME = Metric(name="time", unit="s", better="lower", description="")
SIZE = Coordinate(name="size", unit="B")
CURVE = Metric(name="curve", unit="bit/s", better="higher", description="", coordinate=SIZE)
METRICS = (RATE, TIME, CURVE)
positive = st.floats(1e-6, 1e6)


@given(st.lists(positive, min_size=1, max_size=9), st.lists(positive, min_size=9, max_size=9))
def test_iterations_have_the_mean_of_their_kind(rates: list[float], times: list[float]) -> None:
    iterations: list[Figures] = [{"rate": r, "time": t} for r, t in zip(rates, times, strict=False)]
    means = figures.over_iterations(iterations, METRICS)
    assert means["rate"] == pytest.approx(statistics.harmonic_mean(rates))
    assert means["time"] == pytest.approx(statistics.fmean(times[: len(rates)]))


def test_the_mean_of_rates_is_the_work_over_the_time() -> None:
    """100 bytes at 10 and 100 at 40 B/s take 12.5 s: 16 B/s, not 25."""
    assert figures.over_iterations([{"rate": 10.0}, {"rate": 40.0}], METRICS) == {"rate": 16.0}


def test_instances_work_at_the_same_time_so_that_rates_add_up() -> None:
    assert figures.over_instances([{"rate": 10.0}, {"rate": 40.0}]) == {"rate": 25.0}


def test_a_curve_is_averaged_at_each_coordinate_that_all_have() -> None:
    first, second = [(1.0, 10.0), (2.0, 5.0)], [(4.0, 1.0), (1.0, 40.0)]
    means = figures.over_iterations([{"curve": first}, {"curve": second}], METRICS)
    assert means == {"curve": [(1.0, 16.0)]}


def test_what_one_iteration_lacks_has_no_mean() -> None:
    iterations: list[Figures] = [{"rate": 1.0, "time": 1.0}, {"rate": 1.0}]
    assert figures.over_iterations(iterations, METRICS) == {"rate": 1.0}


@pytest.mark.parametrize(("rates", "mean"), [([0.0, 4.0], 0.0), ([-1.0, 4.0], 1.5)])
def test_rates_that_are_none_have_a_mean_still(rates: list[float], mean: float) -> None:
    assert figures.over_iterations([{"rate": rate} for rate in rates], METRICS) == {"rate": mean}


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_mean_that_is_no_number_is_refused() -> None:
    large = math.ldexp(1.9, 1023)
    with pytest.raises(InvalidTrialError):
        figures.over_iterations([{"time": large}, {"time": large}], METRICS)
