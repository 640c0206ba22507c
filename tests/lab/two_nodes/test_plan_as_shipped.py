"""`docs/plans/two-nodes.yaml`, as it is in the docs but for the machines' names and the sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.two_nodes.lab import Lab
from tests.lab.traces import left_by
from tests.lab.two_nodes.labkit import clean, folder_of, machines, ullage

__all__ = ["machines"]

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.root, pytest.mark.timeout(1500)]

SHIPPED = Path(__file__).parents[3] / "docs/plans/two-nodes.yaml"
BESIDE = (
    ("network to a second instance, 1 stream", "network to an instance on another node, 1 stream"),
    ("MPI messages to a second instance", "MPI messages to an instance on another node"),
    ("HDFS, 2 × 1 MiB, 1 job", "HDFS, 2 × 1 MiB, 1 job, blocks on another node"),
)
"""Local, remote."""


def small(ours: Lab) -> str:
    """The plan, with the lab's way to its machines, and with little work."""
    text = SHIPPED.read_text(encoding="utf-8")
    changes = {
        "{ssh: root@node-a}": f"{{ssh: root@node-a, config: {ours.config}}}",
        "{ssh: root@node-b}": f"{{ssh: root@node-b, config: {ours.config}}}",
        "largest: 1MiB": "largest: 1KiB",
        "max_size: 1MiB": "max_size: 1KiB",
        "{name: testdfsio, vary": "{name: testdfsio, file_size: 1MiB, vary",
        "blocks: {min: 6, max: 20}": "blocks: {min: 1, max: 1}\nseed: 5",
    }
    for shipped, ours_now in changes.items():
        assert text.count(shipped) == 1
        text = text.replace(shipped, ours_now)
    return text


def test_local_stands_beside_remote(machines: Lab, tmp_path: Path) -> None:
    plan = tmp_path / "two-nodes.yaml"
    plan.write_text(small(machines), encoding="utf-8")
    done = ullage("run", str(plan), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    folder = folder_of(tmp_path / "runs")
    assert {trial.status for trial in folder.trials} == {"ok"} and len(folder.trials) == 36
    assert "datagrams to " in folder.resolved.nodes["a"].facts["clock"]
    page = (folder.path / "report.html").read_text(encoding="utf-8")
    for local, remote in BESIDE:
        assert local in page and remote in page
    assert not left_by(tmp_path / "runs")
    assert clean(machines, "node-a") == clean(machines, "node-b") == []
