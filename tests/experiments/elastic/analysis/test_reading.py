"""Reading a run folder that may come from anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testing.synthetic import make_run
from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.analysis.contrasts import sides
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.runs import records
from ullage.runs.reader import RunFolder

SMALL = SyntheticRun(environments={"lxc": SyntheticEnvironment()}, repetitions=2, viewers=6)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make(tmp_path, SMALL)


def place(run: Path) -> Path:
    return folder.repetition_folder(run, "lxc", 1)


def test_a_run_of_another_kind_is_said(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        RunFolder.open(run)
    assert caught.value.kind is errors.RUN_OF_ANOTHER_KIND
    assert "ullage elastic show" in caught.value.hint
    with pytest.raises(UllageError) as caught:
        ElasticRun.open(make_run(tmp_path / "ordinary", raw=False))
    assert caught.value.kind is errors.RUN_OF_ANOTHER_KIND
    assert "`ullage show" in caught.value.hint


def test_a_run_without_its_journal_is_refused(run: Path) -> None:
    (run / records.JOURNAL).unlink()
    assert "journal" in refused(run)


def refused(run: Path) -> str:
    with pytest.raises(UllageError) as caught:
        ElasticRun.open(run)
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    return caught.value.message


def change(file: Path, edit: Callable[[Any], None]) -> None:
    """Change a JSON file, or the second line of a file of lines."""
    text = file.read_text()
    lines, index = (text.splitlines(), 1) if file.suffix == ".jsonl" else ([text], 0)
    record = json.loads(lines[index])
    edit(record)
    lines[index] = json.dumps(record)
    file.write_text("\n".join(lines) + "\n")


def test_reads_what_was_written(run: Path) -> None:
    elastic_run = ElasticRun.open(run)
    assert [r.number for r in elastic_run.of("lxc")] == [0, 1]
    assert all(r.counts and len(r.sessions) == 6 and r.acts for r in elastic_run.repetitions)
    assert elastic_run.finished is not None and elastic_run.finished.reason == "repetitions"
    assert elastic_run.label("lxc") == "lxc"


def test_a_folder_without_a_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        ElasticRun.open(tmp_path)
    assert caught.value.kind is errors.RUN_NOT_FOUND


@pytest.mark.parametrize(
    "name", [folder.SESSIONS, folder.CONTROLLER_LOG], ids=["sessions", "controller"]
)
def test_a_torn_last_line_is_left_out(run: Path, name: str) -> None:
    file = place(run) / name
    whole = len(file.read_text().splitlines())
    file.write_bytes(file.read_bytes()[:-9])
    repetition = ElasticRun.open(run).of("lxc")[1]
    read = repetition.sessions if name == folder.SESSIONS else repetition.acts
    assert len(read) == whole - 1


@pytest.mark.parametrize("name", [folder.SESSIONS, folder.CONTROLLER_LOG])
def test_a_repetition_without_its_records_has_no_figures(run: Path, name: str) -> None:
    (place(run) / name).unlink()
    with pytest.raises(UllageError, match=f"{name} is missing") as caught:
        ElasticRun.open(run)
    assert caught.value.kind is errors.RUN_BAD_FORMAT


def test_a_torn_journal_has_its_whole_lines(run: Path) -> None:
    file = run / records.JOURNAL
    file.write_bytes(file.read_bytes()[:-5])
    elastic_run = ElasticRun.open(run)
    assert elastic_run.finished is None
    assert len(elastic_run.repetitions) == 2


def test_a_repetition_without_its_line_is_unfinished(run: Path) -> None:
    lines = (run / records.JOURNAL).read_text().splitlines(keepends=True)
    (run / records.JOURNAL).write_text("".join(lines[:2]))
    repetitions = ElasticRun.open(run).of("lxc")
    assert [r.status for r in repetitions] == ["ok", "unfinished"]
    assert not repetitions[1].counts


def test_a_late_generator_takes_the_figures_away(tmp_path: Path) -> None:
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment(late=frozenset({0}))}, repetitions=1, viewers=6
    )
    (repetition,) = ElasticRun.open(make(tmp_path, plan)).repetitions
    assert repetition.status == "invalid" and not repetition.counts
    assert repetition.reason is not None and "lateness" in repetition.reason.message


SESSION: list[tuple[str, Any, str]] = [
    ("ended_ns", 5, "not in order"),
    ("asked_ns", "soon", "asked_ns"),
    ("outcome", "lost", "outcome"),
    ("bytes", -1, "bytes"),
    ("client", 0, "stands there twice"),
    ("due_ns", 1 << 60, "not of this repetition"),
    ("first_byte_ns", None, "no first byte"),
    ("violations", [{"at_ns": 3, "length_ns": -2}], "length_ns"),
]


@pytest.mark.parametrize(("field", "value", "reason"), SESSION, ids=[s[0] for s in SESSION])
def test_an_impossible_viewer_is_refused(run: Path, field: str, value: object, reason: str) -> None:
    change(place(run) / folder.SESSIONS, lambda record: record.update({field: value}))
    message = refused(run)
    assert reason in message and "line 2" in message


RESOLVED: list[tuple[str, Any]] = [
    ("room", 0),
    ("confidence", 1.0),
    ("time_scale", float("inf")),
    ("patience_s", -1),
    ("baseline", "nobody"),
    ("environments", []),
    ("settings", {}),
    ("format", 2),
    ("surprise", 1),
]


@pytest.mark.parametrize(("field", "value"), RESOLVED, ids=[r[0] for r in RESOLVED])
def test_an_impossible_plan_is_refused(run: Path, field: str, value: object) -> None:
    change(run / records.RESOLVED, lambda record: record.update({field: value}))
    refused(run)


OUTCOME: list[tuple[str, Any]] = [
    ("end_ns", 1),
    ("repetition", 0),
    ("environment", "qemu"),
    ("meters", {"power": {"energy": float("nan")}}),
]


@pytest.mark.parametrize(("field", "value"), OUTCOME, ids=[o[0] for o in OUTCOME])
def test_an_impossible_outcome_is_refused(run: Path, field: str, value: object) -> None:
    change(place(run) / folder.OUTCOME, lambda record: record.update({field: value}))
    refused(run)


@pytest.mark.parametrize("name", [folder.OUTCOME, folder.VIEWERS, folder.SESSIONS])
def test_a_repetition_that_lacks_a_file_is_refused(run: Path, name: str) -> None:
    (place(run) / name).unlink()
    assert "missing" in refused(run)


def test_a_repetition_twice_is_refused(run: Path) -> None:
    lines = (run / records.JOURNAL).read_text().splitlines(keepends=True)
    (run / records.JOURNAL).write_text("".join([*lines, lines[1]]))
    assert "twice" in refused(run)


def test_a_repetition_that_the_plan_does_not_have_is_refused(run: Path) -> None:
    change(run / records.JOURNAL, lambda record: record.update(repetition=7))
    assert "not in its plan" in refused(run)


def test_a_node_twice_is_refused(run: Path) -> None:
    file = place(run) / folder.CONTROLLER_LOG
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines, lines[0]]))
    assert "twice" in refused(run)


def test_an_impossible_stage_is_refused(run: Path) -> None:
    file = place(run) / folder.CONTROLLER_LOG
    file.write_text(file.read_text().replace('"TeF":', '"TeF":-', 1))
    assert "stage" in refused(run)


def test_a_message_of_a_guest_is_not_repeated(run: Path) -> None:
    hostile = "<script>\x1b[31m"
    change(place(run) / folder.SESSIONS, lambda record: record.update(outcome=hostile))
    assert "script" not in refused(run)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    name=st.sampled_from([folder.SESSIONS, folder.CONTROLLER_LOG, folder.OUTCOME, folder.VIEWERS]),
    at=st.floats(0, 1),
    put=st.binary(min_size=0, max_size=6),
)
def test_garbage_is_read_or_refused_and_nothing_else(
    run: Path, name: str, at: float, put: bytes
) -> None:
    file = place(run) / name
    whole = file.read_bytes()
    cut = int(at * len(whole))
    file.write_bytes(whole[:cut] + put + whole[cut + len(put) :])
    try:
        sides(ElasticRun.open(run))
    except UllageError as error:
        assert error.kind is errors.RUN_BAD_FORMAT
    finally:
        file.write_bytes(whole)


def test_a_repetition_that_took_no_time_has_no_bandwidth(run: Path) -> None:
    """Of no real run; a folder is from a stranger."""
    outcome = place(run) / folder.OUTCOME
    at_ns = json.loads(outcome.read_text())["start_ns"]
    change(outcome, lambda record: record.update(end_ns=at_ns))
    sessions = place(run) / folder.SESSIONS
    session = next(s for s in map(json.loads, sessions.open()) if s["outcome"] == "served")
    instants = ("due_ns", "asked_ns", "answered_ns", "first_byte_ns", "ended_ns")
    sessions.write_text(json.dumps(session | dict.fromkeys(instants, at_ns)) + "\n")
    (place(run) / folder.CONTROLLER_LOG).write_text("")
    (record,) = [s for s in sides(ElasticRun.open(run)) if s.key == "lxc"]
    assert record.figures[1].figures["affected"] == 0
    assert "bandwidth" not in record.figures[1].figures
    assert "bandwidth" in record.figures[0].figures


def test_a_film_of_no_time_is_refused(run: Path) -> None:
    """It would demand nodes for an interval of no length."""

    def shorter(record: Any) -> None:
        record["video"]["length_s"] = 1e-10

    change(run / records.RESOLVED, shorter)
    assert "the video" in refused(run)
