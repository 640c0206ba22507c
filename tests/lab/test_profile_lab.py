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
    found = {"rest": profile["rest"]["estimate"]}
    for weight in profile["weights"]:
        found |= dict.fromkeys(weight["resources"], weight["share"]["estimate"])
    assert not left(tmp_path)
    return found


def left(tmp_path: Path) -> list[leftovers.Leftover]:
    folders = [file.parent for file in tmp_path.rglob("journal.jsonl")]
    tags = [session.tag for folder in folders for session in sessions(folder)]
    assert tags
    return [each for tag in tags for each in leftovers.find(tag, force=True)]


def test_a_busy_loop_is_the_cpus(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    found = shares(tmp_path, "--resources", "cpu,disk", "--", sys.executable, "busy.py")
    assert found["cpu"] > 0.6
    assert found["cpu"] > found["rest"]
    assert found["disk"] == 0


def test_direct_writes_are_the_disks(tmp_path: Path) -> None:
    argv = ("dd", "if=/dev/zero", "of=file", "bs=16k", "count=8000", "oflag=direct")
    found = shares(tmp_path, "--resources", "cpu,disk", "--", *argv)
    assert found["disk"] > 0.2
    assert found["disk"] > found["rest"] - 0.2


def test_a_sleep_is_nothings(tmp_path: Path) -> None:
    found = shares(tmp_path, "--resources", "cpu,memory", "--", "sleep", "1")
    assert found["rest"] > 0.8


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
    _, said = running.communicate(timeout=120)
    if number is signal.SIGINT:
        assert running.returncode == 130, said
        assert "interrupted: there are no weights" in said
    else:
        found = left(tmp_path)
        assert {"netns", "cgroup"} <= {each.kind for each in found}
        assert leftovers.remove(found) == []
    assert left(tmp_path) == []
