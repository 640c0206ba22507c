"""A container of a Docker daemon of the test's own, found by its name and removed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.host import leftovers
from ullage.host.leftovers import Leftover

pytestmark = [
    pytest.mark.lab,
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("dockerd") is None, reason="needs docker.io"),
]


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It knows nothing of the host's own daemon, and makes no bridge and no packet filter."""
    socket = f"unix://{tmp_path}/docker.sock"
    command = ["dockerd", "--host", socket, "--pidfile", f"{tmp_path}/pid", "--iptables=false"]
    command += ["--data-root", f"{tmp_path}/data", "--exec-root", f"{tmp_path}/exec"]
    monkeypatch.setenv("DOCKER_HOST", socket)
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen([*command, "--bridge=none"], stdout=log, stderr=log) as process,
    ):
        while subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
            assert process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.2)  # pytest's own time limit ends this
        yield
        process.terminate()


def test_only_ours_is_removed(daemon: None, tag: str, agent_binary: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "root.tar", "w") as tar:
        tar.add(agent_binary, "agent")
    docker("import", str(tmp_path / "root.tar"), "pause:1")
    for name in (f"ullage-{tag}-vm-0", f"other-ullage-{tag}", "other"):
        docker("run", "--detach", "--name", name, "--network=none", "pause:1", "/agent", "pause")
    remains = leftovers.find(tag)
    assert remains == [Leftover("docker", f"ullage-{tag}-vm-0", tag, os.geteuid())]
    assert leftovers.remove(remains) == []
    assert leftovers.find(tag) == []
    names = docker("ps", "--format", "{{.Names}}").split()
    assert sorted(names) == ["other", f"other-ullage-{tag}"]
    docker("rm", "--force", *names)
