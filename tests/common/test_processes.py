"""The end of real processes, also of those that others hold."""

from __future__ import annotations

import asyncio

import pytest

from ullage.common import errors, processes
from ullage.common.errors import UllageError

PIPE = asyncio.subprocess.PIPE


def test_the_end_does_not_wait_for_who_inherited_the_pipes() -> None:
    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", "sleep 30 & echo $!; exit 3", stdout=PIPE
        )
        assert await asyncio.wait_for(processes.ended(process, 20), 25)
        assert process.returncode == 3
        assert await processes.end(process) == 3

    asyncio.run(scenario())


def test_who_runs_on_is_seen_and_killed() -> None:
    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", "sleep 30 & wait", stdout=PIPE, start_new_session=True
        )
        assert not await processes.ended(process, 0.05)
        assert await processes.end(process, group=True) == -9

    asyncio.run(scenario())


def test_who_does_not_die_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "30", stdout=PIPE)
        with monkeypatch.context() as patched:
            patched.setattr(processes, "KILLED_S", 0)  # nobody is gone before he is looked at
            with pytest.raises(UllageError, match="although it was killed") as caught:
                await processes.end(process)
        assert caught.value.kind is errors.PROCESS_STUCK
        # 255 where asyncio's transport, as it is closed, reaps it before asyncio's watcher does.
        assert await processes.end(process) in (-9, 255)

    asyncio.run(scenario())
