"""One job on a real OpenStack: a plan, an allocation series and an elastic run on its servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.real_openstack.plans import CLOUD, PLAN, elastic, keys, listed
from tests.lab.real_openstack.stack import Stack
from tests.lab.runkit import finished
from ullage.experiments.elastic.folder import Ready
from ullage.runs.events import Synchronised
from ullage.runs.reader import RunFolder

# Each instance is emulated: 15 minutes from a prepared folder, five more from nothing.
pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(3600)]

ALLOCATION = f"""\
name: openstack-allocation
baseline: lxc
resources: {{cpus: 1, memory: 512MiB}}
allow: [pinning]
environments:
  lxc: {{provider: lxc}}
  cloud: {CLOUD}
workloads:
  - {{name: provisioning, limit_s: 1800, vary: {{count: [1, 2, 4, 8]}}}}
blocks: {{min: 1, max: 1}}
seed: 1
"""


def test_a_plan_beside_native_and_lxc(stack: Stack, tmp_path: Path) -> None:
    status, folder = finished(tmp_path, PLAN)
    assert [t.reason for t in folder.trials if t.status != "ok"] == []
    assert status == 0
    records = {one.key: one for one in folder.resolved.environments}
    assert records["cloud"].label == "openstack lab"
    assert records["cloud"].treatments["idle"] == "paused"
    assert records["cloud"].nuisances["userland"] == records["native"].nuisances["userland"]
    looks = [e for e in folder.events if isinstance(e, Synchronised) and e.environment == "cloud"]
    thaws = [number for number, look in enumerate(looks) if look.why == "thaw"]
    assert thaws and thaws[0] > 0, "it stood still"
    for number in thaws:
        before, look = looks[number - 1], looks[number]
        assert look.offset_ns + look.hard_ns < before.offset_ns - before.hard_ns, "it lost time"
    for trial in folder.trials:
        assert all(clock.hard_ns > 0 for clock in trial.clocks.values())
    _seconds(folder)
    assert listed() == []
    assert "ullage" not in keys(stack)


def _seconds(folder: RunFolder) -> None:
    for environment in ("native", "lxc", "cloud"):
        rates = [t.metrics for t in folder.trials if t.environment == environment]
        print(environment, rates)
        assert rates


def test_one_two_four_and_eight_at_once(stack: Stack, tmp_path: Path) -> None:
    status, folder = finished(tmp_path, ALLOCATION)
    for trial in folder.trials:
        print(trial.environment, trial.workload, trial.metrics, trial.reason)
    assert status == 0
    for trial in folder.trials:
        if trial.environment == "cloud":
            parts = [trial.metrics[part] for part in ("choose_time", "copy_time", "boot_time")]
            assert all(isinstance(part, float) and part > 0 for part in parts), "the cloud's own"
    assert listed() == []


def test_an_elastic_run_whose_nodes_are_its_servers(stack: Stack, tmp_path: Path) -> None:
    acts, figures = elastic(tmp_path, "40m")
    ready = [act for act in acts if isinstance(act, Ready)]
    assert len(ready) == 2
    for act in ready:
        stages = act.stages
        assert all(stages[part] > 0 for part in ("TeF", "TcI", "TiI", "contextualisation"))
        assert stages["contextualisation"] + stages["furnishing"] < stages["TiI"] + 1
    assert figures["blocked"] == 0
    assert 0 < figures["tar_bare"] < figures["tar"]
    assert figures["cost_per_viewer"] > 0
