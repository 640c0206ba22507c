"""Machines that one reaches by ssh, for a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testing.ssh.machine import UserMachine, user_machine


@pytest.fixture
def linux() -> Iterator[UserMachine]:
    with user_machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def windows() -> Iterator[UserMachine]:
    """Wine behind a real sshd: it is not Windows."""
    with user_machine(windows=True) as machine:
        yield machine
