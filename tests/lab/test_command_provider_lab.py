"""The guide's plan for LXD on a real LXD: measured, killed, cleaned."""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.lab.runkit import ran
from ullage.runs.reader import sessions

pytestmark = [
    pytest.mark.lab,
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("lxd") is None, reason="needs lxd"),
]

GUIDE: Final = Path(__file__).parents[2] / "docs/guide/any-platform.md"
PRESEED: Final = """\
storage_pools: [{name: default, driver: dir}]
profiles: [{name: default, devices: {root: {path: /, pool: default, type: disk}}}]
"""
METADATA: Final = b"architecture: x86_64\ncreation_date: 1700000000\n"


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An LXD of the test's own, without a network."""
    with tempfile.TemporaryDirectory(prefix="lxd", ignore_cleanup_errors=True) as place:
        monkeypatch.setenv("LXD_DIR", place)
        argv = ["lxd", "--group", "root", "--logfile", f"{place}/log"]
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as process:
            try:
                subprocess.run(["lxd", "waitready", "--timeout=120"], check=True)
                subprocess.run(["lxd", "init", "--preseed"], input=PRESEED, text=True, check=True)
                yield
            finally:
                subprocess.run(["lxd", "shutdown", "--timeout=60"], check=False)
                process.wait(timeout=60)


@pytest.fixture
def plan(tmp_path: Path) -> str:
    """The guide's."""
    fence = re.search(r"^```yaml\n(name: lxd\n.*?)^```", GUIDE.read_text(), re.M | re.S)
    assert fence is not None
    with tarfile.open(tmp_path / "metadata.tar", "w") as tar:
        member = tarfile.TarInfo("metadata.yaml")
        member.size = len(METADATA)
        tar.addfile(member, io.BytesIO(METADATA))
    return fence[1].replace("/srv/lxd/metadata.tar", str(tmp_path / "metadata.tar"))


def instances() -> list[str]:
    argv = ["lxc", "list", "--format=csv", "--columns=n"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def test_the_guides_plan(daemon: None, plan: str, tmp_path: Path) -> None:
    folder = ran(tmp_path, plan)
    assert len(folder.trials) == 2 * 3
    assert all(trial.status == "ok" for trial in folder.trials)
    labels = {environment.label for environment in folder.resolved.environments}
    assert labels == {"native", "native, again", "LXD 5.0"}
    assert instances() == []


def test_killed_and_cleaned(daemon: None, plan: str, tmp_path: Path) -> None:
    file, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    file.write_text(plan.replace("time_s: 1", "time_s: 100"))
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(runs)]
    with subprocess.Popen(argv) as controller:
        while not instances():
            assert controller.poll() is None
            time.sleep(0.2)  # pytest's own time limit ends this
        controller.send_signal(signal.SIGKILL)
    (folder,) = runs.iterdir()
    (session,) = sessions(folder)
    assert [name for name in instances() if session.tag in name]
    argv = [sys.executable, "-m", "ullage", "clean", "--yes"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"command ullage-{session.tag}-lxd-0" in done.stdout
    assert instances() == []
