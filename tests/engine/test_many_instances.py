"""Hundreds of instances are made in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from ullage.engine import fleet


def test_only_so_many_at_a_time_and_all_are_answered_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet, "AT_ONCE", 3)
    at_work, most = 0, 0

    async def make(number: int) -> int:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0)
        at_work -= 1
        if number == 4:
            raise ValueError(number)
        return number

    async def all_of_them() -> list[int | BaseException]:
        work: list[Awaitable[int]] = [make(number) for number in range(10)]
        return await fleet._in_turns(work)

    results = asyncio.run(all_of_them())
    assert most == 3
    assert isinstance(results[4], ValueError)
    assert results[:4] + results[5:] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
