"""The swap of a run: it ends with the run, whatever interrupts it or fails beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine import turn
from ullage.engine.fleet import Fleet
from ullage.engine.trial import Attempt
from ullage.host.cgroups import Group
from ullage.host.swap import area
from ullage.host.swap.request import SwapRequest, VmSwapRequest
from ullage.meters import Scene
from ullage.nodes import local
from ullage.runs.records import Metered


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


def test_a_vm_that_is_not_swapped_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel goes on until the VM is gone, which is what follows."""
    gone = threading.Event()
    monkeypatch.setattr(local, "allow", lambda *_: gone.wait(20))
    monkeypatch.setattr(local, "_SWAPPING_S", 0.01)
    swap = {"on": "zram", "size": "1GiB", "resident": "256MiB"}
    spec = SimpleNamespace(tag="u0000001", name="vm-0", memory_bytes=512 << 20)
    instance: Any = SimpleNamespace(spec=spec, own_kernel=True)

    async def given() -> None:
        try:
            await local._give_swap(instance, VmSwapRequest.model_validate(swap))
        finally:
            gone.set()

    with pytest.raises(UllageError, match="vm-0 is not down to 256MiB after") as caught:
        asyncio.run(given())
    assert caught.value.kind is errors.SWAP_UNUSABLE


class OfDuet:
    """As much of an attempt as works and is metered."""

    status, reason = "ok", None

    def __init__(self, vm: str) -> None:
        self.teams: list[Any] = []
        self.fleet = SimpleNamespace(tag="u0000001", inside=None, metered_on=lambda _: Machine())
        self._vm = SimpleNamespace(name=vm, own_kernel=True, alive=False)

    def workers(self) -> list[Any]:
        return [self._vm]

    def starters(self) -> int:
        return 1

    def rtt_ns(self) -> int:
        return 0

    async def step(self, *_: object) -> None:
        return None


class Machine:
    """One without meters of its own."""

    @asynccontextmanager
    async def metered(self, _: Scene) -> AsyncIterator[Metered]:
        yield {"host": {"steal": 0.0}}


def test_each_of_a_duet_is_told_of_its_own_vms(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nothing was swapped of is no doubt in the other, which has no swap or all of it."""
    swapped = {"whole-0": None, "roomy-0": 0, "little-0": 8192}
    monkeypatch.setattr(area, "noted", lambda _: "/dev/zram0")
    monkeypatch.setattr(Group, "find", lambda _, name: Group(name, []))
    monkeypatch.setattr(Group, "swapped_bytes", lambda group: swapped[group.path])
    monkeypatch.setattr(Group, "returned_bytes", lambda _: None)
    for name in ("begin", "work", "end"):
        monkeypatch.setattr(Attempt, name, OfDuet.step)

    def readings(*vms: str) -> list[Metered]:
        return asyncio.run(turn._rounds([cast(Attempt, OfDuet(vm)) for vm in vms], 2, []))

    idle, busy = {"swapped": 0, "without": 1}, {"swapped": 8192, "without": 0}
    assert [one["swap"] for one in readings("whole-0", "roomy-0")] == [{}, idle]
    assert [one["swap"] for one in readings("little-0", "roomy-0")] == [busy, idle]
    assert [one["host"] for one in readings("little-0")] == [{"steal": 0.0}]
