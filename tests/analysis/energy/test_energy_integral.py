"""The energy of a window: exact where it can be, and as unsure as it is."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.energy import integrals
from tests.analysis.energykit import S, channel, counter, fault, opened, reading, series_of
from ullage.analysis.energy.integral import Integral, Missing, integrate
from ullage.analysis.energy.series import Stretch, series
from ullage.runs.records import Measurand

WALL = channel()


def _energy(energy: Integral | Missing) -> Integral:
    assert isinstance(energy, Integral), energy
    return energy


@pytest.mark.parametrize("kind", integrals.KINDS)
@pytest.mark.parametrize("make", integrals.CLASSES, ids=lambda make: make.__name__)
def test_the_stated_uncertainty_covers_the_error_and_is_not_much_larger(
    make: integrals.Maker, kind: Measurand
) -> None:
    """The quick form of `benchmarks.energy.integrals`, whose full one asks for 0.95 and 2."""
    study = integrals.study(make, kind, 24, seed=7)
    assert study.covered / study.errors.size >= 0.93
    assert study.width <= 2.5


@given(st.floats(0.1, 500), st.floats(1, 8), st.floats(0.01, 8))
def test_a_steady_power_has_an_exact_energy(watts: float, start: float, length: float) -> None:
    at = [0.0, 0.7, 1.9, 3.1, 4.0, 5.5, 7.2, 9.0, 10.1, 12.0, 13.5, 16.5]
    stretch = Stretch(opened(WALL), tuple(reading(t, wall=watts) for t in at), (), None)
    window = round(start * S), round((start + length) * S)
    energy = _energy(integrate(series(stretch, "wall"), *window))
    seconds = (window[1] - window[0]) / S
    assert energy.joules == pytest.approx(watts * seconds, rel=1e-9)
    assert energy.mean_w == pytest.approx(watts)
    assert energy.window_s == pytest.approx(seconds)
    assert energy.standard < 1e-6 * watts


@given(
    st.lists(st.floats(1, 300), min_size=12, max_size=12),
    st.floats(0.5, 4.9),
    st.floats(5.0, 10.5),
    st.sampled_from(["power", "energy"]),
)
def test_two_windows_side_by_side_make_one(
    values: list[float], start: float, end: float, kind: str
) -> None:
    of = WALL if kind == "power" else counter()
    data = values if kind == "power" else list(np.cumsum(values))
    channel_series = series_of(of, data)
    edges = [round(seconds * S) for seconds in (start, (start + end) / 2, end)]
    parts = [_energy(integrate(channel_series, a, b)).joules for a, b in itertools.pairwise(edges)]
    whole = _energy(integrate(channel_series, edges[0], edges[2])).joules
    assert sum(parts) == pytest.approx(whole, rel=1e-9)


def test_a_longer_meter_window_does_not_change_the_result() -> None:
    """The published flaw: meters that ran 570 to 657 s for tests of 560 s, idle the rest of it."""
    rng = np.random.default_rng(11)
    load = 120 + 5 * rng.standard_normal(562)
    window = 100 * S, 660 * S
    results = []
    for longer_s in (5, 10, 97):
        stretch = Stretch(
            opened(WALL),
            tuple(
                reading(float(t), wall=float(load[t - 99]) if 99 <= t < 661 else 45.0)
                for t in range(99 - longer_s, 661 + longer_s)
            ),
            (),
            None,
        )
        results.append(_energy(integrate(series(stretch, "wall"), *window)))
    assert [integral.joules for integral in results] == pytest.approx(
        [results[0].joules] * 3, rel=1e-12
    )
    assert {integral.readings for integral in results} == {561}
    total = results[0].joules
    assert total == pytest.approx(120 * 560, rel=0.01)
    # What a script makes of the longest: the mean over the meter's own window, times the test.
    naive = 560 * (load.sum() + 45.0 * 2 * 97) / (562 + 2 * 97)
    assert abs(naive - total) > 20 * results[-1].expanded


@pytest.mark.parametrize(("start", "end", "code"), [(-1, 3, "before"), (3, 12, "after")])
def test_a_window_that_is_not_covered_is_missing(start: int, end: int, code: str) -> None:
    shifted = tuple(reading(t + 5.0, wall=50) for t in range(10))
    energy = integrate(
        series(Stretch(opened(WALL), shifted, (), None), "wall"), (start + 5) * S, (end + 5) * S
    )
    assert isinstance(energy, Missing)
    assert energy.code == code


def test_a_slow_meter_covers_no_more_than_its_values_do() -> None:
    """Its values are of instants before the readings, so those beside a fault reach less far."""
    values = list(np.repeat(np.linspace(50, 90, 20), 3))
    channel_series = series_of(WALL, values, [fault(29.5)])
    codes = []
    for start, end in ((30, 36), (33, 39), (20, 29), (20, 26)):
        result = integrate(channel_series, start * S, end * S)
        codes.append(result.code if isinstance(result, Missing) else "")
        if isinstance(result, Integral):
            assert 50 < result.mean_w < 90
    assert codes == ["before", "", "after", ""]


def test_nothing_is_never_an_energy() -> None:
    guest = channel("guest", method="attributed", scope="guest")
    energy = integrate(series_of(guest, [0.0] * 8), S, 5 * S)
    assert isinstance(energy, Missing)
    assert energy.code == "zero"
    coarse = integrate(series_of(counter(resolution=360.0), [5.0] * 8), S, 5 * S)
    assert isinstance(coarse, Missing)
    with pytest.raises(ValueError, match="no length"):
        integrate(series_of(WALL, [50.0] * 8), 5 * S, 5 * S)


def test_a_step_is_unsure_and_a_slope_is_not() -> None:
    def sampling(values: list[float]) -> float:
        return _energy(integrate(series_of(WALL, values), 4 * S, 16 * S)).u_sampling

    flat, high = [100.0] * 10, [200.0] * 10
    assert sampling([*flat, *high]) == pytest.approx(100 / math.sqrt(12), rel=0.03)
    assert sampling(list(np.linspace(100, 200, 20))) == pytest.approx(0, abs=1e-9)
    assert sampling([*flat, *flat]) == 0


def test_type_b_parts_stand_apart() -> None:
    of = channel(resolution=0.1, accuracy=0.015)
    energy = _energy(integrate(series_of(of, [200.0] * 20), 4 * S, 14 * S))
    assert energy.u_sampling == 0
    assert energy.u_resolution == pytest.approx(10 * 0.1 / math.sqrt(12))
    assert energy.u_accuracy == pytest.approx(0.015 * 2000 / math.sqrt(3))
    assert energy.expanded == pytest.approx(2 * math.hypot(energy.u_resolution, energy.u_accuracy))


def test_rounding_averages_out_where_the_power_moves() -> None:
    values = list(200 + 30 * np.sin(np.arange(40)))
    energy = _energy(integrate(series_of(channel(resolution=1.0), values), 4 * S, 29 * S))
    assert energy.u_resolution < 6 / math.sqrt(12)
    ends = _energy(
        integrate(series_of(counter(resolution=1.0), list(np.cumsum(values))), 4 * S, 29 * S)
    )
    assert ends.u_resolution == pytest.approx(math.sqrt(2) / math.sqrt(12))


def test_readings_that_took_long_are_unsure_on_a_slope() -> None:
    def unsure(within_s: float, of: list[float]) -> float:
        readings = tuple(reading(t, within_s, wall=w) for t, w in enumerate(of))
        stretch = Stretch(opened(WALL), readings, (), None)
        return _energy(integrate(series(stretch, "wall"), 4 * S, 14 * S)).u_sampling

    slope = list(np.linspace(100, 290, 20))
    assert unsure(0.0, slope) == pytest.approx(0, abs=1e-9)
    # All late alike: 10 W/s for 10 s, shifted by up to 0.2 s.
    assert unsure(0.2, slope) >= 10 * 10 * 0.2 / math.sqrt(3)
    assert unsure(0.2, [200.0] * 20) == 0
