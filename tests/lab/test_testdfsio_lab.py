"""TestDFSIO on a real HDFS in containers, by YARN's containers; and what only looks so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lab.runkit import finished

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: yarn
baseline: container
resources: {cpus: 1, memory: 2GiB}
environments:
  container: {provider: oci}
workloads:
  - {name: testdfsio, runner: yarn, files: 3, file_size: 4MiB, datanode: same}
blocks: {min: 1, max: 1}
"""
BOTH = PLAN.replace("oci}", "oci}\n  system: {provider: lxc}")
FALLS_BACK = """
from ullage.workloads.bigdata.testdfsio import DfsIo
from dataclasses import replace
real = DfsIo.tasks
def tasks(self, parameters, context):
    for task in real(self, parameters, context):
        yield replace(task, argv=tuple("local" if a == "yarn" else a for a in task.argv))
DfsIo.tasks = tasks
"""


def kept_paths(log: str) -> set[str]:
    """What was made in HDFS, by the NameNode's audit, and is not below what each trial deletes."""
    done = re.findall(r"\tcmd=(create|mkdirs|delete)\tsrc=(\S+)\t", log)
    created = {path for command, path in done if command != "delete"}
    assert created
    deleted = [path for command, path in done if command == "delete"]
    return {path for path in created if not any(f"{path}/".startswith(f"{d}/") for d in deleted)}


def test_yarn_runs_the_map_tasks_and_keeps_nothing(tmp_path: Path) -> None:
    status, folder = finished(tmp_path, BOTH)
    assert status == 0 and len(folder.trials) == 3
    assert {trial.environment for trial in folder.trials} >= {"container", "system"}
    applications: list[str] = []
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        write, read = trial.facts["applications"].split(", ")
        assert re.fullmatch(r"application_\d+_0001", write)
        assert re.fullmatch(r"application_\d+_0002", read)
        applications += [write, read]
        log = folder.path / "trials" / trial.trial / "namenode.stderr"
        assert not kept_paths(log.read_text())
        for name in ("seconds", "write_throughput", "read_throughput"):
            figure = trial.metrics[name]
            assert isinstance(figure, float) and figure > 0
    assert len(set(applications)) == 6, "each trial has a ResourceManager of its own"


def test_a_job_that_falls_back_to_its_own_java_machine_has_no_figures(tmp_path: Path) -> None:
    status, folder = finished(tmp_path, PLAN, FALLS_BACK)
    assert status != 0 and folder.trials
    for trial in folder.trials:
        assert trial.status == "invalid" and not trial.metrics
        assert trial.reason is not None
        assert "ran in the job's own Java machine, not on YARN" in trial.reason.message
