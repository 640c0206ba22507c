"""What is kept is what was measured, and says when its truth is none."""

from pathlib import Path

import pytest

from benchmarks.statistics.injection.recording import TRIALS, Fixed, Recording, folder
from tests.benchmarks.injection.records import Maker, white


def recorded() -> Recording:
    maker = Maker(workloads=2)
    maker.blocks("blocks-0", 6, white(0.02, 1))
    maker.sequence("cpu-0", 2, 18, white(0.02, 2))
    first = maker.recording.rows[0]
    maker.recording.rows[0] = first.model_copy(
        update={"status": "failed", "seconds": None, "work": None}
    )
    return maker.recording


def test_there_and_back(tmp_path: Path) -> None:
    recording = recorded()
    recording.save(tmp_path)
    again = Recording.load(tmp_path)
    assert again.rows == recording.rows
    assert again.about == recording.about


def test_other_work_than_the_factor_says_has_no_truth(tmp_path: Path) -> None:
    recording = recorded()
    recording.save(tmp_path)
    file = tmp_path / TRIALS
    text = file.read_text()
    assert ",1050," in text
    file.write_text(text.replace(",1050,", ",1051,", 1))
    with pytest.raises(ValueError, match="did 1051 units of work in place of 1050"):
        Recording.load(tmp_path)


def test_rows_become_the_run_that_the_product_analyses() -> None:
    recording = recorded()
    (rows,) = [rows for _, rows in recording.of("blocks")]
    analysed = [row for row in rows if row.workload == "cpu" and row.percent != 125]
    run = folder(recording.about.resolved["blocks-0"], analysed, again=["x1.00"])
    run.check_cells()
    assert run.complete_blocks == tuple(range(6))
    copies = {e.key: e.again_of for e in run.resolved.environments}
    assert copies == {
        "native": None,
        "native~again": None,
        "x1.00": "native",
        "x1.05": None,
        "x1.10": None,
    }
    status = [(t.status, t.reason is None, t.metrics == {}) for t in run.trials]
    assert status.count(("ok", True, False)) == len(analysed) - status.count(
        ("failed", False, True)
    )


def test_a_fixed_part_dilutes_a_factor() -> None:
    fixed = Fixed(seconds=0.02, trial_seconds=0.2)
    slowdown = (0.02 + 1.05 * 0.18) / 0.2
    assert slowdown / 1.05 - 1 == pytest.approx(fixed.dilution(1.05))
