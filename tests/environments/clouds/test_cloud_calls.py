"""A call that we no longer want and the cloud does all the same."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ullage.environments.clouds.calls import Calls
from ullage.environments.clouds.driver import Driver


async def _cancelled(name: str) -> list[str]:
    """What the cloud has done by the time the cancellation comes through."""
    begun, may_end = threading.Event(), threading.Event()
    answers: list[str] = []

    def answer() -> None:
        begun.set()
        may_end.wait(60)
        answers.append("an instance")

    def look() -> None:
        answer()

    driver = SimpleNamespace(launch=answer, machine=look, title="a cloud", once_a_token=False)
    call: Any = getattr(driver, name)
    task = asyncio.create_task(Calls(cast("Driver", driver), "c-0").ask(call))
    await asyncio.to_thread(begun.wait, 60)
    for _ in range(2):
        task.cancel()
        await asyncio.wait({task}, timeout=0.05)
    by_then = list(answers) if task.done() else None
    threading.Timer(0.05, may_end.set).start()
    with pytest.raises(asyncio.CancelledError):
        await task
    return list(answers) if by_then is None else by_then


def test_a_request_for_an_instance_is_waited_for() -> None:
    """It was taken back while Nova took 80 s to answer, and would have come when nobody looked."""
    assert asyncio.run(_cancelled("launch")) == ["an instance"], "once: it is not asked again"


def test_a_look_is_not() -> None:
    assert asyncio.run(_cancelled("machine")) == []
