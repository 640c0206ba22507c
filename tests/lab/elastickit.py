"""Elastic runs as a user starts them, and what they leave."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.lab.traces import left_with
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import Act
from ullage.host import cgroups
from ullage.runs.events import Started

PATIENCE_S = 300.0

PLAN = """\
name: lab
baseline: {baseline}
room: 2
resources: {{cpus: 1, memory: {memory}}}
environments: {environments}
nodes: {{max: 4}}
arrivals: {{kind: poisson, rate: {rate}, viewers: {viewers}}}
video: {{length: {length}, bitrate: 200000, generate: bytes}}
patience: {patience}
repetitions: {repetitions}
lateness_limit: 60
seed: 7
"""
USUAL: dict[str, object] = {
    "baseline": "node",
    "memory": "128MiB",
    "rate": 1,
    "viewers": 8,
    "length": 4,
    "patience": 60,
    "repetitions": 1,
}


def write_plan(folder: Path, environments: str, **fields: object) -> Path:
    file = folder / "plan.yaml"
    text = PLAN.format(**USUAL | {"environments": environments} | fields)
    file.write_text(text, encoding="utf-8")
    return file


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "ullage", "elastic", *argv]


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*argv), capture_output=True, text=True, check=False)


def start(plan: Path, runs: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("run", str(plan), "--runs", str(runs)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def acts(runs: Path) -> list[Act]:
    """What controllers have done by now, in every repetition."""
    return [
        act
        for log in sorted(runs.glob(f"*/{folders.REPETITIONS}/*/*/{folders.CONTROLLER_LOG}"))
        for act in folders.read_acts(log.parent)
    ]


def sessions(runs: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in sorted(runs.glob(f"*/{folders.REPETITIONS}/*/*/{folders.SESSIONS}"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def wait(process: subprocess.Popen[str], happened: Callable[[], bool]) -> None:
    """Until it has happened, while the run lives."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def tags(runs: Path) -> list[str]:
    return [
        event.tag
        for run in runs.iterdir()
        for event in folders.read_events(run)
        if isinstance(event, Started)
    ]


def left_by(runs: Path) -> list[str]:
    """What is still on this host."""
    return left_with(set(tags(runs)))


def processes(tag: str, name: str, group: str | None = None) -> list[int]:
    """Processes of a run by their name; of one of its control groups, or by their environment."""
    if group is not None:
        candidates = sorted(cgroups.Group.find(tag, group).pids())
    else:
        candidates = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    pids = []
    for pid in candidates:
        try:
            comm = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
            tagged = f"ULLAGE_TAG={tag}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if comm == name and (group is not None or tagged):
            pids.append(pid)
    return pids
