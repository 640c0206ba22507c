"""Who is alone in a trial needs no tasks of the event loop, and fails as several do."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ullage.engine import fleet, trial


def test_a_program_alone_is_started_by_who_asks() -> None:
    tasks: list[object] = []

    async def start() -> None:
        tasks.append(asyncio.current_task())

    async def work() -> object:
        await trial._together([start()])
        await trial._together([])
        await trial._together([start(), start()])
        return asyncio.current_task()

    mine = asyncio.run(work())
    assert [task is mine for task in tasks] == [True, False, False]


@pytest.mark.parametrize("others", [0, 1])
def test_the_first_that_fails_is_raised(others: int) -> None:
    async def fails() -> None:
        raise ValueError("it")

    async def waits() -> None:
        await asyncio.sleep(3600)

    with pytest.raises(ValueError, match="it"):
        asyncio.run(trial._together([fails(), *(waits() for _ in range(others))]))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("alive", [True, False])
def test_one_that_is_lost_on_the_way_shows_in_its_trial(count: int, alive: bool) -> None:
    instances: list[Any] = [SimpleNamespace(alive=alive) for _ in range(count)]

    async def fails(_: object) -> None:
        raise OSError("gone")

    work = fleet._all_at_once(instances, do=fails)
    if alive:
        with pytest.raises(OSError, match="gone"):
            asyncio.run(work)
    else:
        asyncio.run(work)


@pytest.mark.parametrize("count", [1, 2])
def test_who_is_cancelled_is_not_taken_for_lost(count: int) -> None:
    instances: list[Any] = [SimpleNamespace(alive=False) for _ in range(count)]

    async def waits(_: object) -> None:
        await asyncio.sleep(3600)

    async def interrupted() -> None:
        work = asyncio.create_task(fleet._all_at_once(instances, do=waits))
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(interrupted())
