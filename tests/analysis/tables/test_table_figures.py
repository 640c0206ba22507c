"""Units and directions of a table's metrics: one for all rows of each, or refused."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.tablefilekit import csv, refused
from ullage.analysis.tables.table import read
from ullage.common import errors


@pytest.mark.parametrize(
    ("column", "words"), [("unit", ("ms", "s")), ("better", ("lower", "higher"))]
)
def test_a_metric_with_two_units_or_directions(
    tmp_path: Path, column: str, words: tuple[str, str]
) -> None:
    file = csv(
        tmp_path,
        f"environment,metric,value,{column}\na,x,1,{words[0]}\nb,y,1,{words[1]}\nb,x,1,{words[1]}\n",
    )
    error = refused(errors.TABLE_CONTRADICTS, file, "row 3", "'x'", better=None)
    assert column in error.message
    assert all(f"'{word}'" in error.message for word in words)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("s", "ms", "convert all figures to one unit, 's' or 'ms'"),
        ("s", "MB", "what differs in kind needs a `metric` of its own"),
        ("s", "", "write the same unit in all rows of a metric"),
    ],
)
def test_what_to_do_about_two_units(tmp_path: Path, first: str, second: str, expected: str) -> None:
    file = csv(tmp_path, f"environment,value,unit\na,1,{first}\nb,1,{second}\n")
    refused(errors.TABLE_CONTRADICTS, file, "row 2", expected, better="lower")


def test_a_direction_that_is_none(tmp_path: Path) -> None:
    file = csv(tmp_path, "environment,value,better\na,1,lower\nb,1,lower\n")
    refused(errors.TABLE_CONTRADICTS, file, "leave `--better` out", better="higher")
    file = csv(tmp_path, "environment,metric,value,better\na,x,1,lower\nb,y,1,Lower\n")
    refused(errors.TABLE_BAD_CELL, file, "row 2", "'Lower'", "did you mean lower?")
    file = csv(tmp_path, "environment,metric,value\na,x,1\nb,x,1\n")
    refused(errors.TABLE_NO_DIRECTION, file, "'x'", "--better")


BOTH = """environment,metric,unit,value{header}
a,time,{time},1{first}
b,time,{time},1{first}
a,speed,{speed},1
b,speed,{speed},1
"""


def both(folder: Path, time: str, speed: str, way: str = "") -> Path:
    """A time and something else; way: what a column `better` says of the time."""
    text = BOTH.format(
        time=time, speed=speed, header=",better" if way else "", first=f",{way}" if way else ""
    )
    return csv(folder, text.replace(f"{speed},1\n", f"{speed},1,\n") if way else text)


@pytest.mark.parametrize(
    ("better", "wrong", "right"),
    [("lower", "'speed' (in 'MB/s')", "'time'"), ("higher", "'time' (in 'ms')", "'speed'")],
)
def test_one_direction_is_not_taken_for_times_and_rates(
    tmp_path: Path, better: Any, wrong: str, right: str
) -> None:
    file = both(tmp_path, "ms", "MB/s")
    words = (f"--better {better}", wrong, right, "column `better`")
    refused(errors.TABLE_TWO_DIRECTIONS, file, *words, better=better)


def test_one_direction_is_not_taken_for_a_rate_beside_a_time_that_has_its_own(
    tmp_path: Path,
) -> None:
    file = both(tmp_path, "s", "B/s", way="lower")
    refused(errors.TABLE_TWO_DIRECTIONS, file, "'speed'", better="lower")


def test_an_unusual_direction_of_all_metrics_is_the_user_s(tmp_path: Path) -> None:
    sheet = read(both(tmp_path, "B/s", "MB/s"), better="lower")
    assert [figure.better for figure in sheet.figures] == ["lower", "lower"]


def test_a_direction_taken_for_several_metrics_is_said(tmp_path: Path) -> None:
    sheet = read(both(tmp_path, "s", "operations"), better="lower")
    assert sheet.notes == ("`--better lower` is taken for 2 metrics: 'time', 'speed'",)
    single = read(csv(tmp_path, "environment,value\na,1\nb,1\n"), better="lower")
    assert single.notes == ()
