"""Elastic runs whose nodes are instances of a cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.clouds.ec2 import Ec2Double
from tests.lab import doublekit, elastickit
from tests.lab.doublekit import Double
from ullage.common import errors
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import Act, NotReady, Ready, Requested

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


@pytest.fixture
def cloud(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Double]:
    name = getattr(request, "param", "ec2")
    with doublekit.standing(name, tmp_path, monkeypatch) as double:
        double.wired = True
        yield double


def ran(place: Path, plan: str) -> tuple[Path, dict[str, dict[str, float]]]:
    """Where its acts are, and environment → its figures."""
    file = place / "plan.yaml"
    file.write_text(plan)
    done = elastickit.run("run", str(file), "--runs", str(place / "runs"), "--json")
    assert done.returncode == 0, done.stderr
    (run,) = (place / "runs").iterdir()
    environments: list[Any] = json.loads(done.stdout)["environments"]
    figures = {
        one["key"]: {estimate["metric"]: estimate["mean"] for estimate in one["estimates"]}
        for one in environments
    }
    return run, figures


def acts(run: Path, environment: str) -> tuple[Act, ...]:
    return folders.read_acts(folders.repetition_folder(run, environment, 0))


def began_ns(run: Path, environment: str) -> int:
    """From then on viewers came."""
    outcome = folders.read_outcome(folders.repetition_folder(run, environment, 0))
    assert outcome is not None
    return outcome.start_ns


@pytest.mark.parametrize("cloud", doublekit.NAMES, indirect=True)
def test_nodes_are_instances(cloud: Double, tmp_path: Path) -> None:
    run, figures = ran(tmp_path, doublekit.elastic(cloud))
    done = acts(run, "cloud")
    ready = [act for act in done if isinstance(act, Ready)]
    assert len(ready) == 2
    assert len([act for act in done if isinstance(act, Requested)]) == 2
    for act in ready:
        assert act.steps["addressed"] < act.steps["up"] < act.steps["replied"] == act.serving_ns
        assert act.stages["TiI"] > 0
    assert figures["cloud"]["blocked"] == 0
    assert figures["cloud"]["tar"] > 0
    assert "tar_bare" not in figures["cloud"], "its kernel is this host's, and began long before"
    assert figures["cloud"]["cost_per_viewer"] > 0
    assert cloud.left() == []


def test_a_pool_had_beforehand_beside_none(cloud: Double, tmp_path: Path) -> None:
    """As a factor: two environments of one cloud, and in one of them a node is kept."""
    run, figures = ran(tmp_path, doublekit.elastic(cloud, kept=True))
    for environment, before in (("cloud", 0), ("kept", 1)):
        began = began_ns(run, environment)
        ready = [act for act in acts(run, environment) if isinstance(act, Ready)]
        assert len(ready) == 2
        assert len([act for act in ready if act.serving_ns < began]) == before
    assert figures["kept"]["blocked"] == figures["cloud"]["blocked"] == 0
    assert figures["kept"]["waited"] < figures["cloud"]["waited"]
    assert cloud.left() == []


def test_who_is_blocked_by_a_full_cloud(cloud: Double, tmp_path: Path) -> None:
    """The second node is refused, and whoever waits for it is not blocked by slowness."""
    assert isinstance(cloud, Ec2Double)
    cloud.room, cloud.trouble = 1, cloud.full
    run, figures = ran(tmp_path, doublekit.elastic(cloud, patience="20s"))
    refusals = [act for act in acts(run, "cloud") if isinstance(act, NotReady)]
    assert refusals and {act.code for act in refusals} == {errors.CLOUD_QUOTA.code}
    assert 0 < figures["cloud"]["blocked_full"] <= figures["cloud"]["blocked"]
    assert "blocked_full" not in figures["lxc"]
    assert cloud.left() == []
