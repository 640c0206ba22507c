"""A plain user's whole run: an image of their own, a rootless container, a VM without a bridge."""

from __future__ import annotations

import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import plainuser
from ullage.runs.reader import RunFolder, newest_run

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

PLAN = """\
name: rootless
baseline: container
resources: {cpus: 1, memory: host}
environments:
  container: {provider: oci}
  vm: {provider: qemu, disk: {format: qcow2}}
workloads:
  - {name: sysbench-cpu, time_s: 1}
  - {name: sysbench-fileio, total_size: 64MiB, files: 2, time_s: 1}
blocks: {min: 2, max: 2}
"""


@pytest.fixture
def user() -> Iterator[pwd.struct_passwd]:
    with plainuser.account() as user:
        yield user


def test_a_plain_users_run(user: pwd.struct_passwd) -> None:
    home = Path(user.pw_dir)
    (home / "plan.yaml").write_text(PLAN)
    done = plainuser.python(user, "-m", "ullage", "run", "plan.yaml")
    assert done.returncode == 0, done.stderr
    assert "container (crun, rootless) against itself" in done.stdout.lower()
    folder = RunFolder.open(newest_run(home / "runs"))
    assert len(folder.trials) == 2 * 3 * 2
    assert all(trial.status == "ok" for trial in folder.trials)
    assert folder.resolved.image is not None
    assert folder.resolved.image.digest.startswith("sha256:")
    assert (folder.path / "report.html").exists()
    cleaned = plainuser.python(user, "-m", "ullage", "clean", "--dry-run", "--json")
    assert cleaned.stdout.strip() == "[]"
    living = subprocess.run(["pgrep", "-u", user.pw_name, "-a"], capture_output=True, check=False)
    assert living.stdout == b"", "a process of theirs outlived the run"
