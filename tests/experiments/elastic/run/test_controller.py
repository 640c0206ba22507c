"""The controller against a front that is a queue and providers that misbehave."""

from __future__ import annotations

import asyncio
import errno
import statistics
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import (
    Act,
    FrontEnded,
    Lost,
    NotReady,
    Ready,
    Release,
    Retried,
)
from ullage.experiments.elastic.plan.hold import Hold
from ullage.experiments.elastic.plan.schema import Attempts, Budgets, Releases
from ullage.experiments.elastic.run.controller import NO_HOLD, Acts, Controller
from ullage.experiments.elastic.run.front import Restarted, Wish
from ullage.host import clock

LONG = 60.0
"""Seconds that an event may take on a machine that has other things to do."""


class QueueFront:
    """Says what a test puts in, and keeps what it is told."""

    def __init__(self) -> None:
        self.wishes: asyncio.Queue[Wish | Restarted | Exception | None] = asyncio.Queue()
        self.sent: list[dict[str, object]] = []
        self.heard = asyncio.Condition()

    async def messages(self) -> AsyncIterator[Wish | Restarted]:
        while (wish := await self.wishes.get()) is not None:
            if isinstance(wish, Exception):
                raise wish
            yield wish

    def tell(self, **fields: object) -> None:
        self.sent.append(fields)

    def allocate(self, node: int) -> None:
        self.wishes.put_nowait(Wish(node, release=False, at_ns=clock.ordered_ns()))

    def release(self, node: int) -> None:
        self.wishes.put_nowait(Wish(node, release=True, at_ns=clock.ordered_ns()))


class Sham:
    """A node that is none."""

    def __init__(self, maker: ShamMaker, name: str) -> None:
        self.maker, self.name = maker, name
        self.address, self.url = f"{name}:80", f"http://{name}:80/film"
        self.made_ns = self.serving_ns = clock.ordered_ns()
        self.stages = {"TiI": 0.5}
        self.steps = {"up": self.made_ns}
        loop = asyncio.get_running_loop()
        self.death: asyncio.Future[str] = loop.create_future()
        if name in maker.dying:
            loop.call_soon(self.death.set_result, "at once")

    async def gone(self) -> str:
        return await asyncio.shield(self.death)

    async def remove(self, limit_s: float) -> None:
        assert limit_s == LONG
        trouble = self.maker.removing.pop(0) if self.maker.removing else None
        if trouble is not None:
            await trouble()
        self.maker.instances.remove(self.name)


class ShamMaker:
    """Makes nodes as the test says; counts what is there."""

    def __init__(self) -> None:
        self.instances: list[str] = []
        self.nodes: dict[str, Sham] = {}
        self.making: list[Callable[[], Coroutine[Any, Any, None]] | None] = []
        self.removing: list[Callable[[], Coroutine[Any, Any, None]] | None] = []
        self.begun = asyncio.Event()
        self.dying: set[str] = set()

    def name(self, node: int, attempt: int) -> str:
        return f"n-{node}-{attempt}"

    def machine(self, name: str) -> str:
        return ""

    async def make(self, name: str, limit_s: float) -> Sham:
        assert limit_s == LONG
        self.begun.set()
        trouble = self.making.pop(0) if self.making else None
        if trouble is not None:
            await trouble()
        self.instances.append(name)
        self.nodes[name] = Sham(self, name)
        return self.nodes[name]


async def refuse() -> None:
    raise UllageError(errors.NETWORK_FULL, what="every place", where="the cloud")


async def machine_gone() -> None:
    raise UllageError(errors.NODE_LOST, node="a", reason="its cable was pulled")


async def no_quota() -> None:
    raise UllageError(errors.CLOUD_QUOTA, cloud="a cloud", name="n", reason="10 of 10 are used")


async def break_down() -> None:
    raise RuntimeError("a provider of somebody else's")


async def hang() -> None:
    await asyncio.Event().wait()


class Stage:
    """A controller at work, and its log afterwards."""

    def __init__(self, folder: Path, hold: Hold = NO_HOLD) -> None:
        self.folder = folder
        self.front, self.maker = QueueFront(), ShamMaker()
        self.hold = hold
        budgets = Budgets(
            allocate=Attempts(tries=2, limit=LONG), release=Releases(tries=2, limit=LONG)
        )
        self.acts = Acts(folder / folders.CONTROLLER_LOG)
        front: Any = self.front
        self.controller = Controller(front, self.maker, self.acts, budgets, hold)

    async def play(self, script: Callable[[Stage], Coroutine[Any, Any, None]]) -> tuple[Act, ...]:
        with self.acts:
            control = asyncio.create_task(self.controller.run())
            try:
                async with asyncio.timeout(LONG):
                    await script(self)
                    self.front.wishes.put_nowait(None)
                    await control
            finally:
                control.cancel()
                await asyncio.wait({control})
        return folders.read_acts(self.folder)

    async def hears(self, **fields: object) -> None:
        while fields not in [
            {name: message.get(name) for name in fields} for message in self.front.sent
        ]:
            await asyncio.sleep(0.005)


def play(stage: Callable[[], Stage], script: Callable[[Stage], Coroutine[Any, Any, None]]) -> Any:
    async def whole() -> tuple[Stage, tuple[Act, ...]]:
        played = stage()
        return played, await played.play(script)

    return asyncio.run(whole())


def of(acts: tuple[Act, ...], kind: type) -> list[Any]:
    return [act for act in acts if isinstance(act, kind)]


def test_a_node_is_made_and_removed_as_the_front_wants(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        stage.front.allocate(3)
        await stage.hears(ready=3, address="n-3-1:80", url="http://n-3-1:80/film")
        assert stage.controller.nodes == ["n-3-1"]
        stage.front.release(3)
        await stage.hears(released=3)
        await stage.controller.idle()

    stage, acts = play(lambda: Stage(tmp_path), script)
    assert [act.event for act in acts] == ["asked", "ready", "released"]
    request, ready, released = acts
    assert request.front_ns <= request.at_ns <= ready.asked_ns <= ready.serving_ns <= ready.at_ns
    assert released.front_ns <= released.asked_ns <= released.at_ns
    assert ready.stages == {"TiI": 0.5}
    assert not released.end
    assert stage.maker.instances == []


def test_what_fails_is_tried_again_within_the_budget(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        stage.maker.making = [refuse, None, break_down, refuse]
        stage.front.allocate(0)
        await stage.hears(ready=0)
        stage.front.allocate(1)
        await stage.hears(failed=1)

    stage, acts = play(lambda: Stage(tmp_path), script)
    assert [act.why for act in of(acts, Retried)] == [
        "every place is in use on the cloud",
        "a provider of somebody else's",
        "every place is in use on the cloud",
    ]
    (ready,) = of(acts, Ready)
    assert (ready.instance, ready.attempts) == ("n-0-2", 2)
    (failed,) = of(acts, NotReady)
    assert (failed.node, failed.attempts, stage.controller.failed) == (1, 2, 1)
    (end,) = of(acts, Release)
    assert (end.node, end.end) == (0, True)
    assert stage.maker.instances == []


def test_a_full_cloud_is_asked_once_and_not_at_once_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []
    sleep = asyncio.sleep

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        await sleep(0)

    async def script(stage: Stage) -> None:
        monkeypatch.setattr(asyncio, "sleep", rest)
        stage.maker.making = [no_quota]
        stage.front.allocate(0)
        await stage.hears(failed=0)

    _, acts = play(lambda: Stage(tmp_path), script)
    assert [act.code for act in of(acts, Retried)] == ["cloud-quota"]
    (failed,) = of(acts, NotReady)
    assert (failed.code, failed.attempts) == ("cloud-quota", 1)
    assert max(rests) >= 5, "the front asks for the next one when it hears"


def test_what_cannot_be_removed_is_said_and_the_front_is_not_left_waiting(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        stage.maker.removing = [refuse, None, break_down, refuse]
        for node in (0, 1):
            stage.front.allocate(node)
            await stage.hears(ready=node)
            stage.front.release(node)
            await stage.hears(released=node)

    stage, acts = play(lambda: Stage(tmp_path), script)
    first, second = of(acts, Release)
    assert (first.attempts, first.left) == (2, "")
    assert (second.attempts, second.left) == (2, "every place is in use on the cloud")
    assert stage.controller.leftovers == ["n-1-1: every place is in use on the cloud"]


def test_what_goes_with_its_machine_is_not_tried_again_and_no_removal(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        stage.maker.removing = [machine_gone, machine_gone]
        for node in (0, 1):
            stage.front.allocate(node)
            await stage.hears(ready=node)
        stage.front.release(0)
        await stage.hears(released=0)
        stage.maker.nodes["n-1-1"].death.set_result("the node a is gone")
        await stage.hears(failed=1)

    stage, acts = play(lambda: Stage(tmp_path), script)
    why = "the node a is gone: its cable was pulled"
    assert [(act.attempts, act.left, act.end) for act in of(acts, Release)] == [
        (1, why, False),
        (1, why, True),
    ]
    assert not of(acts, Retried) and not stage.controller.leftovers


def test_a_node_that_dies_is_told_and_removed(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        stage.front.allocate(0)
        await stage.hears(ready=0)
        stage.maker.nodes["n-0-1"].death.set_result("its NGINX\x1b ended")
        await stage.hears(failed=0)
        await stage.controller.idle()
        assert stage.maker.instances == []

    stage, acts = play(lambda: Stage(tmp_path), script)
    (lost,) = of(acts, Lost)
    assert lost.why.startswith("its NGINX")
    assert "\x1b" not in lost.why
    assert stage.controller.lost == 1
    assert [act.end for act in of(acts, Release)] == [True]


def test_a_node_is_held_back_and_may_die_meanwhile(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        stage.maker.dying.add("n-0-1")
        stage.front.allocate(0)
        await stage.hears(ready=0)

    _, acts = play(lambda: Stage(tmp_path, Hold(0.2)), script)
    request, retried, ready = acts[:3]
    assert (request.event, ready.event) == ("asked", "ready")
    assert (retried.what, retried.instance, retried.attempt) == ("allocate", "n-0-1", 1)
    assert retried.why == "it ended before it was told to the front: at once"
    assert (ready.instance, ready.injected_s) == ("n-0-2", 0.2)
    assert ready.at_ns - ready.serving_ns > 0.1e9


def test_a_node_that_is_to_take_a_time_is_held_from_its_request(tmp_path: Path) -> None:
    """What making it took is a part of that time, and nothing is added to it."""

    async def script(stage: Stage) -> None:
        stage.maker.making = [lambda: asyncio.sleep(0.15)]
        stage.front.allocate(0)
        await stage.hears(ready=0)

    _, acts = play(lambda: Stage(tmp_path, Hold(mean_s=0.5)), script)
    request, ready = acts[:2]
    assert (ready.serving_ns - request.at_ns) / 1e9 >= 0.15
    allocated_s = (ready.serving_ns - request.at_ns) / 1e9 + ready.injected_s
    assert allocated_s == pytest.approx(0.5, abs=1e-6)
    assert (ready.at_ns - request.at_ns) / 1e9 >= 0.5


def test_draws_have_the_mean_and_the_deviation_and_are_the_same_again() -> None:
    hold = Hold(mean_s=10.729, deviation_s=1.439, seed="15:kvm:1")
    drawn = [hold.until_ns(node, 0, 0) / 1e9 for node in range(2000)]
    assert statistics.fmean(drawn) == pytest.approx(10.729, abs=4 * 1.439 / 2000**0.5)
    assert statistics.stdev(drawn) == pytest.approx(1.439, rel=0.1)
    assert drawn[:3] == [hold.until_ns(node, 0, 0) / 1e9 for node in range(3)]
    other = Hold(mean_s=10.729, deviation_s=1.439, seed="15:kvm:2")
    assert other.until_ns(0, 0, 0) / 1e9 != drawn[0]
    assert hold.until_ns(0, 0, 60 * 10**9) == 60 * 10**9, "who is later is not held"
    assert max(drawn) < hold.longest_s


@pytest.mark.parametrize("hanging", ["making", "ready"])
def test_a_release_ends_whatever_the_node_is_doing(tmp_path: Path, hanging: str) -> None:
    async def script(stage: Stage) -> None:
        if hanging == "making":
            stage.maker.making = [hang]
        stage.front.allocate(0)
        await stage.maker.begun.wait()
        if hanging == "ready":
            await stage.hears(ready=0)
        stage.front.release(0)
        stage.front.release(0)  # said again: it is on its way
        await stage.hears(released=0)

    stage, acts = play(lambda: Stage(tmp_path), script)
    assert [act.event for act in acts] == (
        ["asked", "taken-back"] if hanging == "making" else ["asked", "ready", "released"]
    )
    assert acts[0].at_ns <= acts[-1].at_ns
    assert stage.maker.instances == []
    assert stage.front.sent.count({"released": 0}) == 1


def test_a_front_that_was_started_again_hears_everything_again(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        for node in (0, 1):
            stage.front.allocate(node)
            await stage.hears(ready=node)
        stage.front.release(1)
        await stage.hears(released=1)
        stage.front.sent.clear()
        stage.front.wishes.put_nowait(Restarted(5, 7, "it was ended by SIGKILL"))
        stage.front.allocate(0)  # as its log remembers
        stage.front.release(1)
        stage.front.release(9)  # it never came to us
        await stage.hears(released=9)
        assert stage.front.sent.count({"released": 1}) == 2
        assert [message.get("ready") for message in stage.front.sent].count(0) == 2

    stage, acts = play(lambda: Stage(tmp_path), script)
    (ended,) = of(acts, FrontEnded)
    assert (ended.at_ns, ended.back_ns, ended.how) == (5, 7, "it was ended by SIGKILL")
    assert stage.maker.instances == []


def test_nothing_is_left_when_the_front_is_given_up_or_we_are_cancelled(tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        stage.front.allocate(0)
        await stage.hears(ready=0)
        stage.maker.making = [hang]
        stage.maker.begun.clear()
        stage.front.allocate(1)
        await stage.maker.begun.wait()
        stage.front.wishes.put_nowait(
            UllageError(errors.ELASTIC_FRONT_DIED, times=3, how="x", stderr="")
        )
        await asyncio.Event().wait()

    async def whole() -> Stage:
        stage = Stage(tmp_path)
        with stage.acts:
            playing = asyncio.create_task(script(stage))
            async with asyncio.timeout(LONG):
                with pytest.raises(UllageError) as caught:
                    await stage.controller.run()
            playing.cancel()
        assert caught.value.kind is errors.ELASTIC_FRONT_DIED
        return stage

    assert asyncio.run(whole()).maker.instances == []


def test_a_log_that_cannot_be_written_keeps_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def whole() -> Stage:
        stage = Stage(tmp_path)
        first_is_gone = asyncio.Event()

        async def later() -> None:
            await first_is_gone.wait()
            await asyncio.sleep(0.05)

        def full(act: Act) -> None:
            if isinstance(act, Release):
                first_is_gone.set()
                raise OSError(errno.ENOSPC, "no space")

        with stage.acts:
            control = asyncio.create_task(stage.controller.run())
            async with asyncio.timeout(LONG):
                for node in (0, 1):
                    stage.front.allocate(node)
                    await stage.hears(ready=node)
                monkeypatch.setattr(stage.acts, "add", full)
                stage.maker.removing = [None, later]
                stage.front.wishes.put_nowait(None)
                with pytest.raises(OSError, match="no space"):
                    await control
            assert stage.maker.instances == []
        return stage

    asyncio.run(whole())


def test_a_cancelled_release_is_taken_up_at_the_end(tmp_path: Path) -> None:
    async def whole() -> Stage:
        stage = Stage(tmp_path)
        removing = asyncio.Event()

        async def hang_once() -> None:
            removing.set()
            await hang()

        stage.maker.removing = [hang_once]
        with stage.acts:
            control = asyncio.create_task(stage.controller.run())
            async with asyncio.timeout(LONG):
                stage.front.allocate(0)
                await stage.hears(ready=0)
                stage.front.release(0)
                await removing.wait()
                control.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await control
        return stage

    assert asyncio.run(whole()).maker.instances == []


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_full_disk_does_not_end_the_attempts_to_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    """The second attempt works, or none: either way it is made, and the full disk is told."""
    write = Acts.add

    def full(self: Acts, act: Act) -> None:
        if isinstance(act, Retried):
            raise OSError(errno.ENOSPC, "no space")
        write(self, act)

    async def whole() -> Stage:
        stage = Stage(tmp_path)
        stage.maker.removing = [refuse] * attempts
        with stage.acts:
            control = asyncio.create_task(stage.controller.run())
            async with asyncio.timeout(LONG):
                stage.front.allocate(0)
                await stage.hears(ready=0)
                monkeypatch.setattr(Acts, "add", full)
                stage.front.release(0)
                with pytest.raises(OSError, match="no space"):
                    await control
        return stage

    stage = asyncio.run(whole())
    assert stage.maker.removing == []
    assert stage.maker.instances == (["n-0-1"] if attempts == 2 else [])
    why = "every place is in use on the cloud"
    assert stage.controller.leftovers == ([f"n-0-1: {why}"] if attempts == 2 else [])
