"""What a run is labelled with: in the plan, by an option, and in the folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import commandkit
from tests.support.commandkit import Done

PLAN = """\
name: labelled
baseline: native
image: host
labels: {commit: old, branch: main}
environments:
  native: {provider: native}
  other: {provider: native}
workloads:
  - {name: command, argv: ["true"]}
blocks: {min: 1, max: 1}
"""
ullage = commandkit.in_this_process("run")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    return file


@pytest.mark.root
def test_an_option_is_added_to_the_plans_and_kept(
    plan: Path, ullage: Callable[..., Done], tmp_path: Path
) -> None:
    done = ullage(str(plan), "--label", "commit=3f2a9c1", "--runs", str(tmp_path / "runs"))
    assert done.code == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    resolved = json.loads((folder / "resolved.json").read_text())
    assert resolved["labels"] == {"commit": "3f2a9c1", "branch": "main"}


@pytest.mark.parametrize("label", ["Commit=1", "a=\x1b[2J", f"a={'x' * 201}", "commit"])
def test_a_label_that_no_plan_may_have(plan: Path, ullage: Callable[..., Done], label: str) -> None:
    done = ullage(str(plan), "--label", label)
    assert done.code == 2
    assert "--label" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_run_that_is_taken_up_keeps_its_own(ullage: Callable[..., Done]) -> None:
    done = ullage("--resume", "x", "--label", "a=b")
    assert done.code == 2
    assert "keeps those that it has" in done.stderr
