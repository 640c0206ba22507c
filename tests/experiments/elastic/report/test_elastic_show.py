"""`ullage elastic show` and `report`, as they are called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from testing.synthetic import make_run
from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from ullage.cli import main
from ullage.cli.elastic import elastic_app
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic.report import page, show
from ullage.experiments.elastic.report.page import PAGE
from ullage.experiments.elastic.run.run import conclude

PLAN = SyntheticRun(viewers=20, repetitions=6)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make(tmp_path, PLAN)


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(elastic_app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_show_tells_the_answer_and_the_metrics(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show.command(run, runs=run.parent, as_json=False)
    output = capsys.readouterr()
    assert "of the requests were blocked" in output.out
    assert "What the viewers felt" in output.out and "(PcBl)" in output.out
    assert "qemu against lxc" in output.out and "worse" in output.out
    assert "doubt:" in output.err and "time-scaled" in output.err


def test_show_as_json_has_everything(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show.command(run, runs=run.parent, as_json=True)
    document = json.loads(capsys.readouterr().out)
    lxc = next(e for e in document["environments"] if e["key"] == "lxc")
    tar = next(e for e in lxc["estimates"] if e["metric"] == "tar")
    assert tar["low"] < tar["estimate"] < tar["high"] and len(tar["values"]) == 6
    assert document["definitions"]["blocked"]["symbol"] == "PcBl"
    assert {c["metric"] for c in document["contrasts"] if c["primary"]} >= {"blocked", "tar"}
    assert "time-scaled" in {d["code"] for d in document["doubts"]}
    assert "energy" not in {e["metric"] for e in lxc["estimates"]}


def test_show_without_a_run_takes_the_newest(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show.command(None, runs=run.parent, as_json=True)
    assert json.loads(capsys.readouterr().out)["run"] == run.name


def test_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        show.command(None, runs=tmp_path, as_json=False)
    assert caught.value.kind is errors.RUN_NOT_FOUND


def test_report_goes_into_the_folder_or_where_it_is_asked(run: Path, tmp_path: Path) -> None:
    assert str(run / PAGE) in invoke("report", run)
    assert (run / PAGE).read_text().startswith("<!doctype html>")
    out = tmp_path / "elsewhere.html"
    assert str(out) in invoke("report", run, "-o", out)
    assert out.is_file()


def test_a_run_ends_with_its_figures_and_its_page(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conclude(run, as_json=False)
    output = capsys.readouterr()
    assert "of the requests were blocked" in output.out
    assert output.err.splitlines()[-1] == f"report: {run / PAGE}"
    (run / PAGE).unlink()
    conclude(run, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["report"] == str(run / PAGE) and (run / PAGE).is_file()
    assert document["folder"] == str(run) and document["environments"]


def test_a_run_without_a_good_repetition_has_a_page_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = SyntheticEnvironment(fails=frozenset((0, 1)))
    run = make(tmp_path, SyntheticRun({"lxc": bad}, repetitions=2))
    conclude(run, as_json=False)
    assert "cut off" in (run / PAGE).read_text(encoding="utf-8")


def test_report_against_says_how_the_two_compare(run: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "other", SyntheticRun(viewers=20, repetitions=1, seed=8))
    output = invoke("report", run, "--against", other)
    assert "1 repetition to compare, and a verdict needs 6: at least 5 more" in output


def test_labels_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b[2J[bold]x[/]\u202e"
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment(label=hostile)}, repetitions=2, viewers=5
    )
    path = make(tmp_path, plan)
    show.command(path, runs=tmp_path, as_json=False)
    output = capsys.readouterr()
    assert "\x1b" not in output.out + output.err and "\u202e" not in output.out + output.err
    assert "␛[2J[bold]x[/]" in output.out


def test_show_imports_nothing_that_draws_or_makes_instances() -> None:
    code = "import sys, ullage.experiments.elastic.report.show; print(' '.join(sys.modules))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(output.stdout.split())
    assert "ullage.experiments.elastic.analysis.summary" in loaded
    assert not loaded & {
        "altair",
        "vl_convert",
        "ullage.experiments.elastic.run.controller",
        "ullage.engine.engine",
    }


def test_a_twin_that_cannot_be_made_is_said_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make(
        tmp_path,
        SyntheticRun(environments={"lxc": SyntheticEnvironment()}, repetitions=1, viewers=5),
    )
    text = (path / "resolved.json").read_text()
    (path / "resolved.json").write_text(text.replace('"elastic-movie"', '"of another day"'))
    page.report(path, runs=tmp_path)
    assert "no simulated twin" in capsys.readouterr().err
    assert "The simulated twin" not in (path / PAGE).read_text()


def test_of_too_many_viewers_no_twins_are_made(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "MOST_VIEWERS", 10)
    page.report(run, runs=run.parent)
    assert "240 viewers are too many" in capsys.readouterr().err


def test_the_list_of_runs_has_elastic_ones(tmp_path: Path) -> None:
    run = make(
        tmp_path,
        SyntheticRun(environments={"lxc": SyntheticEnvironment()}, repetitions=1, viewers=3),
    )
    output = CliRunner().invoke(main.app, ["list", "--runs", str(tmp_path)], env={"COLUMNS": "300"})
    assert output.exit_code == 0, output.output
    assert run.name in output.output and "ullage elastic show" in output.output


def test_the_list_for_programs_has_elastic_runs_too(tmp_path: Path) -> None:
    failing = SyntheticEnvironment(fails=frozenset({1}))
    make(
        tmp_path, SyntheticRun(environments={"lxc": failing}, repetitions=3, done=2, finished=False)
    )
    broken = make(tmp_path, SyntheticRun(repetitions=1, viewers=3, name="other"))
    (broken / "journal.jsonl").write_text("no journal\n")
    make_run(tmp_path / "ordinary", blocks=1, failures=(), raw=False)
    done = CliRunner().invoke(main.app, ["list", "--json", "--runs", str(tmp_path)])
    assert done.exit_code == 0, done.output
    ordinary, bad, good = json.loads(done.stdout)
    assert (ordinary["kind"], ordinary["run"]) == ("ordinary", "ordinary")
    assert (good["kind"], good["name"], good["path"]) == (
        "elastic",
        "made",
        str(tmp_path / "20260101T000000-made"),
    )
    counts = [good[n] for n in ("environments", "repetitions", "ended", "ok", "failed")]
    assert counts == [1, 3, 2, 1, 1]
    assert good["started"] == "2026-01-01T00:00:00Z" and good["finished"] is None
    assert bad["run"] == broken.name and "journal.jsonl" in bad["problem"]
    output = CliRunner().invoke(main.app, ["list", "--runs", str(tmp_path)], env={"COLUMNS": "300"})
    assert "journal.jsonl, line 1" in output.output
