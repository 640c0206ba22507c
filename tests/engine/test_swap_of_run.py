"""The swap of a run: it ends with the run, whatever interrupts it or fails beside it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine.fleet import Fleet
from ullage.engine.trial import Attempt
from ullage.host.swap import area
from ullage.host.swap.request import SwapRequest, VmSwapRequest


def fleet(**more: Any) -> Any:
    """As much of one as gives swap and takes it away."""
    request = SwapRequest.model_validate({"on": "zram", "size": "64MiB"})
    provider = SimpleNamespace(swap_request=request, overhead_bytes=0)
    resources = SimpleNamespace(memory=64 << 20)
    environment = SimpleNamespace(key="a", provider=provider, resources=resources, away=False)
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


def test_a_vm_that_would_be_killed_is_refused_before_swap_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """256 MiB and 256 MiB for one that may need 512 MiB inside and 256 MiB for QEMU."""

    def turn_on(*_: object) -> None:
        raise AssertionError("made all the same")

    monkeypatch.setattr(area, "turn_on", turn_on)
    of_run = fleet()
    environment = of_run.needs.environment("a")
    swap = {"on": "zram", "size": "256MiB", "resident": "256MiB"}
    environment.provider.swap_request = VmSwapRequest.model_validate(swap)
    environment.provider.overhead_bytes = 256 << 20
    environment.resources.memory = 512 << 20
    with pytest.raises(UllageError, match="a may need 768MiB of this host") as caught:
        asyncio.run(Fleet._give_swap(of_run))
    assert caught.value.kind is errors.SWAP_SIZE


def test_a_vm_that_ran_out_of_memory_had_no_swap_inside() -> None:
    """Its own kernel killed the program: what the host may swap of the VM is no part of that."""
    attempt: Any = SimpleNamespace(_swap=fleet().needs.environment("a").provider.swap_request)
    inside: Any = SimpleNamespace(own_kernel=True)
    beside: Any = SimpleNamespace(own_kernel=False)
    assert Attempt._swap_of(attempt, inside) == ""
    assert Attempt._swap_of(attempt, beside) == "64MiB on zram"


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
