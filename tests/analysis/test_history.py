"""A figure over runs: the change is found, with the commit that it came with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.synthetic import TRUTH, make_run
from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.analysis.history import History, history
from ullage.runs.reader import RunFolder

CELL = ("container", "iperf3")
RUNS = 12
SLOWER_FROM = 7


ullage = commandkit.in_this_process("history")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run a day; from one commit on the container's network is 1.5 times worse."""
    place = tmp_path_factory.mktemp("history")
    for day in range(RUNS):
        truth = {**TRUTH, CELL: TRUTH[CELL] * (1.5 if day >= SLOWER_FROM else 1.0)}
        path = place / f"202601{day + 1:02}T000000-nightly"
        make_run(path, seed=day, blocks=6, noise_sd=0.05, truth=truth, raw=False, failures=())
        resolved = json.loads((path / "resolved.json").read_text())
        resolved["labels"] = {"commit": f"c{day:07}"}
        (path / "resolved.json").write_text(json.dumps(resolved))
    return place


@pytest.fixture(scope="module")
def course(runs: Path) -> History:
    return history(RunFolder.open(path) for path in sorted(runs.iterdir(), reverse=True))


def test_the_change_is_found_at_its_commit_and_no_other(course: History) -> None:
    changed = {(s.environment, s.workload): s.changes for s in course.series if s.changes}
    (change,) = changed.pop(CELL)
    assert change.labels["commit"] == f"c{SLOWER_FROM:07}"
    assert change.after / change.before == pytest.approx(1.5, rel=0.1)
    assert len(changed) <= 1, "one series in twenty may change by chance"


def test_runs_stand_in_the_order_of_their_time(course: History) -> None:
    for series in course.series:
        assert [point.run for point in series.points] == sorted(
            point.run for point in series.points
        )
        assert len(series.points) == RUNS


def test_medians_have_their_own_unit(runs: Path) -> None:
    folders = [RunFolder.open(path) for path in runs.iterdir()]
    course = history(folders, "value", metrics=["throughput"], environments=["container"])
    (series,) = (series for series in course.series if series.workload == CELL[1])
    assert (series.unit, series.better) == ("bit/s", "higher")
    assert len(series.changes) == 1


def test_what_it_prints(runs: Path, ullage: Callable[..., Done], tmp_path: Path) -> None:
    picture = tmp_path / "h.svg"
    done = ullage("--runs", str(runs), "--environment", "container", "--picture", str(picture))
    assert done.code == 0, done.stderr
    assert f"Changed at commit c{SLOWER_FROM:07}" in done.stdout
    (marked,) = (line for line in done.stdout.splitlines() if line.startswith("▸"))
    assert f"202601{SLOWER_FROM + 1:02}T000000-nightly" in marked
    text = picture.read_text()
    assert text.startswith("<svg") and f"c{SLOWER_FROM:07}" in text


def test_no_run_is_no_error(ullage: Callable[..., Done], tmp_path: Path) -> None:
    done = ullage("--runs", str(tmp_path), "--picture", str(tmp_path / "h.svg"))
    assert (done.code, done.stdout) == (0, "")
    assert "no run here has such a figure" in done.stderr


def test_json_is_the_history(runs: Path, ullage: Callable[..., Done], course: History) -> None:
    done = ullage("--runs", str(runs), "--json")
    assert History.model_validate_json(done.stdout) == course


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--picture", "h.txt"), 2, ".svg, .pdf, .png"),
        (("nowhere",), 2, "nowhere"),
    ],
)
def test_bad_input(
    runs: Path, ullage: Callable[..., Done], arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = ullage(*arguments, "--runs", str(runs))
    assert done.code == code
    assert message in done.stderr


def test_a_folder_that_cannot_be_read_is_left_out_by_name(
    runs: Path, ullage: Callable[..., Done]
) -> None:
    bad = runs / "20260201T000000-bad"
    bad.mkdir()
    (bad / "journal.jsonl").write_text("{}\n")
    (bad / "resolved.json").write_text("{}\n")
    try:
        done = ullage("--runs", str(runs), "--json")
    finally:
        (bad / "journal.jsonl").unlink()
        (bad / "resolved.json").unlink()
        bad.rmdir()
    assert done.code == 0
    assert "left out" in done.stderr and "-bad" in done.stderr
