"""What is recorded is read again, and the page is of it."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import records
from benchmarks.__main__ import _named
from benchmarks.figures import Figure
from benchmarks.records import Machine, Recording, Row
from scripts import docs_performance

RATIO = Figure("ours ÷ peer", 1.1, "×", 1.0, 1.2, "peer", 1.0, "at most 1.25", True, "20 pairs")
NONE = Figure("no peer", math.nan, "s", reach="at most 1 s", note="httperf is missing")
MACHINE = Machine("AMD EPYC", 2, True, "6.1.0", "Debian GNU/Linux 12", 24_000_000_000)
RECORDING = Recording(datetime(2026, 11, 28, tzinfo=UTC), "0123456789ab", False, 0.2, MACHINE)


def test_rows_are_passed_on_and_read_again(tmp_path: Path) -> None:
    rows = [("engine.startup", RATIO), ("elastic.front", NONE)]
    passed = list(records.kept(rows, quick=True, place=tmp_path))
    assert [figure for _, figure in passed] == [RATIO, NONE]
    ratio, none = records.read(tmp_path)
    assert (ratio.benchmark, ratio.figure) == ("engine.startup", RATIO)
    assert math.isnan(none.figure.value)
    assert none.figure.note == NONE.note
    assert ratio.recording.quick
    assert ratio.recording.machine == records.here()


def test_a_recording_that_is_cut_short_holds_what_it_came_to(tmp_path: Path) -> None:
    rows = records.kept([("engine.startup", RATIO), ("x", NONE)], quick=False, place=tmp_path)
    next(rows)
    assert [row.figure for row in records.read(tmp_path)] == [RATIO]


def test_the_page_has_the_last_of_each_kind_of_machine_and_what_was_before() -> None:
    later = replace(RECORDING, at=datetime(2026, 11, 29, tzinfo=UTC), load=7.0)
    elsewhere = replace(RECORDING, machine=replace(MACHINE, cpu="Intel Xeon"))
    slower = replace(RATIO, value=1.4, holds=False)
    without_aim = replace(RATIO, name="no aim", reach="")
    text = docs_performance.page(
        [
            Row("engine.startup", RATIO, RECORDING),
            Row("engine.startup", replace(RATIO, value=1.3), elsewhere),
            Row("engine.startup", slower, later),
            Row("engine.startup", without_aim, later),
            Row("elastic.front", NONE, later),
        ]
    )
    assert "Of 3 figures with an aim 1 hold, 1 do not, and 1 are not judged." in text
    assert "| 1.4 × | 1 to 1.2 | peer | 1 × | at most 1.25 | **no** |  | M1, 2026-11-29" in text
    assert "load 7" in text
    assert "| ours ÷ peer | 1.1 × (M1, 2026-11-28, 01234567) |" in text
    assert "| 1.3 × | 1 to 1.2 | peer | 1 × | at most 1.25 | yes |  | M2, 2026-11-28" in text
    assert "no figure: httperf is missing" in text
    assert "no aim" not in text.replace(docs_performance.HEAD, "")


def test_a_figure_beside_two_peers_is_two_rows() -> None:
    other = replace(RATIO, peer="another")
    rows = [Row("engine.startup", figure, RECORDING) for figure in (RATIO, other)]
    text = docs_performance.page(rows)
    assert "| peer |" in text
    assert "| another |" in text
    assert "Before:" not in text


def test_the_page_is_up_to_date() -> None:
    assert docs_performance.main(["--check"]) == 0


@pytest.mark.parametrize(
    ("names", "benchmark"),
    [([], "clock.reads"), (["engine"], "engine.startup"), (["engine.startup"], "engine.startup")],
)
def test_benchmarks_are_named_by_subject_or_alone(names: list[str], benchmark: str) -> None:
    assert benchmark in _named(names)
    assert set(_named(["engine.startup"])) == {"engine.startup"}
    assert not _named(["engin"])
