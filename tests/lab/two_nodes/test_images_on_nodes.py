"""Images of environments' own, each on the machine where its environment stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.two_nodes.lab import Lab
from tests.host.container_image import imagekit
from tests.lab.traces import left_by
from tests.lab.two_nodes.labkit import clean, folder_of, machines, ullage

__all__ = ["machines"]

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: own-images
baseline: old
nodes:
  here: {{local: true}}
  a: {{ssh: root@node-a, config: {config}}}
  b: {{ssh: root@node-b, config: {config}}}
resources: {{cpus: 1, memory: 256MiB}}
environments:
  old: {{provider: native, image: {{oci: "docker-archive:{place}/old.tar"}}}}
  new: {{provider: oci, place: {{a: 1}}, image: {{oci: "docker-archive:{place}/new.tar"}}}}
  other: {{provider: lxc, place: {{b: 1}}, image: {{oci: "docker-archive:{place}/old.tar"}}}}
workloads:
  - name: command
    metrics: {{age: {{unit: s, better: lower, primary: true, regex: "age ([0-9]+)"}}}}
allow: [userland]
blocks: {{min: 1, max: 1}}
"""


def test_each_runs_from_its_own(machines: Lab, tmp_path: Path) -> None:
    for name, age in (("old", 7), ("new", 3)):
        layers = [imagekit.busybox()]
        imagekit.save(tmp_path / f"{name}.tar", layers, Entrypoint=["/bin/echo", f"age {age}"])
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(config=machines.config, place=tmp_path), encoding="utf-8")
    done = ullage("run", str(plan), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    ages = {t.environment: t.metrics["age"] for t in folder_of(tmp_path / "runs").trials}
    assert ages == {"old": 7, "old~again": 7, "new": 3, "other": 7}
    assert not left_by(tmp_path / "runs")
    assert clean(machines, "node-a") == clean(machines, "node-b") == []
