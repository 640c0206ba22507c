"""Elastic runs on OCI containers, from the host's own NGINX and from an image of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.lab import elastickit as kit
from ullage.experiments.elastic.folder import Ready

pytestmark = [pytest.mark.lab, pytest.mark.root]


@pytest.mark.parametrize("image", ["host", "built"])
def test_nodes_come_and_go(tmp_path: Path, image: str) -> None:
    if image == "host" and shutil.which("nginx") is None:
        pytest.skip("no NGINX on this host")
    runs = tmp_path / "runs"
    plan = kit.write_plan(tmp_path, "{node: {provider: oci}}")
    plan.write_text(f"{plan.read_text(encoding='utf-8')}image: {image}\n", encoding="utf-8")
    done = kit.run("run", str(plan), "--runs", str(runs), "--json")
    assert done.returncode == 0, done.stderr
    assert [session["outcome"] for session in kit.sessions(runs)] == ["served"] * 8
    assert sum(isinstance(act, Ready) for act in kit.acts(runs)) >= 2
    assert not kit.left_by(runs)
