"""Whole runs on this machine's clouds: the plan of the real OpenStack, kills, what vanishes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.clouds.ec2 import Ec2Double
from tests.environments.clouds import cloudkit
from tests.lab import doublekit as kit
from tests.lab.doublekit import Double
from tests.lab.elastickit import wait
from tests.lab.real_openstack.test_openstack_lab import ALLOCATION
from tests.lab.runkit import finished
from ullage.common import errors
from ullage.host import leftovers, user_commands
from ullage.runs.reader import RunFolder, sessions

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

SLEEP = ("sleep", "2.625")
"""Nobody else's."""


@pytest.fixture(params=kit.NAMES)
def cloud(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Double]:
    with kit.standing(request.param, tmp_path, monkeypatch) as double:
        yield double


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where no credentials lie."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def begun(place: Path, plan: str) -> subprocess.Popen[str]:
    file = place / "plan.yaml"
    file.write_text(plan)
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(place / "runs")]
    with (place / "stderr").open("w") as stderr:
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=stderr, text=True)


def sleeping(cloud: Double, **more: Any) -> str:
    """A small image, and work in whose midst something may happen."""
    work = f"{{name: command, argv: {json.dumps(SLEEP)}}}"
    return kit.plan(cloud, **more).replace("{name: sysbench-cpu, time_s: 1}", work)


def run_of(place: Path) -> Path:
    (folder,) = (place / "runs").iterdir()
    return folder


def test_the_same_plan_beside_native_and_lxc(cloud: Double, place: Path) -> None:
    status, folder = finished(place, kit.plan(cloud))
    assert [trial.reason for trial in folder.trials if trial.status != "ok"] == []
    assert status == 0
    for environment in ("native", "lxc", "cloud"):
        assert len([one for one in folder.trials if one.environment == environment]) == 3
    records = {one.key: one for one in folder.resolved.environments}
    pauses = cloud.plan()["provider"] == "openstack"
    assert records["cloud"].label == f"{cloud.plan()['provider']} lab.host"
    assert records["cloud"].treatments["idle"] == ("paused" if pauses else "not frozen")
    assert records["cloud"].nuisances["pinning"] == f"by {cloud.plan()['provider']}"
    assert records["cloud"].nuisances["userland"] == records["native"].nuisances["userland"]
    assert cloud.left() == []
    for file in place.rglob("*"):
        if file.is_file():
            assert kit.SECRET not in file.read_bytes(), file
            assert b"PRIVATE KEY" not in file.read_bytes(), file


def test_one_and_two_at_once(cloud: Double, place: Path) -> None:
    """By their own addresses, not on the run's network."""
    cloud.wired = True
    few = ALLOCATION.replace("[1, 2, 4, 8]", "[1, 2]")
    status, folder = finished(place, kit.plan(cloud, few))
    assert [trial.reason for trial in folder.trials if trial.status != "ok"] == []
    assert status == 0
    trials = [trial for trial in folder.trials if trial.environment == "cloud"]
    assert len(trials) == 2
    for trial in trials:
        for part in ("choose_time", "copy_time", "boot_time", "reply_time"):
            seconds = trial.metrics[part]
            assert isinstance(seconds, float) and seconds > 0
    assert cloud.left() == []


def test_one_that_vanishes_in_mid_trial(cloud: Double, place: Path) -> None:
    """Its trial fails, and says why; the next one has an instance that was made anew."""
    line = "\0".join(SLEEP).encode() + b"\0"
    spot = {"spot": True} if isinstance(cloud, Ec2Double) else {}
    with begun(place, sleeping(cloud, **spot)) as controller:
        wait(controller, lambda: line in kit.inside(cloud))
        cloud.vanish()
        assert controller.wait(400) == 3, (place / "stderr").read_text()
    folder = RunFolder.open(run_of(place))
    first, *others = [trial for trial in folder.trials if trial.environment == "cloud"]
    assert first.reason is not None
    assert (first.status, first.reason.code) == ("failed", errors.CLOUD_VANISHED.code)
    assert "SpotInstanceTermination" in first.reason.message or not spot, "EC2 says why"
    assert [trial.status for trial in others] == ["ok", "ok"]
    assert {t.status for t in folder.trials if t.environment != "cloud"} == {"ok"}
    assert len([one for one in folder.provisioned if one.environment == "cloud"]) == 2
    assert cloud.left() == []


def test_killed_between_request_and_answer(cloud: Double, place: Path) -> None:
    """Nobody has learned the instance's id: it is not forgotten, and the run goes on to its end."""
    with begun(place, sleeping(cloud)) as controller:
        cloud.on_launch = controller.kill
        assert controller.wait(400) == -9
    cloud.on_launch = None
    assert cloud.left()
    (killed,) = sessions(run_of(place))
    (record,) = [one for one in user_commands.records() if one.tag == killed.tag]
    listed = subprocess.run(
        [*record.listing[:-1], "--json"], capture_output=True, text=True, check=True
    )
    assert [one["tag"] for one in json.loads(listed.stdout)] == [killed.tag]
    resumed = [sys.executable, "-m", "ullage", "run", "--resume", str(run_of(place))]
    done = subprocess.run(resumed, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "may still make it" in done.stderr, "nobody has its answer"
    folder = RunFolder.open(run_of(place))
    assert {trial.status for trial in folder.trials} == {"ok"}
    assert [session.resumed for session in sessions(run_of(place))] == [False, True]
    assert cloud.left() == []
    cloudkit.nothing_comes_any_more(killed.tag)
    assert leftovers.remove(leftovers.find(killed.tag)) == []
    assert leftovers.find(killed.tag) == []
