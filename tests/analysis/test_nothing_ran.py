"""A run in which no trial ran says so in one sentence, with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testing.synthetic import make_run
from tests.support.commandkit import ullage
from ullage.analysis import overhead, sentences
from ullage.report import answer
from ullage.runs.reader import RunFolder

FAILED = (
    "vm did not become ready within 60 s;\nthe last that was seen of it: \x1b[31mno disk [late]"
)


def ended(place: Path, **how: str) -> Path:
    """A run without a trial that ended so; without `how` it did not end."""
    run = make_run(place / "run", blocks=0, raw=False, finished=bool(how))
    file = run / "journal.jsonl"
    *lines, last = file.read_text().splitlines()
    if how:
        last = json.dumps(json.loads(last) | how)
    file.write_text("\n".join([*lines, last, ""]))
    return run


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (
            {"reason": "failed", "message": FAILED},
            "No trial ran: vm did not become ready within 60 s; the last that was seen of it: "
            "␛[31mno disk [late].",
        ),
        ({"reason": "failed"}, "No trial ran: the run failed without a word."),
        (
            {"reason": "interrupted"},
            "No trial ran: the run was interrupted before its first one ended.",
        ),
        ({"reason": "budget"}, "No trial ran: the run had ended."),
        ({}, "No trial has ended: the run goes on, or was killed before one did."),
    ],
    ids=["failed", "unsaid", "interrupted", "budget", "killed"],
)
def test_show_says_why_in_one_sentence(tmp_path: Path, how: dict[str, str], expected: str) -> None:
    run = ended(tmp_path, **how)
    done = ullage("show", str(run), cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert done.stdout == f"{expected}\n"
    analysis = overhead.analyse(RunFolder.open(run))
    assert sentences.answer(analysis, strong=True) == [expected]
    assert len(answer.answer(analysis)) == 1
    assert ullage("report", str(run), cwd=tmp_path).code == 0


def test_a_long_reason_is_cut(tmp_path: Path) -> None:
    run = ended(tmp_path, reason="failed", message="no " * 600)
    (sentence,) = sentences.answer(overhead.analyse(RunFolder.open(run)))
    assert len(sentence) < 700
    assert "more characters" in sentence
