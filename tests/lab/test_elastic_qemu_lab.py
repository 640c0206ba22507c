"""Elastic runs on virtual machines, with the agent as init."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import elastickit as kit
from ullage.experiments.elastic.folder import Ready, Release

pytestmark = [pytest.mark.lab, pytest.mark.root]


def test_machines_come_and_go(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    plan = kit.write_plan(
        tmp_path,
        "{node: {provider: qemu, disk: {size: 64MiB}}}",
        memory="256MiB",
        viewers=4,
        patience=240,
    )
    done = kit.run("run", str(plan), "--runs", str(runs))
    assert done.returncode == 0, done.stderr
    assert [session["outcome"] for session in kit.sessions(runs)] == ["served"] * 4
    ready = [act for act in kit.acts(runs) if isinstance(act, Ready)]
    assert all(act.stages["TiI"] > 0 for act in ready)
    released = {act.node for act in kit.acts(runs) if isinstance(act, Release)}
    assert released == {act.node for act in ready}
    assert not kit.left_by(runs)
