"""A meter's file: what is read, what is cut out, what is doubted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.energykit import S, channel, counter, fault, opened, reading, series_of, write
from ullage.analysis.energy.integral import Integral, Missing, integrate
from ullage.analysis.energy.series import Stretch, read, series
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs.readings import Closed, Line

WALL = channel()


def _code(energy: Integral | Missing) -> str:
    return energy.code if isinstance(energy, Missing) else "an energy"


def test_reads_every_session_and_leaves_out_a_torn_end(tmp_path: Path) -> None:
    file = tmp_path / "meters" / "wall.jsonl"
    lines: list[Line] = [
        opened(WALL, session="one"),
        reading(1, wall=50),
        fault(2),
        Closed(at_ns=3 * S),
        opened(WALL, session="two"),
        reading(1, wall=60),
    ]
    write(file, lines, torn=b'{"event":"reading","at_')
    first, second = read(file)
    assert [stretch.opened.session for stretch in (first, second)] == ["one", "two"]
    assert (len(first.readings), len(first.faults), first.closed is None) == (1, 1, False)
    assert (len(second.readings), second.closed) == (1, None)
    assert read(tmp_path / "none.jsonl") == ()


def test_a_line_that_a_killed_recorder_cut_is_left_out_before_the_next_session(
    tmp_path: Path,
) -> None:
    file = tmp_path / "wall.jsonl"
    write(file, [opened(WALL), reading(1, wall=50)], torn=b'{"event":"rea\n')
    with file.open("ab") as stream:
        stream.write(opened(WALL, session="two").model_dump_json().encode() + b"\n")
    assert [len(stretch.readings) for stretch in read(file)] == [1, 0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"event":"reading"}\nx\n', "line 2"),
        (b'{"event":"nothing"}\n' + opened(WALL).model_dump_json().encode() + b"\nx\n", "line 4"),
        (b"\xff\xfe\n", "line 2"),
    ],
)
def test_what_is_malformed_is_refused_with_its_line(
    tmp_path: Path, text: bytes, reason: str
) -> None:
    file = tmp_path / "wall.jsonl"
    write(file, [opened(WALL)], torn=text)
    with pytest.raises(UllageError, match=reason) as caught:
        read(file)
    assert caught.value.kind is errors.ENERGY_READINGS_BAD


def test_readings_out_of_order_and_before_the_meter_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "wall.jsonl"
    wrong: tuple[list[Line], ...] = (
        [reading(1, wall=50)],
        [opened(WALL), reading(2, wall=50), reading(1, wall=50)],
        [opened(WALL), reading(2, wall=50), reading(2, wall=50)],
    )
    for lines in wrong:
        write(file, lines)
        with pytest.raises(UllageError) as caught:
            read(file)
        assert caught.value.kind is errors.ENERGY_READINGS_BAD


@given(
    st.lists(st.floats(0, 90), min_size=2, max_size=50),
    st.floats(200, 1000),
    st.floats(0, 1),
)
def test_counters_are_unwrapped(grown: list[float], wraps_at: float, start: float) -> None:
    truth = start * wraps_at + np.cumsum([0.0, *grown])
    channel_series = series_of(
        counter(wraps_at=wraps_at, method="attributed"), list(truth % wraps_at)
    )
    assert channel_series.cuts == ()
    assert channel_series.values == pytest.approx(truth - truth[0], abs=1e-6)


def test_a_counter_that_runs_back_without_a_wrap_is_no_wrap() -> None:
    raw = [100.0, 150.0, 200.0, 10.0, 60.0, 110.0]
    for wraps_at in (None, 262_143.0):
        channel_series = series_of(counter(wraps_at=wraps_at), raw)
        assert [(cut.code, cut.start_ns, cut.end_ns) for cut in channel_series.cuts] == [
            ("counter-back", 2 * S, 3 * S)
        ]
        assert _code(integrate(channel_series, S, 4 * S)) == "counter-back"
        before, after = integrate(channel_series, 0, 2 * S), integrate(channel_series, 3 * S, 5 * S)
        assert isinstance(before, Integral)
        assert isinstance(after, Integral)
        assert (before.joules, after.joules) == (100.0, 100.0)


@pytest.mark.parametrize(
    ("value", "code"), [(-3.0, "negative"), (3e6, "impossible"), (0.0, "zero")]
)
def test_a_power_that_cannot_be_is_cut_out_with_both_sides(value: float, code: str) -> None:
    channel_series = series_of(WALL, [50, 51, 52, value, 54, 55, 56, 57])
    assert [(cut.code, cut.start_ns, cut.end_ns) for cut in channel_series.cuts] == [
        (code, 2 * S, 4 * S)
    ]
    assert _code(integrate(channel_series, S, 3 * S)) == code
    assert isinstance(integrate(channel_series, 4 * S, 6 * S), Integral)


def test_an_attributed_power_may_be_nothing() -> None:
    guest = channel("guest", method="attributed", scope="guest")
    assert series_of(guest, [0, 0, 3, 0, 0]).cuts == ()


def test_a_counter_that_stands_still_does_not_count() -> None:
    raw = [0, 50, 100, *[150] * 14, 200, 250]
    channel_series = series_of(counter(resolution=6e-5), raw)
    assert [(cut.code, cut.start_ns, cut.end_ns) for cut in channel_series.cuts] == [
        ("counter-stuck", 3 * S, 16 * S)
    ]
    assert _code(integrate(channel_series, 5 * S, 7 * S)) == "counter-stuck"
    assert series_of(counter(resolution=360.0), raw).cuts == ()


def test_a_counter_that_leaps_is_impossible() -> None:
    channel_series = series_of(counter(), [0, 50, 100, 9e6, 9e6 + 50, 9e6 + 100])
    assert [cut.code for cut in channel_series.cuts] == ["impossible"]


def test_a_fault_within_makes_it_missing_and_beside_does_not() -> None:
    values = [50.0] * 10
    channel_series = series_of(WALL, values, [fault(4.2, "silent"), fault(4.6, "silent")])
    assert len(channel_series.cuts) == 1
    assert _code(integrate(channel_series, 3 * S, 5 * S)) == "silent"
    assert isinstance(integrate(channel_series, S, 4 * S), Integral)
    assert isinstance(integrate(channel_series, 5 * S, 8 * S), Integral)
    unplugged = series_of(WALL, values, [fault(9.5, "on-battery"), fault(10.5)])
    assert _code(integrate(unplugged, 8 * S, 11 * S)) == "on-battery"
    assert _code(integrate(series_of(WALL, [], [fault(1)]), S, 2 * S)) == "gone"


def test_a_gap_is_more_than_a_few_intervals() -> None:
    at = (0, 1, 2, 3, 7, 8, 13, 14)
    readings = tuple(reading(seconds, wall=50) for seconds in at)
    channel_series = series(Stretch(opened(WALL), readings, (), None), "wall")
    assert [(cut.code, cut.start_ns, cut.end_ns) for cut in channel_series.cuts] == [
        ("gap", 8 * S, 13 * S)
    ]
    assert isinstance(integrate(channel_series, S, 8 * S), Integral)
    assert _code(integrate(channel_series, S, 9 * S)) == "gap"


def test_a_gap_in_which_a_counter_may_have_wrapped_past_itself_is_shorter() -> None:
    raw = {0.0: 10.0, 1.0: 60.0, 2.4: 130.0, 4.0: 210.0, 5.0: 260.0}
    readings = tuple(reading(at, package_0=value) for at, value in raw.items())
    for wraps_at, gaps in ((300.0, [(2_400_000_000, 4 * S)]), (None, [])):
        channel_series = series(
            Stretch(opened(counter(wraps_at=wraps_at)), readings, (), None), "package-0"
        )
        assert [
            (cut.start_ns, cut.end_ns) for cut in channel_series.cuts if cut.code == "gap"
        ] == gaps
        assert _code(integrate(channel_series, 3 * S, 5 * S)) == ("gap" if gaps else "an energy")
        assert isinstance(integrate(channel_series, 0, 2 * S), Integral)


def test_a_power_that_never_changes_is_doubted() -> None:
    stuck = [285.0] * 70
    assert [doubt.code for doubt in series_of(channel(resolution=0.1), stuck).doubts] == [
        "meter-stuck"
    ]
    for quiet in (channel(resolution=0.0), channel(resolution=1.0), channel(method="attributed")):
        assert series_of(quiet, stuck).doubts == ()
    assert series_of(channel(resolution=0.1), [285.0] * 20).doubts == ()


def test_one_value_far_above_all_others_is_doubted_and_kept() -> None:
    values = [50.0, 60, 55, 52, 900, 51, 58]
    assert [doubt.code for doubt in series_of(WALL, values).doubts] == ["meter-jump"]
    assert series_of(WALL, values).cuts == ()
    assert series_of(WALL, [*values, 880]).doubts == ()


def test_a_meter_that_is_read_more_often_than_it_looks_has_its_own_pace() -> None:
    powers = np.repeat(np.linspace(50, 90, 20), 3)
    channel_series = series_of(WALL, list(powers))
    assert [doubt.code for doubt in channel_series.doubts] == ["meter-slow"]
    assert channel_series.values == pytest.approx([*np.linspace(50, 90, 20), 90])
    # The value is of some instant since the reading before.
    assert list(channel_series.at_ns[1:3]) == [2_500_000_000, 5_500_000_000]
    assert list(channel_series.within_ns[1:3]) == [500_000_000] * 2
    assert series_of(WALL, list(np.linspace(50, 90, 60))).doubts == ()
