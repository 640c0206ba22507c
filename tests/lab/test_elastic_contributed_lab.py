"""CONTRIBUTING's provider, added to a copy of the package, has nodes that stream to viewers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import test_contributing as guide
from tests.lab import elastickit as kit
from ullage.experiments.elastic.folder import Ready, Release

pytestmark = [pytest.mark.lab, pytest.mark.root]

copy = guide.copy


def test_nodes_and_generators_of_a_new_provider(copy: Path, tmp_path: Path) -> None:
    (copy / "ullage/bin").symlink_to(guide.ROOT / "ullage/bin")
    runs = tmp_path / "runs"
    plan = kit.write_plan(tmp_path, "{bare: {provider: unshare}}", baseline="bare", viewers=4)
    generators = "generators: {number: 1, provider: unshare}\n"
    plan.write_text(plan.read_text(encoding="utf-8") + generators, encoding="utf-8")
    argv = ("-m", "ullage", "elastic", "run", str(plan), "--runs", str(runs), "--json")
    analysis = json.loads(guide.python(copy, *argv, timeout_s=1000))
    assert [environment["key"] for environment in analysis["environments"]] == ["bare"]
    assert [session["outcome"] for session in kit.sessions(runs)] == ["served"] * 4
    ready = [act for act in kit.acts(runs) if isinstance(act, Ready)]
    assert ready and all(act.attempts == 1 for act in ready)
    released = {act.node for act in kit.acts(runs) if isinstance(act, Release)}
    assert released == {act.node for act in ready}
    assert not kit.left_by(runs)
