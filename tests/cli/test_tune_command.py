"""`ullage tune` without a run: what it would do, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def ullage(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ullage", "tune", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd)


VM = ("vm", "--accel", "tcg", "--cpus", "2", "--workload")


def test_a_dry_run_says_trials_and_time(tmp_path: Path) -> None:
    done = ullage(
        *VM, "sysbench-fileio", "--settings", "disk.cache,io_thread", "--dry-run", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 settings in 15 trials: 3 blocks of 4 of the 4 combinations")
    assert "  disk.cache: none → writeback\n  io_thread: false → true\n" in done.stdout
    assert "time: " in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_dry_run_for_machines(tmp_path: Path) -> None:
    words = (*VM, "sysbench-fileio", "--settings", "io_thread", "--dry-run", "--json")
    fields = json.loads(ullage(*words, cwd=tmp_path).stdout)
    assert fields["settings"] == [{"name": "io_thread", "as_it_was": False, "changed": True}]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((*VM, "no-such"), "there is no no-such"),
        ((*VM, "iperf3", "--settings", "turbo"), "error[tune-no-setting]"),
        ((*VM, "iperf3", "--parameter", "time_s"), "is not `NAME=VALUE`"),
        ((*VM, "iperf3", "--parameter", "time_s={"), "is no value of a plan"),
        ((*VM, "iperf3", "--parameter", "tim_s=1"), "error[plan-unknown-field]"),
        ((*VM, "iperf3", "--save", "there.yaml"), "error[file-failed]"),
        (("lxc", "--workload", "iperf3"), "'lxc'"),
    ],
)
def test_what_it_refuses(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    (tmp_path / "there.yaml").write_text("mine")
    done = ullage(*words, "--dry-run", cwd=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
