"""Elastic runs whose nodes are instances of a cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.clouds import ec2
from tests.lab import elastickit as kit
from ullage.common.quantities import memory_bytes
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import Ready, Requested

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[ec2.Ec2Double]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANOTONE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-s3cret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with ec2.cloud() as here:
        here.wired = True
        yield here


def environments(cloud: ec2.Ec2Double) -> str:
    """The cloud's beside LXC."""
    resources = {"cpus": cloud.cpus, "memory": memory_bytes()}
    nodes = {"cloud": {**cloud.plan(), "resources": resources}, "node": {"provider": "lxc"}}
    return json.dumps(nodes)


def test_nodes_are_instances(cloud: ec2.Ec2Double, tmp_path: Path) -> None:
    plan = kit.write_plan(tmp_path, environments(cloud))
    done = kit.run("run", str(plan), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    place = folders.repetition_folder(run, "cloud", 0)
    acts = folders.read_acts(place)
    ready = [act for act in acts if isinstance(act, Ready)]
    assert ready and len(ready) == sum(isinstance(act, Requested) for act in acts)
    for act in ready:
        assert act.steps["addressed"] < act.steps["up"] < act.steps["replied"] == act.serving_ns
        assert act.stages["TiI"] > 0
    assert cloud.calls.count("RunInstances") == len(ready)
    assert cloud.left() == []
