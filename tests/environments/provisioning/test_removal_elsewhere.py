"""What another machine removes: no signal of ours ends it, so it is waited for."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.environments.containerkit import bare_spec
from ullage.common.cleanup import Undo
from ullage.common.errors import ALLOCATION_TOO_LATE, UllageError
from ullage.environments.provisioning import release


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "GENTLE_S", 0.05)


def too_late() -> UllageError:
    return UllageError(ALLOCATION_TOO_LATE, name="c-0", seconds=0.05, last="asked")


@pytest.mark.parametrize(("removal_s", "whole"), [(0.0, False), (60.0, True)])
def test_who_is_given_up_is_taken_back_before_it_is_told(removal_s: float, whole: bool) -> None:
    """OpenStack took 45 and 57 s; 40 s were waited, and the next try met the quota."""
    gone = asyncio.Event()

    async def making() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.sleep(0.5)  # the cloud removes it
        gone.set()

    async def scenario() -> None:
        undo = Undo()
        spec = bare_spec(tag="u0000000")
        with pytest.raises(UllageError):
            await release.bounded(making(), 0.05, undo, spec, too_late, removal_s=removal_s)
        assert gone.is_set() is whole
        assert bool(release._abandoned) is not whole
        await gone.wait()
        while release._abandoned:
            await asyncio.sleep(0.01)

    asyncio.run(scenario())


@pytest.mark.parametrize(("removal_s", "whole"), [(0.0, False), (60.0, True)])
def test_its_place_is_free_once_it_is_gone(removal_s: float, whole: bool) -> None:
    free: list[str] = []

    async def scenario() -> None:
        undo = Undo(lambda: free.append("free"))
        undo.push_within(removal_s, asyncio.sleep, 0.5)
        await release.unwind(undo, bare_spec(tag="u0000000"), removal_s)
        assert bool(free) is whole
        while release._abandoned:
            await asyncio.sleep(0.01)
        assert free

    asyncio.run(scenario())
