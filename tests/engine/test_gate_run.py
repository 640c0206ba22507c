"""`ullage gate run` on this machine: what became slower fails, what did not passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.common import errors

PLAN = """\
name: sleeper
baseline: native
image: host
environments:
  native: {{provider: native}}
  other: {{provider: native}}
workloads:
  - {{name: command, argv: [sleep, "{seconds}"]}}
blocks: {{min: 6, max: 6}}
"""
gate = commandkit.in_this_process("gate")
pytestmark = pytest.mark.root


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    (tmp_path / "plan.yaml").write_text(PLAN.format(seconds=0.1))
    done = commandkit.ullage("run", "plan.yaml", cwd=tmp_path)
    assert done.code == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    return folder


def test_it_passes_and_fails_by_what_is_run(
    tmp_path: Path, baseline: Path, gate: Callable[..., Done]
) -> None:
    plan = tmp_path / "plan.yaml"
    line = ("--baseline", str(baseline), "--worse-than", "90%", "--json")
    same = gate("run", str(plan), *line)
    document = json.loads(same.stdout)
    assert (same.code, document["outcome"]) == (0, "within"), same.stderr
    plan.write_text(PLAN.format(seconds=0.4))
    refused = gate("run", str(plan), *line)
    assert refused.code == 2
    assert errors.GATE_NOT_ALIKE.code in refused.stderr
    assert len(list((tmp_path / "runs").iterdir())) == 2, "it was told before anything ran"
    slower = gate("run", str(plan), *line, "--allow", "plan", "--label", "commit=abc")
    document = json.loads(slower.stdout)
    assert (slower.code, document["outcome"]) == (1, "worse")
    assert document["labels"] == {"commit": "abc"}


def test_more_blocks_are_made_while_nothing_is_shown(
    tmp_path: Path, baseline: Path, gate: Callable[..., Done]
) -> None:
    """A line of a tenth of a per mille is never shown; the baseline's own blocks are the limit."""
    policy = ("--inconclusive", "extend", "--extend", "20s", "--worse-than", "0.01%")
    done = gate("run", str(tmp_path / "plan.yaml"), "--baseline", str(baseline), *policy)
    assert done.code == 1
    assert "are shown to be neither" in done.stdout or "shown to be more than" in done.stdout
