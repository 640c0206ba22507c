"""The pipelines of docs/guide/ci.md as they stand there, with a shell in place of the runner."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
import yaml

PAGE: Final = Path(__file__).parents[2] / "docs/guide/ci.md"
BLOCKS: Final = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
PLAN, GITHUB, GITLAB, PAIR_PLAN, PAIR_GITHUB = BLOCKS
SLEEP: Final = 'argv: [sleep, "0.05"]'
PRINTED: Final = """argv: [shuf, --input-range=98-102, --head-count=1],
     metrics: {took: {unit: ms, better: lower, primary: true, line: last}}"""
"""A figure that the program prints: how busy this host is moves no verdict."""
SHORT: Final = PLAN.replace("{min: 12, max: 12}", "{min: 6, max: 6}").replace(SLEEP, PRINTED)
pytestmark = pytest.mark.root


def commands(pipeline: str, event: str) -> list[str]:
    """What either service runs when a change has landed (`push`), or is proposed."""
    document: Any = yaml.safe_load(pipeline)
    if "jobs" in document:
        steps = document["jobs"]["bench"]["steps"]
        return [step["run"] for step in steps if "run" in step and f"'{event}'" in step["if"]]
    script: list[str] = document["measure" if event == "push" else "gate"]["script"]
    return script


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "bench.yaml").write_text(SHORT)
    return tmp_path


def play(checkout: Path, pipeline: str, event: str) -> int:
    """Each command by `bash -e`, as both services do, until one fails."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_SHA": "3f2a9c1",
        "GITHUB_BASE_REF": "main",
        "CI_COMMIT_SHA": "3f2a9c1",
        "GITHUB_STEP_SUMMARY": str(checkout / "summary.md"),
    }
    for command in commands(pipeline, event):
        done = subprocess.run(
            ["bash", "-e", "-c", command], cwd=checkout, env=environment, check=False
        )
        if done.returncode:
            return done.returncode
    return 0


def test_github_s_fails_when_it_takes_longer(checkout: Path) -> None:
    assert play(checkout, GITHUB, "push") == 0
    slower = SHORT.replace("98-102", "198-202")
    assert slower != SHORT != PLAN
    (checkout / "bench.yaml").write_text(slower)
    assert play(checkout, GITHUB, "pull_request") == 2, "another plan is no baseline"
    relaxed = GITHUB.replace("--baseline baseline", "--baseline baseline --allow plan")
    assert play(checkout, relaxed, "pull_request") == 1
    assert "### ullage gate: failed" in (checkout / "summary.md").read_text()


def test_gitlab_s_passes_what_is_as_it_was(checkout: Path) -> None:
    assert play(checkout, GITLAB, "push") == 0
    assert (checkout / "baseline/resolved.json").exists()
    assert play(checkout, GITLAB, "merge_request") == 0
    assert ElementTree.parse(checkout / "gate.xml").getroot()[0].attrib["failures"] == "0"


def commit(checkout: Path, message: str) -> None:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@localhost")
    for command in (("add", "-A"), (*who, "commit", "--quiet", "-m", message)):
        subprocess.run(["git", *command], cwd=checkout, check=True)


@pytest.fixture
def proposed(tmp_path: Path) -> Path:
    """A clone in which a change stands on top of `origin/main`."""
    upstream, clone = tmp_path / "upstream", tmp_path / "clone"
    subprocess.run(["git", "init", "--quiet", "-b", "main", str(upstream)], check=True)
    (upstream / "Makefile").write_text("app: app.sh\n\tinstall app.sh app\n")
    (upstream / "app.sh").write_text("#!/bin/sh\nexec shuf -i 98-102 -n 1\n")
    figures = "metrics: {took: {unit: ms, better: lower, primary: true, line: last}}}"
    plan = PAIR_PLAN.replace("/app]}", f"/app], {figures}").replace("/tmp/bench", f"{tmp_path}")
    assert plan.count(figures) == 2
    (upstream / "pair.yaml").write_text(plan)
    commit(upstream, "as it was")
    subprocess.run(["git", "clone", "--quiet", str(upstream), str(clone)], check=True)
    return clone


@pytest.mark.parametrize(("takes", "status"), [("198-202", 1), ("98-102", 0)])
def test_old_and_new_are_built_and_run_in_one_run(proposed: Path, takes: str, status: int) -> None:
    text = (proposed / "app.sh").read_text().replace("98-102", takes)
    (proposed / "app.sh").write_text(f"{text}# changed\n")
    commit(proposed, "a change")
    pipeline = PAIR_GITHUB.replace("/tmp/bench", str(proposed.parent))
    assert play(proposed, pipeline, "pull_request") == status
    summary = (proposed / "summary.md").read_text()
    assert f"### ullage gate: {'failed' if status else 'passed'}" in summary
