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
PLAN, GITHUB, GITLAB = BLOCKS
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
