"""Agents that do not let go: whatever they do, the controller closes its channel and goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable
from pathlib import Path
from typing import Final, TypeVar

import pytest

from tests.support.peer import Peer
from ullage.common.errors import UllageError
from ullage.environments.agent.client import AgentClient, Command
from ullage.environments.agent.frames import CREDIT

T = TypeVar("T")

HANGS_S: Final = 60
"""Who has not come back by then hangs: what is bounded needs a small part of it."""

# As root inside: every pipe of the agent is open to a process beside it.
FLOOD: Final = """
kill -STOP $PPID
for end in /proc/$PPID/fd/*; do
    case $(readlink $end) in pipe:*) { setsid sh -c 'echo $$ >>"$1"; exec cat /dev/zero >"$2"' sh \
        "$0" $end & } 2>/dev/null ;; esac
done
wait
"""


async def soon(work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, HANGS_S)


def kill_all(pids: Path) -> None:
    for pid in map(int, pids.read_text().split()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.root
@pytest.mark.parametrize("goodbye", ["bye", "close"])
def test_an_agent_that_was_stopped_and_whose_pipe_is_flooded(
    goodbye: str, agent_binary: Path, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"

    async def scenario() -> None:
        client = await AgentClient.launch([str(agent_binary), "serve"])
        process = await client.spawn(Command(("sh", "-c", FLOOD, str(pids))))
        try:
            with pytest.raises(UllageError):
                await soon(process.wait())
            await soon(client.bye() if goodbye == "bye" else client.close())
        finally:
            kill_all(pids)

    asyncio.run(scenario())


def test_a_peer_that_does_not_read() -> None:
    """What is on its way to a VM when its guest stops reading is not waited for."""

    async def scenario() -> None:
        near, far = socket.socketpair()
        peer = Peer(*await asyncio.open_connection(sock=far, limit=1024))
        greeting = asyncio.create_task(peer.greet())
        client = await AgentClient.connect(*await asyncio.open_connection(sock=near))
        await greeting
        sending = asyncio.create_task(client.put(b"x" * (CREDIT - 4096), "/data/x"))
        await asyncio.sleep(0)
        await soon(client.close())
        with pytest.raises(UllageError):
            await sending
        peer.writer.close()

    asyncio.run(scenario())
