"""What systemd says when it has started everything."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from ullage.environments.containers.lxc import Notified


def say(notified: Notified, *messages: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        directory_fd = os.open(notified.path.parent, os.O_PATH)
        systemd.connect(f"/proc/self/fd/{directory_fd}/{notified.path.name}")
        os.close(directory_fd)
        for message in messages:
            systemd.send(message)


def test_it_is_ready_when_it_says_so(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    notified = Notified(deep)
    say(notified, b"X_SYSTEMD_UNIT_ACTIVE=basic.target", b"READY=1\nSTATUS=Ready.")
    asyncio.run(notified.ready(60))
    notified.close()
    assert not notified.path.exists()


@pytest.mark.parametrize("message", [b"", b"READY=0", b"STATUS=READY=1", b"\xff\0" * 100])
def test_anything_else_is_not_it(tmp_path: Path, message: bytes) -> None:
    notified = Notified(tmp_path)
    say(notified, message)
    with pytest.raises(TimeoutError):
        asyncio.run(notified.ready(0.05))
    notified.close()
    notified.close()


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Notified(tmp_path / "absent")
