"""kill -9 of the controller at random moments, twenty times; then `--resume`, then `clean`.

No finished trial is lost, none is done twice, and nothing is left on the host.
"""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.traces import left_by
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: killed
baseline: native
resources: {cpus: 1, memory: 256MiB}
environments:
  native: {provider: native}
  container: {provider: oci}
  lxc: {provider: lxc}
workloads:
  - {name: command, argv: [sleep, "0.02"], vary: {expect_status: [0]}}
  - {name: iperf3, time_s: 1}
  - {name: command, as: shell, argv: [sh, -c, "sleep 0.05 & sleep 0.03; wait"]}
blocks: {min: 12, max: 12}
seed: 11
"""
TRIALS = 12 * 3 * 4
KILLS = 20


def ullage(*argv: str, runs: Path) -> list[str]:
    return [sys.executable, "-m", "ullage", *argv, "--runs", str(runs)]


def trials(folder: Path) -> list[dict[str, object]]:
    """Trials of the journal, whole lines only."""
    data = (folder / "journal.jsonl").read_bytes()
    whole = data[: data.rfind(b"\n") + 1].splitlines()
    return [event for line in whole if (event := json.loads(line))["event"] == "trial"]


def test_killed_twenty_times(tmp_path: Path) -> None:
    rng = random.Random(5)
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    runs = tmp_path / "runs"
    # Once, before: a build takes longer than any controller here lives.
    build = [sys.executable, "-m", "ullage", "image", "build", str(plan)]
    subprocess.run(build, check=True, capture_output=True)
    argv = ullage("run", str(plan), runs=runs)
    finished: list[dict[str, object]] = []
    for _ in range(KILLS):
        controller = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.3, 6.0))
        controller.send_signal(signal.SIGKILL)
        controller.wait()
        if runs.exists() and any(runs.iterdir()):
            folder = next(runs.iterdir())
            now = trials(folder) if (folder / "journal.jsonl").exists() else []
            assert now[: len(finished)] == finished, "a finished trial was lost or changed"
            finished = now
            argv = ullage("run", "--resume", str(folder), runs=runs)
    assert len(finished) > 0, "the controller was always killed too early to finish a trial"
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    opened = RunFolder.open(next(runs.iterdir()))
    names = [trial.trial for trial in opened.trials]
    assert len(names) == len(set(names)) == TRIALS
    assert trials(opened.path)[: len(finished)] == finished
    assert all(trial.status == "ok" for trial in opened.trials)
    assert opened.finished is not None
    assert not left_by(runs)


def test_clean_after_kill(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    runs = tmp_path / "runs"
    argv = ullage("run", str(plan), runs=runs)
    controller = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("runs/*/trials/*")):
        assert time.monotonic() < deadline
        assert controller.poll() is None
        time.sleep(0.05)
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    assert left_by(runs), "a killed run should leave its environments"
    cleaned = subprocess.run(
        [sys.executable, "-m", "ullage", "clean", "--yes"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "leftovers removed" in cleaned.stderr
    assert not left_by(runs)
