"""How long ssh waits for an instance that does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.environments.clouds.ssh import Shell

ASKS, KERNEL_ASKS_NOT = "ServerAliveInterval=5", "TCPKeepAlive=no"


@pytest.mark.parametrize(
    ("pausable", "stops_with_it", "expected"),
    [
        (False, True, {ASKS}),
        (True, True, {ASKS, KERNEL_ASKS_NOT}),
        (True, False, {KERNEL_ASKS_NOT}),
    ],
)
def test_who_stands_still_is_not_given_up_and_who_is_gone_is(
    pausable: bool, stops_with_it: bool, expected: set[str]
) -> None:
    shell = Shell("c-0", "127.0.0.1", "root", Path("key"), Path("hosts"), pausable, stops_with_it)
    assert expected == {ASKS, KERNEL_ASKS_NOT} & set(shell.argv(["true"]))
