"""The controller removes real instances whose provider fails at that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import allocationkit as kit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.provisioning.allocate import allocate
from ullage.environments.provisioning.node import Site
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import Act, Release, Retried
from ullage.experiments.elastic.plan.schema import Budgets, Releases
from ullage.experiments.elastic.run.controller import Acts, Controller
from ullage.experiments.elastic.run.front import Wish
from ullage.experiments.elastic.run.nodes import StreamingNode
from ullage.host import clock

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

PATIENCE_S = 120.0


@dataclass
class AskingFront:
    """Wants one node, and wants it away when it is there."""

    sent: list[dict[str, object]] = field(default_factory=list)
    wishes: asyncio.Queue[Wish | None] = field(default_factory=asyncio.Queue)

    async def messages(self) -> AsyncIterator[Wish]:
        self._want(release=False)
        while (wish := await self.wishes.get()) is not None:
            yield wish

    def tell(self, **fields: object) -> None:
        self.sent.append(fields)
        if "ready" in fields:
            self._want(release=True)
        else:
            self.wishes.put_nowait(None)

    def _want(self, *, release: bool) -> None:
        self.wishes.put_nowait(Wish(0, release=release, at_ns=clock.ordered_ns()))


@dataclass
class RealMaker:
    """Makes instances with a server in them."""

    host: Site
    nodes: list[StreamingNode] = field(default_factory=list)

    def name(self, node: int, attempt: int) -> str:
        return f"a-{node}-{attempt}"

    def machine(self, name: str) -> str:
        return ""

    async def make(self, name: str, limit_s: float) -> StreamingNode:
        node = await allocate(self.host, name, application=kit.server(), limit_s=limit_s)
        self.nodes.append(StreamingNode(node, "nowhere", "http://nowhere/"))
        return self.nodes[-1]


async def busy() -> None:
    raise UllageError(errors.NETWORK_FAILED, reason="busy for a moment")


async def played(host: Site, folder: Path) -> tuple[Controller, RealMaker, tuple[Act, ...]]:
    front: Any = AskingFront()
    maker, attempts = RealMaker(host), Releases(tries=2, limit=PATIENCE_S)
    with Acts(folder / folders.CONTROLLER_LOG) as acts:
        controller = Controller(front, maker, acts, Budgets(allocate=attempts, release=attempts))
        async with asyncio.timeout(PATIENCE_S):
            await controller.run()
    assert front.sent[-1] == {"released": 0}
    return controller, maker, folders.read_acts(folder)


def test_the_second_attempt_removes_what_the_first_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = kit.broken_destroy(monkeypatch, busy, times=1)

    async def scenario() -> None:
        async with kit.node() as host:
            controller, maker, acts = await played(host, tmp_path)
            assert len(tried) == 2
            await kit.dead(maker.nodes[0].allocated.instance)
            assert host.used == 0
            (retried,) = (act for act in acts if isinstance(act, Retried))
            (released,) = (act for act in acts if isinstance(act, Release))
            assert (released.attempts, released.left, controller.leftovers) == (2, "", [])
            assert released.asked_ns <= retried.at_ns <= released.at_ns

    asyncio.run(scenario())


def test_what_no_attempt_removes_is_left_and_keeps_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.broken_destroy(monkeypatch, busy, times=2)

    async def scenario() -> None:
        async with kit.node() as host:
            controller, maker, acts = await played(host, tmp_path)
            (released,) = (act for act in acts if isinstance(act, Release))
            assert released.attempts == 2
            assert "busy for a moment" in released.left
            assert controller.leftovers == [f"a-0-1: {released.left}"]
            await kit.dead(maker.nodes[0].allocated.instance)
            assert host.used == 1
            await maker.nodes[0].remove(PATIENCE_S)  # in place of the end of the run
            assert host.used == 0

    asyncio.run(scenario())
