"""gVisor, built from its Go module: a container whose system calls a kernel of its own answers."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from tests.environments import containerkit as kit
from tests.lab.runkit import ran
from tests.lab.traces import left_by
from ullage.environments.base import Provider
from ullage.environments.containers.oci import Oci, OciOptions

pytestmark = [
    pytest.mark.lab,
    pytest.mark.root,
    pytest.mark.usefixtures("agent_binary"),
]

ROOT: Final = Path(__file__).parents[2]
PLAN: Final = """\
name: gvisor
baseline: native
resources: {{cpus: 1, memory: 512MiB}}
environments:
  native: {{provider: native}}
  systrap: {{provider: oci, runtime: {runsc}}}
  ptrace: {{provider: oci, runtime: {runsc}, platform: ptrace}}
workloads:
  - {{name: sysbench-cpu, time_s: {seconds}}}
  - {{name: sysbench-fileio, total_size: 64MiB, files: 2, time_s: {seconds}}}
  - {{name: iperf3, time_s: {seconds}}}
blocks: {{min: 2, max: 2}}
"""


@pytest.fixture(scope="module")
def runsc() -> str:
    built = subprocess.run(["make", "--quiet", "runsc"], cwd=ROOT, check=False)
    if built.returncode:
        pytest.skip("gVisor cannot be built: Debian's Go is too old for it, and there is no other")
    return str(ROOT / "target/runsc/runsc")


@pytest.mark.parametrize(
    "scenario", [kit.stands_still_when_frozen, kit.dies_and_is_destroyed_twice]
)
def test_it_is_a_container(runsc: str, scenario: Callable[[Provider], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(Oci(OciOptions(runtime=runsc)))

    asyncio.run(run())


def test_all_trials_have_figures_and_names(runsc: str, tmp_path: Path) -> None:
    folder = ran(tmp_path, PLAN.format(runsc=runsc, seconds=1))
    assert len(folder.trials) == 2 * 4 * 3
    assert all(trial.status == "ok" for trial in folder.trials)
    labels = {environment.label for environment in folder.resolved.environments}
    assert {"container (gVisor, systrap)", "container (gVisor, ptrace)"} <= labels


def test_killed_and_cleaned(runsc: str, tmp_path: Path) -> None:
    file, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    file.write_text(PLAN.format(runsc=runsc, seconds=100))
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(runs)]
    with subprocess.Popen(argv) as controller:
        while not list(runs.glob("*/trials/*")):
            assert controller.poll() is None
            time.sleep(0.2)  # pytest's own time limit ends this
        controller.send_signal(signal.SIGKILL)
    argv = [sys.executable, "-m", "ullage", "clean", "--yes"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert left_by(runs) == []
