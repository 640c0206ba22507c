"""Patience 0: who finds no room is blocked at once, and everything says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from ullage.experiments.elastic.analysis.contrasts import sides
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import summarise
from ullage.experiments.elastic.report import answer, provenance, show, tables
from ullage.experiments.elastic.report.page import write
from ullage.experiments.elastic.report.show import find

AT_ONCE = "of the requests found no room and were blocked at once"


def run(tmp_path: Path, patience_s: float) -> Path:
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment()}, patience_s=patience_s, repetitions=3
    )
    return make(tmp_path / f"{patience_s:g}", plan)


def test_the_answer_says_that_nobody_waited(tmp_path: Path) -> None:
    analysed = find(run(tmp_path, 0), tmp_path)
    (sentence,) = [s for s in answer.answer(analysed.summary) if s.startswith("lxc")]
    assert AT_ONCE in sentence
    patient = find(run(tmp_path, 0.1), tmp_path)
    (sentence,) = [s for s in answer.answer(patient.summary) if s.startswith("lxc")]
    assert AT_ONCE not in sentence and "of the requests were blocked" in sentence


def test_there_is_no_share_of_those_who_waited(tmp_path: Path) -> None:
    opened = ElasticRun.open(run(tmp_path, 0))
    summary = summarise(opened, sides(opened))
    assert summary.patience_s == 0
    assert summary.environment("lxc").estimate("waited") is None
    assert summary.environment("lxc").estimate("blocked") is not None
    rows = [row[0].text for table in tables.metrics(summary) for row in table.rows]
    assert "blocked viewers (PcBl)" in rows and "viewers who waited" not in rows


def test_the_command_and_the_page_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run(tmp_path, 0)
    monkeypatch.setattr(show, "stdout", Console(width=500, highlight=False))
    show.command(path, runs=tmp_path, as_json=False)
    output = capsys.readouterr().out
    assert AT_ONCE in output and "viewers who waited" not in output
    page = write(find(path, tmp_path)).read_text(encoding="utf-8")
    assert "Nobody had patience: who found no room was blocked at once." in page
    assert "Dashed: the patience." not in page
    facts = dict(provenance.pairs(ElasticRun.open(path)))
    assert facts["patience"] == "none (who finds no room is blocked at once)"
