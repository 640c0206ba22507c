"""Viewers who come from several machines: containers, and VMs with clocks of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab import elastickit as kit
from ullage.experiments.elastic import folder as folders

pytestmark = [pytest.mark.lab, pytest.mark.root]

MACHINES = {
    "oci": "{number: 2, provider: oci, resources: {cpus: 1, memory: 128MiB}}",
    "qemu": "{number: 2, provider: qemu, boot: agent, disk: {size: 64MiB}}",
}


def summary(runs: Path) -> dict[str, Any]:
    (file,) = runs.glob(f"*/{folders.REPETITIONS}/*/*/{folders.VIEWERS}")
    viewers: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return viewers


@pytest.mark.parametrize("provider", MACHINES)
def test_viewers_come_from_two_machines(tmp_path: Path, provider: str) -> None:
    runs = tmp_path / "runs"
    plan = kit.write_plan(tmp_path, "{node: {provider: lxc}}")
    text = f"{plan.read_text(encoding='utf-8')}generators: {MACHINES[provider]}\n"
    plan.write_text(text, encoding="utf-8")
    done = kit.run("run", str(plan), "--runs", str(runs), "--json")
    assert done.returncode == 0, done.stderr
    assert sorted(session["client"] for session in kit.sessions(runs)) == list(range(8))
    assert [session["outcome"] for session in kit.sessions(runs)] == ["served"] * 8
    viewers = summary(runs)
    assert [generator["due"] for generator in viewers["generators"]] == [4, 4]
    for generator in viewers["generators"]:
        assert generator["clock_shared"] == (provider == "oci")
        assert abs(generator["zero_off_ns"]) <= generator["clock_bound_ns"]
    assert not kit.left_by(runs)
