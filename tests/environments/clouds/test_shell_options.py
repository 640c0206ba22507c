"""How long ssh waits for an instance that does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.environments.clouds.ssh import Shell

ASKS, KERNEL_ASKS_NOT = "ServerAliveInterval=5", "TCPKeepAlive=no"


@pytest.mark.parametrize(
    ("pausable", "expected"), [(False, {ASKS}), (True, {ASKS, KERNEL_ASKS_NOT})]
)
def test_who_stands_still_is_not_given_up_and_who_is_gone_is(
    pausable: bool, expected: set[str]
) -> None:
    shell = Shell("c-0", "127.0.0.1", "root", Path("key"), Path("hosts"), pausable)
    assert expected == {ASKS, KERNEL_ASKS_NOT} & set(shell.argv(["true"]))
