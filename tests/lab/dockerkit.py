"""A Docker daemon of a test's own, with its own store, socket and no networks."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_START_S = 900.0
"""On a busy machine."""


@contextmanager
def daemon(place: Path) -> Iterator[None]:
    """Meanwhile `docker` of this process and of those that it starts means this one."""
    if shutil.which("dockerd") is None:
        pytest.skip("no dockerd")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", address(place))
        process = start(place)
        try:
            yield
        finally:
            end(process, place)


def address(place: Path) -> str:
    """What `DOCKER_HOST` is of the daemon there."""
    return f"unix://{place / 'docker.sock'}"


def start(place: Path) -> subprocess.Popen[bytes]:
    """A daemon that answers, to whom it is `DOCKER_HOST`."""
    argv = [
        "dockerd",
        f"--data-root={place / 'data'}",
        f"--exec-root={place / 'exec'}",
        f"--pidfile={place / 'pid'}",
        f"--host={address(place)}",
        # The host's packet filter stays as it is: Docker would set its FORWARD policy to DROP.
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
    ]
    with (place / "log").open("ab") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    _wait_for_answer(process, place / "log")
    return process


def end(process: subprocess.Popen[bytes], place: Path) -> None:
    """Of the daemon, and of what it has mounted."""
    process.terminate()
    process.wait(timeout=60)
    for line in Path("/proc/mounts").read_text().splitlines():
        if str(place) in line:
            subprocess.run(["umount", line.split()[1]], check=True)


def _wait_for_answer(process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_S
    while subprocess.run(["docker", "info"], check=False, capture_output=True).returncode:
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise AssertionError(log.read_text())
        time.sleep(0.1)
