"""What was done is undone, the newest first, and what failed is tried again."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from ullage.common import cleanup, errors
from ullage.common.cleanup import Undo
from ullage.common.errors import UllageError


class Steps:
    """Keeps what was called; some fail so many times."""

    def __init__(self, **failing: int) -> None:
        self.called: list[str] = []
        self.failing = failing

    async def step(self, name: str) -> None:
        self.plain(name)

    def plain(self, name: str) -> None:
        self.called.append(name)
        if self.failing.get(name, 0):
            self.failing[name] -= 1
            raise OSError(name)

    def undo(self) -> Undo:
        undo = Undo(lambda: self.called.append("at last"))
        undo.push(self.step, "a")
        undo.callback(self.plain, name="b")
        undo.push(self.step, name="c")
        return undo


def test_the_newest_comes_first_and_nothing_comes_twice() -> None:
    async def scenario() -> None:
        steps = Steps()
        undo = steps.undo()
        await undo.aclose()
        assert steps.called == ["c", "b", "a", "at last"]
        await undo.aclose()
        assert steps.called == ["c", "b", "a", "at last", "at last"]

    asyncio.run(scenario())


def test_what_failed_is_tried_again_and_nothing_else() -> None:
    async def scenario() -> None:
        steps = Steps(c=2, b=1)
        undo = steps.undo()
        with pytest.raises(OSError, match="c"):
            await undo.aclose()
        assert steps.called == ["c", "b", "a"]
        with pytest.raises(OSError, match="c"):
            await undo.aclose()
        assert steps.called[3:] == ["c", "b"]
        await undo.aclose()
        assert steps.called[5:] == ["c", "at last"]

    asyncio.run(scenario())


def test_who_is_cancelled_keeps_the_step_that_was_on_its_way() -> None:
    async def scenario() -> None:
        steps, begun, let_go = Steps(b=1), asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            begun.set()
            await let_go.wait()

        undo = steps.undo()
        undo.push(hang)
        closing = asyncio.create_task(undo.aclose())
        await begun.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):  # that comes before the failure of `b`
            await closing
        assert steps.called == ["c", "b", "a"]
        let_go.set()
        await undo.aclose()
        assert steps.called[3:] == ["b", "at last"]

    asyncio.run(scenario())


def test_two_do_not_close_it_at_a_time() -> None:
    async def scenario() -> None:
        steps, let_go = Steps(), asyncio.Event()
        undo = steps.undo()
        undo.push(let_go.wait)
        first, second = asyncio.create_task(undo.aclose()), asyncio.create_task(undo.aclose())
        done, _ = await asyncio.wait({first, second}, timeout=0)
        assert not done
        let_go.set()
        await asyncio.gather(first, second)
        assert steps.called == ["c", "b", "a", "at last", "at last"]

    asyncio.run(scenario())


def test_what_is_moved_is_undone_elsewhere() -> None:
    async def scenario() -> None:
        steps = Steps()
        async with steps.undo() as undo:
            moved = undo.pop_all()
        assert steps.called == []
        await moved.aclose()
        assert steps.called == ["c", "b", "a", "at last"]

    asyncio.run(scenario())


def test_what_a_body_breaks_is_undone_too() -> None:
    async def scenario() -> None:
        steps = Steps()
        with pytest.raises(RuntimeError, match="the body"):
            async with steps.undo():
                raise RuntimeError("the body")
        assert steps.called == ["c", "b", "a", "at last"]

    asyncio.run(scenario())


def test_what_was_wrong_first_is_what_counts() -> None:
    async def scenario() -> None:
        async with Steps(c=1).undo():
            raise KeyError("the body")

    with pytest.raises(KeyError, match="the body"):
        asyncio.run(scenario())


def test_a_clean_up_that_fails_alone_is_told() -> None:
    async def scenario() -> None:
        async with Steps(c=1).undo():
            pass

    with pytest.raises(OSError, match="c"):
        asyncio.run(scenario())


def test_a_step_that_hangs_is_left_alone_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that does not let itself be cancelled."""
    monkeypatch.setattr(cleanup, "STEP_S", 0.05)
    monkeypatch.setattr(cleanup, "CANCELLED_S", 0.05)

    async def scenario() -> None:
        let_go = asyncio.Event()

        async def hangs() -> None:
            while not let_go.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await let_go.wait()

        steps = Steps()
        undo = steps.undo()
        undo.push(hangs)
        with pytest.raises(UllageError, match="hangs has not ended within") as caught:
            await asyncio.wait_for(undo.aclose(), 30)
        assert caught.value.kind is errors.STEP_TOO_LATE
        assert steps.called == ["c", "b", "a"]
        let_go.set()
        await undo.aclose()
        assert steps.called[3:] == ["at last"]

    asyncio.run(scenario())


def test_a_step_may_bring_a_longer_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloud may take longer to remove an instance than anything here takes."""
    monkeypatch.setattr(cleanup, "STEP_S", 0.01)

    async def scenario() -> None:
        undo = cleanup.Undo()
        undo.push_within(60, asyncio.sleep, 0.2)
        await undo.aclose()
        undo.push(asyncio.sleep, 60)
        with pytest.raises(UllageError):
            await undo.aclose()

    asyncio.run(scenario())
