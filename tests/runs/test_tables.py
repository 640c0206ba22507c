from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from testing.synthetic import CURVE_WORKLOAD, SCRIPT, WORKLOADS, make_run
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs import parquet
from ullage.runs.reader import RunFolder, find_runs


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make_run(tmp_path / "20261120T000000-a", blocks=6, raw=False)
    make_run(tmp_path / "20261121T000000-b", blocks=2, seed=2, raw=False)
    return tmp_path


def _row(sql: str, root: Path) -> dict[str, Any]:
    rows: list[dict[str, Any]] = parquet.query(sql, root).to_pylist()
    assert len(rows) == 1
    return rows[0]


def test_a_row_for_each_trial_and_metric(runs: Path) -> None:
    folder = RunFolder.open(runs / "20261120T000000-a")
    files = parquet.write(folder)
    rows = pq.read_table(files["samples"]).to_pylist()
    metrics = sum(len(w.metrics) for w in WORKLOADS)
    assert len(rows) == 6 * 5 * metrics
    trial = next(t for t in folder.trials if t.trial == "b003-t004")
    mine = [row for row in rows if row["trial"] == "b003-t004"]
    assert {row["metric"]: row["value"] for row in mine} == trial.metrics
    assert mine[0]["end_epoch_ns"] - mine[0]["start_epoch_ns"] == 1_000_000_000
    assert json.loads(mine[0]["parameters"])


def test_a_failed_trial_has_rows_without_a_value(runs: Path) -> None:
    parquet.write(RunFolder.open(runs / "20261120T000000-a"))
    rows = pq.read_table(runs / "20261120T000000-a" / "samples.parquet").to_pylist()
    failed = [row for row in rows if row["status"] == "failed"]
    assert [row["value"] for row in failed] == [None, None]
    assert failed[0]["reason_code"] == "exit-status"
    assert SCRIPT in failed[0]["reason"], "data is kept as it is; whoever shows it escapes it"


def test_files_say_their_format_and_leave_nothing_behind(runs: Path) -> None:
    run = runs / "20261120T000000-a"
    for file in parquet.write(RunFolder.open(run)).values():
        assert pq.read_schema(file).metadata[b"format"] == b"2"
    assert not list(run.glob(".*"))


def test_a_curve_has_a_row_for_each_point(tmp_path: Path) -> None:
    run = make_run(tmp_path / "c", workloads=[CURVE_WORKLOAD], blocks=1, failures=[], raw=False)
    row = _row(
        "select count(*) as n, min(coordinate) as least, max(coordinate_unit) as unit "
        "from samples where environment = 'lxc'",
        run,
    )
    assert row == {"n": 4, "least": 64.0, "unit": "B"}


def test_events_stand_on_the_wall_clock_with_their_bound(runs: Path) -> None:
    run = runs / "20261120T000000-a"
    parquet.write(RunFolder.open(run))
    rows = pq.read_table(run / "events.parquet").to_pylist()
    kinds = {row["kind"] for row in rows}
    assert {"started", "provisioned", "trial-start", "role-end", "block-end", "finished"} <= kinds
    roles = [row for row in rows if row["kind"] == "role-start"]
    assert {row["bound_ns"] for row in roles if row["environment"] == "vm"} == {400_000}
    assert {row["bound_ns"] for row in roles if row["environment"] == "lxc"} == {120}
    assert {row["sure_ns"] for row in roles if row["environment"] == "vm"} == {300_000}
    ahead = {row["local_ns"] - row["epoch_ns"] for row in roles if row["environment"] == "vm"}
    same = {row["local_ns"] - row["epoch_ns"] for row in roles if row["environment"] == "lxc"}
    assert {ns - same.copy().pop() for ns in ahead} == {7_000_000_000}
    trials = {row["trial"]: row["epoch_ns"] for row in rows if row["kind"] == "trial-start"}
    late = [row["epoch_ns"] - trials[row["trial"]] for row in roles]
    assert all(0 < ns < 100_000 for ns in late)


def test_sql_over_all_runs(runs: Path) -> None:
    sql = "select count(distinct run) as runs, count(distinct trial) as trials from samples"
    assert _row(sql, runs) == {"runs": 2, "trials": 120}
    assert _row(sql, runs / "20261121T000000-b") == {"runs": 1, "trials": 40}
    steal = _row("select avg(value) as steal from meters where name = 'steal'", runs)
    assert steal["steal"] == pytest.approx(0.002, rel=0.1)


def test_a_meter_has_the_unit_that_the_run_says(runs: Path) -> None:
    run = runs / "20261121T000000-b"
    resolved = json.loads((run / "resolved.json").read_text())
    watts = {"name": "wall", "unit": "W", "description": "At the socket."}
    resolved["meters"] = [{"name": "power", "quantities": [watts]}]
    (run / "resolved.json").write_text(json.dumps(resolved))
    trials = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    for trial in trials:
        if trial["event"] == "trial":
            trial["meters"] = {"power": {"wall": 23.0}}
    (run / "journal.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in trials))
    row = _row("select distinct meter, name, value, unit from meters", run)
    assert row == {"meter": "power", "name": "wall", "value": 23.0, "unit": "W"}


def test_how_well_clocks_are_known(runs: Path) -> None:
    sql = "select distinct shared, bound_ns, round(drifted_ns / between_ns * 1e9) as ppb, reasons"
    row = _row(f"{sql} from clocks where environment = 'vm'", runs)
    assert row == {"shared": False, "bound_ns": 400_000, "ppb": 11_250, "reasons": "moves-unseen"}
    other = _row(f"{sql} from clocks where environment = 'lxc'", runs)
    assert other == {"shared": True, "bound_ns": 120, "ppb": None, "reasons": ""}
    trials = _row("select count(distinct bound_ns) as n from samples", runs)
    assert trials == {"n": 2}


def test_every_column_can_be_named_without_quotes(runs: Path) -> None:
    for view, schema in parquet.SCHEMAS.items():
        names = ", ".join(schema.names)
        assert parquet.query(f"select {names} from {view} limit 1", runs).num_rows == 1


def test_tables_follow_the_journal(runs: Path) -> None:
    sql = "select count(*) as n from events where kind = 'warning'"
    assert _row(sql, runs) == {"n": 2}
    with (runs / "20261120T000000-a" / "journal.jsonl").open("a") as journal:
        journal.write('{"event":"warning","epoch_ns":1,"code":"c","message":"m"}\n')
    assert _row(sql, runs) == {"n": 3}


def test_tables_are_stamped_with_what_was_read(runs: Path) -> None:
    """The engine may go on while they are made: they are then of the past, and made again."""
    run = runs / "20261120T000000-a"
    folder = RunFolder.open(run)
    with (run / "journal.jsonl").open("a") as journal:
        journal.write('{"event":"warning","epoch_ns":1,"code":"c","message":"m"}\n')
    parquet.write(folder)
    assert _row("select count(*) as n from events where detail = 'c: m'", runs) == {"n": 1}


def test_tables_follow_resolved_json(runs: Path) -> None:
    run = runs / "20261120T000000-a"
    sql = "select count(*) as n from samples where environment_label = 'NATIVE'"
    assert _row(sql, runs) == {"n": 0}
    text = (run / "resolved.json").read_text()
    (run / "resolved.json").write_text(text.replace('"label": "native"', '"label": "NATIVE"'))
    assert _row(sql, runs)["n"] > 0


@pytest.mark.parametrize("field", ["epoch_ns", "start_ns", "end_ns", "block", "order"])
@pytest.mark.parametrize("value", [2**63 + 10, -1])
def test_numbers_that_no_table_holds_are_refused(runs: Path, field: str, value: int) -> None:
    file = runs / "20261120T000000-a" / "journal.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    next(line for line in lines if line["event"] == "trial")[field] = value
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(UllageError) as caught:
        parquet.query("select 1 as one", runs)
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    assert field in caught.value.message


def test_a_copied_run_is_a_run_of_its_own(runs: Path) -> None:
    parquet.query("select 1 as one", runs)
    shutil.copytree(runs / "20261120T000000-a", runs / "copy")
    assert _row("select count(distinct run) as runs from samples", runs) == {"runs": 3}


def test_a_damaged_table_is_made_again(runs: Path) -> None:
    parquet.query("select 1 as one", runs)
    (runs / "20261120T000000-a" / "samples.parquet").write_bytes(b"PAR1 no more")
    assert _row("select count(distinct run) as runs from samples", runs) == {"runs": 2}


def test_tables_with_other_columns_are_made_again(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a version that had one less, with checksums that hold."""
    samples = parquet.SCHEMAS["samples"]
    monkeypatch.setitem(parquet.SCHEMAS, "samples", samples.remove(len(samples) - 1))
    monkeypatch.setattr(parquet, "_COLUMNS", "of another version")
    for run in find_runs(runs):
        parquet.write(RunFolder.open(run))
    monkeypatch.undo()
    assert _row("select count(distinct run) as runs from samples where overhead_s > 0", runs) == {
        "runs": 2
    }


@pytest.mark.parametrize(
    ("name", "like_it"),
    [
        ("*", "ax"),
        ("[ab]", "a"),
        ("a?", "ax"),
        ("a\\b?", "a/bx"),
        ("s3:", "s3"),
        ("day=1", "day"),
        ("it's", "its"),
        ("{a,b}", "a"),
        (os.fsdecode(b"\xff"), "?"),
    ],
)
@pytest.mark.parametrize("aside", ["plain", "t[*", os.fsdecode(b"t\xff")])
def test_a_folder_whose_name_is_a_pattern(
    runs: Path, monkeypatch: pytest.MonkeyPatch, name: str, like_it: str, aside: str
) -> None:
    """One run and its tables are read, once, and no column comes of the name.

    like_it: a folder beside it, which a pattern would mean (too), with a run's tables of that name.
    """
    for folder in (runs / name, runs / like_it, runs / aside):
        folder.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(runs / aside))
    other = (runs / "20261120T000000-a").rename(runs / like_it / "20261121T000000-b")
    parquet.write(RunFolder.open(other))
    moved = (runs / "20261121T000000-b").rename(runs / name / "20261121T000000-b")
    assert _row("select count(distinct trial) as trials from samples", moved) == {"trials": 40}
    assert _row("select count(*) as n from samples", runs / name) == {"n": 70}
    columns = parquet.query("select * from samples limit 1", runs / name).column_names
    assert columns == parquet.SCHEMAS["samples"].names
    assert not list((runs / aside).iterdir())


def test_a_query_where_nothing_else_may_be_written(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made a folder for links that it did not need."""
    monkeypatch.setattr(tempfile, "tempdir", str(runs / "none"))
    assert _row("select count(distinct run) as runs from samples", runs) == {"runs": 2}


@pytest.mark.parametrize("sql", ["select nope from samples", "selec", "select * from nowhere"])
def test_duckdbs_own_words_for_a_bad_query(runs: Path, sql: str) -> None:
    with pytest.raises(UllageError) as caught:
        parquet.query(sql, runs)
    assert caught.value.kind is errors.QUERY_FAILED
    assert "Error" in caught.value.message


def test_a_query_says_that_duckdb_is_missing(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UllageError) as missing:
        parquet.query("select 1", runs)
    assert missing.value.kind is errors.HOST_MISSING


def test_a_statement_without_a_result_is_an_empty_table(runs: Path) -> None:
    assert parquet.query("create table t (i integer)", runs).num_rows == 0


def test_a_run_that_cannot_be_read_is_told_or_raised(runs: Path) -> None:
    bad = runs / "20261121T000000-b"
    (bad / "resolved.json").write_text("{}")
    with pytest.raises(UllageError) as caught:
        parquet.query("select 1 as one", runs)
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    left_out: list[Path] = []
    sql = "select count(distinct run) as runs from samples"
    table = parquet.query(sql, runs, on_bad_run=lambda path, _: left_out.append(path))
    assert table.to_pylist() == [{"runs": 1}]
    assert left_out == [bad]


def test_no_run_at_all(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        parquet.query("select 1", tmp_path)
    assert caught.value.kind is errors.RUN_NOT_FOUND


def test_where_nothing_can_be_written(runs: Path) -> None:
    """A folder stands where the file should go: even root cannot rename over it."""
    run = runs / "20261120T000000-a"
    (run / "meters.parquet").mkdir()
    with pytest.raises(UllageError) as caught:
        parquet.write(RunFolder.open(run))
    assert caught.value.kind is errors.TABLES_NOT_WRITTEN
    assert not list(run.glob(".*.tmp"))


@pytest.mark.parametrize("rows", [1, 7, 1 << 20])
def test_a_table_of_many_pieces_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    folder = RunFolder.open(make_run(tmp_path / "run", blocks=2))
    whole = {name: parquet.table(folder, name) for name in parquet.SCHEMAS}
    monkeypatch.setattr(parquet, "_PART", rows)
    for name, file in parquet.write(folder, tmp_path).items():
        assert pq.read_table(file).equals(whole[name]), name
        assert parquet.table(folder, name).equals(whole[name]), name
