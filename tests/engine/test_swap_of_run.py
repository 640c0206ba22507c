"""The swap of a run: it ends with the run, whatever interrupts it or fails beside it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ullage.engine.fleet import Fleet
from ullage.host.swap import area
from ullage.host.swap.request import SwapRequest


def fleet(**more: Any) -> Any:
    """As much of one as gives swap and takes it away."""
    request = SwapRequest.model_validate({"on": "zram", "size": "64MiB"})
    environment = SimpleNamespace(provider=SimpleNamespace(swap_request=request), away=False)
    needs = SimpleNamespace(all=["a"], environment=lambda _: environment, count=lambda _: 1)
    return SimpleNamespace(tag="u0000001", needs=needs, **more)


def test_an_interrupted_run_does_not_go_on_making_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows takes it away: nothing may come after that."""
    begun, go_on, finished = threading.Event(), threading.Event(), threading.Event()

    def turn_on(*_: object) -> None:
        begun.set()
        go_on.wait(20)
        finished.set()

    async def interrupted() -> bool:
        giving = asyncio.create_task(Fleet._give_swap(fleet()))
        await asyncio.to_thread(begun.wait, 20)
        giving.cancel()
        await asyncio.sleep(0.01)
        over = giving.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await giving
        return over

    monkeypatch.setattr(area, "turn_on", turn_on)
    assert not asyncio.run(interrupted()) and finished.is_set()


def test_swap_that_stays_keeps_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that somebody else looks at cannot be reset."""
    warnings: list[str] = []
    destroyed: list[bool] = []

    async def destroy() -> None:
        destroyed.append(True)

    def end(_: str) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(area, "end", end)
    network = SimpleNamespace(destroy=destroy)
    asyncio.run(
        Fleet.stop(
            fleet(
                sampler=None,
                _instances={},
                network=network,
                warn=lambda code, text: warnings.append(f"{code}: {text}"),
            )
        )
    )
    assert destroyed and "not-removed: [Errno 16] Device or resource busy" in warnings
