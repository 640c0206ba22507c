"""`ullage gate run` on this machine: what became slower fails, what did not passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.common import errors
from ullage.runs.reader import RunFolder

PLAN = """\
name: printer
baseline: native
image: host
environments:
  native: {{provider: native}}
  other: {{provider: native}}
workloads:
  - name: command
    argv: [echo, "took {seconds} s"]
    metrics: {{took: {{unit: s, better: lower, primary: true, regex: 'took ([0-9.]+) s'}}}}
blocks: {{min: {blocks}, max: {blocks}}}
"""
gate = commandkit.in_this_process("gate")
pytestmark = pytest.mark.root


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    (tmp_path / "plan.yaml").write_text(PLAN.format(seconds=1.0, blocks=6))
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
    plan.write_text(PLAN.format(seconds=4.0, blocks=6))
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
    """Three blocks show nothing; six of a figure that never moves do."""
    plan = tmp_path / "short.yaml"
    plan.write_text(PLAN.format(seconds=1.0, blocks=3))
    line = ("--baseline", str(baseline), "--worse-than", "3%", "--allow", "plan", "--json")
    short = gate("run", str(plan), *line)
    assert (short.code, json.loads(short.stdout)["outcome"]) == (1, "inconclusive")
    longer = gate("run", str(plan), *line, "--inconclusive", "extend", "--extend", "10m")
    document = json.loads(longer.stdout)
    assert (longer.code, document["outcome"]) == (0, "within"), longer.stderr
    folder = RunFolder.open(tmp_path / "runs" / document["new"])
    assert len(folder.complete_blocks) == 6


@pytest.mark.parametrize(
    ("plan", "arguments", "says"),
    [
        (PLAN, ("--label", "BAD NAME=x"), "--label: up to 16 names"),
        (
            PLAN.replace("other: {{provider", "other: {{resources: {{cpus: 0.5}}, provider"),
            ("--allow", "plan"),
            errors.PARITY_UNEQUAL.code,
        ),
        (
            PLAN.replace("max: {blocks}", "max: {blocks}, until: {{half_width: 5%}}"),
            ("--inconclusive", "extend"),
            "`until:` may end the run",
        ),
    ],
)
def test_what_run_refuses_it_refuses(
    tmp_path: Path,
    baseline: Path,
    gate: Callable[..., Done],
    plan: str,
    arguments: tuple[str, ...],
    says: str,
) -> None:
    (tmp_path / "plan.yaml").write_text(plan.format(seconds=1.0, blocks=6))
    line = ("--baseline", str(baseline), "--worse-than", "90%", *arguments)
    refused = gate("run", str(tmp_path / "plan.yaml"), *line)
    assert refused.code == 2
    assert says in refused.stderr
    assert len(list((tmp_path / "runs").iterdir())) == 1


PAIRED = """\
name: printers
baseline: native
image: host
environments:
  native: {provider: native}
workloads:
  - name: command
    as: old
    argv: [echo, "took 1.0 s"]
    metrics: &figures {took: {unit: s, better: lower, primary: true, regex: 'took ([0-9.]+) s'}}
  - {name: command, as: new, argv: [echo, "took 1.0 s"], metrics: *figures}
blocks: {min: 3, max: 3}
"""


def test_old_and_new_in_the_blocks_of_one_run(tmp_path: Path, gate: Callable[..., Done]) -> None:
    """No baseline of before; three blocks show nothing, six of a figure that never moves do."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(PAIRED)
    line = ("--pair", "new=old", "--worse-than", "3%", "--inconclusive", "extend", "--json")
    same = gate("run", str(plan), *line)
    document = json.loads(same.stdout)
    assert (same.code, document["outcome"]) == (0, "within"), same.stderr
    assert len(RunFolder.open(tmp_path / "runs" / document["new"]).complete_blocks) == 6
    plan.write_text(
        PAIRED.replace('as: new, argv: [echo, "took 1.0', 'as: new, argv: [echo, "took 1.4')
    )
    slower = gate("run", str(plan), *line)
    assert (slower.code, json.loads(slower.stdout)["outcome"]) == (1, "worse")


def test_a_pair_that_the_plan_lacks_is_told_before_it_runs(
    tmp_path: Path, gate: Callable[..., Done]
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PAIRED)
    refused = gate("run", str(plan), "--pair", "new=before", "--worse-than", "3%")
    assert refused.code == 2
    assert errors.GATE_NO_PAIR.code in refused.stderr
    assert not (tmp_path / "runs").exists()


def test_what_stays_open_may_pass_after_all_the_time(
    tmp_path: Path, gate: Callable[..., Done]
) -> None:
    """A line of 0 and two programs that are the same: they are shown to be neither."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(PAIRED)
    line = ("--pair", "new=old", "--worse-than", "0", "--extend", "0.1s", "--json")
    failed = gate("run", str(plan), *line, "--inconclusive", "extend")
    assert (failed.code, json.loads(failed.stdout)["outcome"]) == (1, "inconclusive")
    passed = gate("run", str(plan), *line, "--inconclusive", "extend-pass")
    assert (passed.code, json.loads(passed.stdout)["outcome"]) == (0, "inconclusive")
