"""Docker and Podman: nodes of an elastic run, and instances made one and two at a time."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import dockerkit
from tests.lab import elastickit as kit
from tests.lab.traces import left_by
from ullage.experiments.elastic.folder import Ready, Release
from ullage.runs.allocations import Batch
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]

PROVISIONING = """\
name: engines
baseline: node
resources: {{cpus: 1, memory: 256MiB}}
environments:
  node: {{provider: oci, runtime: {runtime}}}
workloads:
  - {{name: provisioning, copy: {copy}, limit_s: 300, count: 2}}
blocks: {{min: 1, max: 1}}
"""


@pytest.fixture(scope="module", params=["docker", "podman"])
def runtime(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    name = str(request.param)
    if name == "docker":
        with dockerkit.daemon(tmp_path_factory.mktemp("docker")):
            yield name
    elif shutil.which("podman") is None:
        pytest.skip("no podman")
    else:
        yield name


def containers(runtime: str) -> list[str]:
    argv = [runtime, "ps", "--all", "--format", "{{.Names}}"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def test_nodes_come_and_go(tmp_path: Path, runtime: str) -> None:
    runs = tmp_path / "runs"
    environments = f"{{node: {{provider: oci, runtime: {runtime}}}}}"
    plan = kit.write_plan(tmp_path, environments, viewers=4, patience=240)
    done = kit.run("run", str(plan), "--runs", str(runs))
    assert done.returncode == 0, done.stderr
    assert f"({runtime})" in done.stdout
    assert [session["outcome"] for session in kit.sessions(runs)] == ["served"] * 4
    ready = [act for act in kit.acts(runs) if isinstance(act, Ready)]
    assert ready
    assert all(act.attempts == 1 and act.stages["TiI"] > 0 for act in ready)
    released = {act.node for act in kit.acts(runs) if isinstance(act, Release)}
    assert released == {act.node for act in ready}
    (tag,) = kit.tags(runs)
    assert not [name for name in containers(runtime) if tag in name]
    assert not kit.left_by(runs)


def provision(tmp_path: Path, runtime: str, copy: str) -> subprocess.CompletedProcess[str]:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PROVISIONING.format(runtime=runtime, copy=copy), encoding="utf-8")
    argv = [sys.executable, "-m", "ullage", "run", str(plan), "--runs", str(tmp_path / "runs")]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_instances_are_made_and_taken_away(tmp_path: Path, runtime: str) -> None:
    done = provision(tmp_path, runtime, "backing")
    assert done.returncode == 0, done.stderr
    assert not left_by(tmp_path / "runs")
    (path,) = (tmp_path / "runs").iterdir()
    trials = RunFolder.open(path).trials
    assert {trial.environment for trial in trials} == {"node", "node~again"}
    for trial in trials:
        assert trial.status == "ok", trial.reason
        raw = path / "trials" / trial.trial / "main.stdout"
        batch = Batch.model_validate_json(raw.read_text(encoding="utf-8"))
        assert len(batch.instances) == 2
        assert all("replied" in instance.steps for instance in batch.instances)
        assert not [name for name in containers(runtime) if trial.trial in name]


def test_no_copy_is_made_of_what_it_keeps_itself(tmp_path: Path, runtime: str) -> None:
    done = provision(tmp_path, runtime, "real")
    assert done.returncode != 0
    assert "allocation-no-copy" in done.stderr
