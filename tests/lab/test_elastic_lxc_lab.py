"""Elastic runs on LXC: whole, with faults, interrupted, resumed, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import elastickit as kit
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import ElasticFinished, FrontEnded, Lost, Ready, Release
from ullage.host import leftovers
from ullage.runs.records import PLAN

pytestmark = [pytest.mark.lab, pytest.mark.root]

LXC = "{node: {provider: lxc}, late: {provider: lxc, boot_delay: 1}}"


def test_nodes_come_and_go_with_their_viewers(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    done = kit.run("run", str(kit.write_plan(tmp_path, LXC, repetitions=2)), "--runs", str(runs))
    assert done.returncode == 0, done.stderr
    (run,) = runs.iterdir()
    ready = [act for act in kit.acts(runs) if isinstance(act, Ready)]
    released = [act for act in kit.acts(runs) if isinstance(act, Release)]
    assert len(ready) == len(released) >= 4
    assert all({"TeF", "TcI", "TiI", "application"} <= set(act.stages) for act in ready)
    late = [act for act in ready if act.instance.startswith("late")]
    assert late
    assert all(act.at_ns - act.serving_ns > 0.5e9 for act in late)
    outcomes = [session["outcome"] for session in kit.sessions(runs)]
    assert outcomes == ["served"] * 32
    show = kit.run("show", str(run), "--json")
    assert show.returncode == 0, show.stderr
    assert json.loads(show.stdout)
    assert not kit.left_by(runs)


def test_a_run_is_interrupted_and_resumed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    plan = kit.write_plan(tmp_path, "{node: {provider: lxc}}", repetitions=2)
    first = kit.start(plan, runs)
    kit.wait(first, lambda: any(isinstance(act, Ready) for act in _second(runs)))
    first.send_signal(signal.SIGINT)
    _, stderr = first.communicate(timeout=kit.PATIENCE_S)
    assert first.returncode == 130, stderr
    assert "ullage elastic run --resume" in stderr
    assert not kit.left_by(runs)
    (run,) = runs.iterdir()
    ended = [event for event in folders.read_events(run) if isinstance(event, ElasticFinished)]
    assert [event.reason for event in ended] == ["interrupted"]
    resumed = kit.run("run", "--resume", str(run))
    assert resumed.returncode == 0, resumed.stderr
    events = [event.event for event in folders.read_events(run)]
    assert events.count("repetition") == 2
    assert events[-1] == "finished"
    changed = run / PLAN
    changed.write_text(changed.read_text(encoding="utf-8").replace("room: 2", "room: 3"))
    refused = kit.run("run", "--resume", str(run))
    assert refused.returncode == 2
    assert "run-changed" in refused.stderr
    assert not kit.left_by(runs)


def _second(runs: Path) -> list[folders.Act]:
    return [
        act for place in runs.glob("*/repetitions/node/001") for act in folders.read_acts(place)
    ]


def test_what_a_killed_run_left_is_found_by_its_tag(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    killed = kit.start(kit.write_plan(tmp_path, "{node: {provider: lxc}}", length=60), runs)
    kit.wait(killed, lambda: any(isinstance(act, Ready) for act in kit.acts(runs)))
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=kit.PATIENCE_S)
    (tag,) = kit.tags(runs)
    assert {"cgroup", "process", "link", "state"} <= {
        leftover.kind for leftover in leftovers.find(tag)
    }
    cleaned = subprocess.run(
        [sys.executable, "-m", "ullage", "clean", "--yes"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert cleaned.returncode == 0, cleaned.stderr
    assert leftovers.find(tag) == []
    assert not kit.left_by(runs)


def test_a_front_and_a_server_that_are_killed_end_nothing(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    plan = kit.write_plan(tmp_path, "{node: {provider: lxc}}", viewers=40, length=20)
    running = kit.start(plan, runs)
    kit.wait(running, lambda: sum(isinstance(act, Ready) for act in kit.acts(runs)) >= 2)
    (tag,) = kit.tags(runs)
    (front,) = kit.processes(tag, "ullage-front")
    os.kill(front, signal.SIGKILL)
    kit.wait(running, lambda: any(isinstance(act, FrontEnded) for act in kit.acts(runs)))
    node = next(act for act in kit.acts(runs) if isinstance(act, Ready))
    for server in kit.processes(tag, "nginx", node.instance):
        os.kill(server, signal.SIGKILL)
    kit.wait(
        running,
        lambda: any(
            isinstance(act, Lost | Release) and act.node == node.node for act in kit.acts(runs)
        ),
    )
    _, stderr = running.communicate(timeout=kit.PATIENCE_S)
    assert running.returncode == 0, stderr
    (run,) = runs.iterdir()
    outcome = folders.read_outcome(folders.repetition_folder(run, "node", 0))
    assert outcome is not None
    assert outcome.status == "ok"
    assert outcome.notes[0].startswith("the front died 1 time and")
    assert not kit.left_by(runs)


def test_viewers_that_are_killed_fail_their_repetition_only(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    plan = kit.write_plan(tmp_path, "{node: {provider: lxc}}", repetitions=2)
    running = kit.start(plan, runs)
    kit.wait(running, lambda: any(isinstance(act, Ready) for act in kit.acts(runs)))
    (tag,) = kit.tags(runs)
    for pid in kit.processes(tag, "ullage-viewers"):
        os.kill(pid, signal.SIGKILL)
    _, stderr = running.communicate(timeout=kit.PATIENCE_S)
    assert running.returncode == 3, stderr
    (run,) = runs.iterdir()
    places = [folders.repetition_folder(run, "node", number) for number in (0, 1)]
    outcomes = [folders.read_outcome(place) for place in places]
    assert [outcome and outcome.status for outcome in outcomes] == ["failed", "ok"]
    assert not kit.left_by(runs)
