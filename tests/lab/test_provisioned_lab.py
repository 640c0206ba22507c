"""Instances really made, one and several at once, and nodes simulated that take as long."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ullage.cli.main import app

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: provisioning
baseline: native
resources: {cpus: 1, memory: 256MiB}
environments:
  native: {provider: native}
  lxc: {provider: lxc}
workloads:
  - {name: provisioning, vary: {count: [1, 2, 4]}}
blocks: {min: 3, max: 3}
"""
SPEC = """\
name: as measured
room: 5
nodes: {allocation: one_per_need}
arrivals: {kind: surge, rate: 0.05, peak: 5, at: 60s, for: 5s, viewers: 60}
video: {length: 60s}
patience: 1m
allocation: {run: RUN, environment: ENVIRONMENT}
"""


def called(*argv: str) -> str:
    result = CliRunner().invoke(app, [*argv])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_real_provisioning_run_tells_the_simulator_how_slow_it_is(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    called("run", str(tmp_path / "plan.yaml"), "--runs", str(tmp_path / "runs"))
    (run,) = (tmp_path / "runs").iterdir()
    for environment in ("native", "lxc"):
        text = SPEC.replace("RUN", str(run)).replace("ENVIRONMENT", environment)
        (tmp_path / "spec.yaml").write_text(text)
        outcome = json.loads(called("elastic", "simulate", str(tmp_path / "spec.yaml"), "--json"))
        journal = (run / "journal.jsonl").read_text().splitlines()
        trials = [line for line in map(json.loads, journal) if line["event"] == "trial"]
        took = [
            seconds
            for trial in trials
            if trial["environment"] == environment
            for _, seconds in trial["metrics"]["allocated"]
        ]
        assert len(took) == 3 * (1 + 2 + 4)
        # The times are since the first request; each instance's own is a little later.
        assert 0 < outcome["allocation"]["mean_s"] <= max(took)
        assert outcome["viewers"]["finished"] == 60
