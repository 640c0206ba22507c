"""A Docker daemon of a test's own, with its own store, socket and no networks."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def daemon(place: Path) -> Iterator[None]:
    """Meanwhile `docker` of this process and of those that it starts means this one."""
    if shutil.which("dockerd") is None:
        pytest.skip("no dockerd")
    socket = place / "docker.sock"
    argv = [
        "dockerd",
        f"--data-root={place / 'data'}",
        f"--exec-root={place / 'exec'}",
        f"--pidfile={place / 'pid'}",
        f"--host=unix://{socket}",
        # The host's packet filter stays as it is: Docker would set its FORWARD policy to DROP.
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
    ]
    with (
        pytest.MonkeyPatch.context() as patch,
        (place / "log").open("wb") as log,
        subprocess.Popen(argv, stdout=log, stderr=log) as process,
    ):
        patch.setenv("DOCKER_HOST", f"unix://{socket}")
        try:
            _wait_for_answer(process, place / "log")
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)
    for line in Path("/proc/mounts").read_text().splitlines():
        if str(place) in line:
            subprocess.run(["umount", line.split()[1]], check=True)


def _wait_for_answer(process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        if subprocess.run(["docker", "info"], check=False, capture_output=True).returncode == 0:
            return
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())
