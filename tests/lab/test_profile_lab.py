"""Real commands under real slow-downs: which resource weighs most, and that nothing is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ullage.host import leftovers
from ullage.runs.reader import sessions

pytestmark = [pytest.mark.lab, pytest.mark.root]

BUSY = "s = 0\nfor i in range(12_000_000): s += i * i\n"


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "ullage", "profile", *argv]


def shares(tmp_path: Path, *argv: str) -> dict[str, float]:
    """Of each resource, a merged one's for each of its members; and the rest."""
    done = subprocess.run(
        command("--json", "--repeat", "6", *argv),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1000,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    profile = json.loads(done.stdout)["profile"]
    estimates = {"rest": profile["rest"]["estimate"]}
    for weight in profile["weights"]:
        estimates |= dict.fromkeys(weight["resources"], weight["share"]["estimate"])
    assert not leftovers_of(tmp_path)
    return estimates


def leftovers_of(tmp_path: Path) -> list[leftovers.Leftover]:
    folders = [file.parent for file in tmp_path.rglob("journal.jsonl")]
    tags = [session.tag for folder in folders for session in sessions(folder)]
    assert tags
    return [leftover for tag in tags for leftover in leftovers.find(tag, force=True)]


def test_a_busy_loop_is_the_cpus(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    estimates = shares(tmp_path, "--resources", "cpu,disk", "--", sys.executable, "busy.py")
    assert estimates["cpu"] > 0.6
    assert estimates["cpu"] > estimates["rest"]
    assert estimates["disk"] == 0


def test_direct_writes_are_the_disks(tmp_path: Path) -> None:
    argv = ("dd", "if=/dev/zero", "of=file", "bs=16k", "count=8000", "oflag=direct")
    estimates = shares(tmp_path, "--resources", "cpu,disk", "--", *argv)
    assert estimates["disk"] > 0.2
    assert estimates["disk"] > estimates["rest"] - 0.2


def test_a_sleep_is_nothings(tmp_path: Path) -> None:
    estimates = shares(tmp_path, "--resources", "cpu,memory", "--", "sleep", "1")
    assert estimates["rest"] > 0.8


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_is_stopped_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    running = subprocess.Popen(
        command("--", "sleep", "2"), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("profiles/*/trials/b000-t002*")):
        assert time.monotonic() < deadline
        assert running.poll() is None
        time.sleep(0.1)
    running.send_signal(number)
    _, stderr = running.communicate(timeout=120)
    if number is signal.SIGINT:
        assert running.returncode == 130, stderr
        assert "interrupted: there are no weights" in stderr
    else:
        remains = leftovers_of(tmp_path)
        assert {"netns", "cgroup"} <= {leftover.kind for leftover in remains}
        assert leftovers.remove(remains) == []
    assert leftovers_of(tmp_path) == []
