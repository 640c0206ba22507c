"""A trace belongs to its run: it is copied, and read there whatever became of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import ElasticResolved
from ullage.experiments.elastic.plan import schema, units
from ullage.experiments.elastic.plan.schema import ElasticPlan
from ullage.experiments.elastic.run.resolved import changes, resolved
from ullage.experiments.elastic.run.run import keep_trace, with_kept_trace
from ullage.runs.records import RESOLVED
from ullage.workloads.web.clip import Clip

PLAN = """\
name: film
room: 4
environments: {box: {provider: oci}}
arrivals: {kind: trace, file: day.txt}
"""


def record(plan: ElasticPlan, run: Path) -> ElasticResolved:
    environments = schema.resolve(*schema.loads(PLAN))
    film = Clip(Path("film"), "bytes", "00", 1000, "a test")
    return resolved(plan, environments, film, None, run=run, tag="u0000000", seed=1)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was started in a directory with the trace, and is looked at from another."""
    start, elsewhere = tmp_path / "here", tmp_path / "there"
    run = tmp_path / "runs" / "20261122T120000-film"
    for folder in (start, elsewhere, run):
        folder.mkdir(parents=True)
    (start / "day.txt").write_text("0\n30\n60\n", encoding="ascii")
    monkeypatch.chdir(start)
    plan, _ = schema.loads(PLAN)
    assert units.trace_times(plan.arrivals) == [0, 30, 60], "from where the command is started"
    first = keep_trace(plan, run)
    (run / RESOLVED).write_text(record(first, run).model_dump_json(), encoding="utf-8")
    monkeypatch.chdir(elsewhere)
    return run


def test_a_run_is_taken_up_from_anywhere(run: Path) -> None:
    plan, _ = schema.loads(PLAN)
    with pytest.raises(OSError, match=r"day\.txt"):
        units.trace_times(plan.arrivals)
    copied = with_kept_trace(plan, run)
    assert units.trace_times(copied.arrivals) == [0, 30, 60]
    assert changes(folders.read_resolved(run), record(copied, run)) == []


def test_another_file_of_the_same_name_is_not_read(run: Path) -> None:
    Path("day.txt").write_text("7\n", encoding="ascii")
    copied = with_kept_trace(schema.loads(PLAN)[0], run)
    assert units.trace_times(copied.arrivals) == [0, 30, 60]


def test_a_copy_that_was_changed_is_another_run(run: Path) -> None:
    (run / folders.TRACE).write_text("0\n30\n", encoding="ascii")
    copied = with_kept_trace(schema.loads(PLAN)[0], run)
    assert changes(folders.read_resolved(run), record(copied, run)) == ["arrivals"]


def test_without_a_trace_or_its_copy_the_plan_is_what_it_was(tmp_path: Path) -> None:
    plan, _ = schema.loads(PLAN.replace("trace, file: day.txt", "uniform, rate: 1, viewers: 2"))
    assert keep_trace(plan, tmp_path) is plan
    assert list(tmp_path.iterdir()) == []
    named, _ = schema.loads(PLAN)
    assert with_kept_trace(named, tmp_path) is named
