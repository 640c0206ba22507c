"""Makes and removes nodes for the front, and keeps a log of it.

One task a node lives from the front's wish until nothing of the node is left: it is made (again and
again, within a budget), held back if the plan injects a boot delay, told to the front, watched, and
removed. Whatever a provider does, the front hears in the end that a node is ready, failed or gone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Protocol

from ullage.common.errors import NODE_LOST, UllageError
from ullage.common.text import printable
from ullage.experiments.elastic.folder import (
    FULL,
    Act,
    FrontEnded,
    Lost,
    NotReady,
    Ready,
    Release,
    Requested,
    Retried,
    TakenBack,
)
from ullage.experiments.elastic.plan.hold import Hold
from ullage.experiments.elastic.plan.schema import Budgets
from ullage.experiments.elastic.run.front import Front, Restarted, Wish
from ullage.host import clock


class Acts:
    """Writes `controller.jsonl`; on the disk when it is closed."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("xb")

    def add(self, act: Act) -> None:
        """A line, with the kernel when this returns."""
        self._file.write(act.model_dump_json().encode() + b"\n")
        self._file.flush()

    def __enter__(self) -> Acts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._file as file:
            os.fsync(file.fileno())


_LONGEST_WHY: Final = 500
_REST_S: Final = 0.25
"""Before the front hears that an allocation failed: while viewers wait it asks for the next one
at once, and a provider that refuses at once would be asked thousands of times a second."""
_FULL_REST_S: Final = 5.0
"""The same where a cloud has no room, or we may have no more: nothing of ours changes that."""


class ServingNode(Protocol):
    """A node that streams."""

    address: str
    """`ip:port`."""
    url: str
    """Of the film."""

    @property
    def made_ns(self) -> int:
        """The provider was done with it."""

    @property
    def serving_ns(self) -> int:
        """When it streamed."""

    @property
    def stages(self) -> dict[str, float]:
        """Parts of its allocation, in seconds."""

    @property
    def steps(self) -> dict[str, int]:
        """Every instant of its making."""

    async def gone(self) -> str:
        """Wait until it streams no more; why."""

    async def remove(self, limit_s: float) -> None:
        """Remove it and all that it left; raises when that fails, or takes longer.

        NODE_LOST: there is nothing more to be done, and nobody has seen it go.
        """


class Maker(Protocol):
    def name(self, node: int, attempt: int) -> str:
        """What the instance is called."""

    def machine(self, name: str) -> str:
        """That it was made on, or was to be, as the plan calls it; empty: it names none."""

    async def make(self, name: str, limit_s: float) -> ServingNode:
        """A node; raises when that fails, or takes longer: nothing of it is left then."""


Phase = Literal["coming", "ready", "failed", "leaving", "gone"]


@dataclass
class _Node:
    """What is known of a node, and what the front was told of it last."""

    number: int
    phase: Phase = "coming"
    instance: str = ""
    serving: ServingNode | None = None
    message: dict[str, object] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


NO_HOLD: Final = Hold()


class Controller:
    def __init__(
        self, front: Front, maker: Maker, acts: Acts, budgets: Budgets, hold: Hold = NO_HOLD
    ) -> None:
        self.front, self.maker, self.acts = front, maker, acts
        self.budgets, self.hold = budgets, hold
        self.lost = 0
        """Nodes that ended while they streamed."""
        self.failed = 0
        """Nodes that could not be allocated."""
        self.leftovers: list[str] = []
        """What could not be removed, and why."""
        self._nodes: dict[int, _Node] = {}
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self) -> None:
        """Do what the front wants until it quits, then remove what is left.

        ELASTIC_FRONT_DIED. Whatever ends it, nothing is left but what `leftovers` names.
        """
        try:
            await self._run()
        except ExceptionGroup as several:
            raise several.exceptions[0] from several
        finally:
            away = (self._away(node) for node in self._nodes.values())
            # One whose end cannot be written down does not keep the others.
            for ended in await asyncio.gather(*away, return_exceptions=True):
                if ended is not None:
                    raise ended

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            try:
                async for message in self.front.messages():
                    if isinstance(message, Restarted):
                        self._again(message)
                    else:
                        self._obey(message, group)
            finally:
                for node in self._nodes.values():
                    if node.task is not None and node.phase != "leaving":
                        node.task.cancel()

    async def idle(self) -> None:
        """Wait until nothing is being made or removed."""
        await self._idle.wait()

    @property
    def nodes(self) -> list[str]:
        """The instances that stream now."""
        return [node.instance for node in self._nodes.values() if node.phase == "ready"]

    # --- what the front wants ---------------------------------------------------------------------
    def _obey(self, wish: Wish, group: asyncio.TaskGroup) -> None:
        node = self._nodes.get(wish.node)
        if not wish.release:
            if node is None:
                node = self._nodes[wish.node] = _Node(wish.node)
                node.task = group.create_task(self._live(node, wish.at_ns))
            elif node.message:  # it was started again, and has not heard
                self.front.tell(**node.message)
            return
        if node is None or node.phase == "gone":
            self.front.tell(released=wish.node)
        elif node.phase != "leaving":
            coming, node.phase = node.phase == "coming", "leaving"
            leave = self._leave(node, node.task, wish.at_ns, coming=coming)
            node.task = group.create_task(leave)

    def _again(self, restarted: Restarted) -> None:
        """The front is back: what it was told while it was dying may be lost, so it hears it again.

        What it knows already it refuses, and says so in its own words.
        """
        self.acts.add(
            FrontEnded(at_ns=restarted.ended_ns, back_ns=restarted.back_ns, how=restarted.how)
        )
        for node in self._nodes.values():
            if node.message:
                self.front.tell(**node.message)

    # --- a node's life ----------------------------------------------------------------------------
    async def _live(self, node: _Node, front_ns: int) -> None:
        """Make it, tell the front, and watch it until it dies or is to leave."""
        with _Busy(self):
            if not await self._make(node, front_ns):
                return
        assert node.serving is not None
        why = printable(await node.serving.gone(), _LONGEST_WHY)
        node.phase = "failed"
        self.lost += 1
        self._add(Lost, node, why=why)
        self._tell(node, failed=node.number, why=why)
        with _Busy(self):
            await self._away(node)

    async def _make(self, node: _Node, front_ns: int) -> bool:
        """Try within the budget; False when it could not be allocated."""
        budget, why, code, began = self.budgets.allocate, "", "", clock.ordered_ns()
        node.instance = self.maker.name(node.number, 1)
        self._add(Requested, node, front_ns=front_ns, at_ns=began)
        for attempt in range(1, budget.tries + 1):
            node.instance, asked_ns = self.maker.name(node.number, attempt), clock.ordered_ns()
            try:
                serving = node.serving = await self.maker.make(node.instance, budget.limit)
            except Exception as error:  # whatever a provider does
                why, code = _why(error), _code(error)
                self._add(Retried, node, what="allocate", attempt=attempt, why=why, code=code)
                if code == FULL:
                    break
                continue
            serving_ns = serving.serving_ns
            until_ns = self.hold.until_ns(node.number, began, serving_ns)
            why, code = await self._hold(node, until_ns), ""
            if not why:
                node.phase = "ready"
                self._add(
                    Ready,
                    node,
                    address=serving.address,
                    asked_ns=asked_ns,
                    made_ns=serving.made_ns,
                    serving_ns=serving_ns,
                    attempts=attempt,
                    injected_s=(until_ns - serving_ns) / 1e9,
                    stages=serving.stages,
                    steps=serving.steps,
                )
                self._tell(node, ready=node.number, address=serving.address, url=serving.url)
                return True
            self._add(Retried, node, what="allocate", attempt=attempt, why=why)
            await self._remove(node)
        node.phase = "failed"
        self.failed += 1
        self._add(NotReady, node, asked_ns=began, attempts=attempt, why=why, code=code)
        await asyncio.sleep(_FULL_REST_S if code == FULL else _REST_S)
        self._tell(node, failed=node.number, why=why)
        return False

    async def _hold(self, node: _Node, until_ns: int) -> str:
        """Hold it back until that instant; why it died before, if it did."""
        assert node.serving is not None
        left_s = (until_ns - clock.ordered_ns()) / 1e9
        if left_s <= 0:
            return ""
        try:
            async with asyncio.timeout(left_s):
                how = await node.serving.gone()
        except TimeoutError:
            return ""
        return printable(f"it ended before it was told to the front: {how}", _LONGEST_WHY)

    async def _leave(
        self, node: _Node, before: asyncio.Task[None] | None, front_ns: int, *, coming: bool
    ) -> None:
        """Remove it because the front wants so, whatever it is doing."""
        with _Busy(self):
            if before is not None:
                before.cancel()
                await asyncio.wait({before})
            asked_ns = clock.ordered_ns()
            if node.serving is not None:
                attempts, left = await self._remove(node)
                times = {"front_ns": front_ns, "asked_ns": asked_ns}
                self._add(Release, node, **times, attempts=attempts, left=left)
            elif coming and node.phase == "leaving" and node.instance:  # it was asked for
                self._add(TakenBack, node, front_ns=front_ns)
            node.phase = "gone"
            self._tell(node, released=node.number)

    async def _away(self, node: _Node) -> None:
        """Remove what is left of it, though the front did not ask for that."""
        if node.serving is None:
            return
        now_ns = clock.ordered_ns()
        attempts, left = await self._remove(node)
        times = {"front_ns": now_ns, "asked_ns": now_ns}
        self._add(Release, node, **times, attempts=attempts, left=left, end=True)

    async def _remove(self, node: _Node) -> tuple[int, str]:
        """Try within the budget; attempts that it took, and why it is left if all failed, or why
        nobody knows when it went.

        A failure that cannot be written down (a full disk) is raised when there is no more to try.
        """
        budget = self.budgets.release
        serving, node.serving = node.serving, None
        assert serving is not None
        why = ""
        unwritten: OSError | None = None
        for attempt in range(1, budget.tries + 1):
            try:
                await serving.remove(budget.limit)
            except Exception as error:  # whatever a provider does
                why = _why(error)
                if _code(error) == NODE_LOST.code:
                    done = attempt, why
                    break
                try:
                    self._add(Retried, node, what="release", attempt=attempt, why=why)
                except OSError as full:
                    unwritten = full
            except asyncio.CancelledError:
                node.serving = serving  # the end of the repetition tries again
                raise
            else:
                done = attempt, ""
                break
        else:
            self.leftovers.append(f"{node.instance}: {why}")
            done = budget.tries, why
        if unwritten is not None:
            raise unwritten
        return done

    def _add(self, act: Callable[..., Act], node: _Node, **fields: Any) -> None:
        """Write down what happened to a node: now, if nothing else is said."""
        at_ns = fields.pop("at_ns", None) or clock.ordered_ns()
        if act not in (Requested, TakenBack):  # which stand on no machine
            fields["machine"] = self.maker.machine(node.instance)
        self.acts.add(act(node=node.number, instance=node.instance, at_ns=at_ns, **fields))

    def _tell(self, node: _Node, **fields: object) -> None:
        node.message = fields
        self.front.tell(**fields)


class _Busy:
    """While it lasts, the controller is not idle."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def __enter__(self) -> None:
        self._controller._busy += 1
        self._controller._idle.clear()

    def __exit__(self, *_: object) -> None:
        self._controller._busy -= 1
        if not self._controller._busy:
            self._controller._idle.set()


def _code(error: Exception) -> str:
    return error.code if isinstance(error, UllageError) else ""


def _why(error: Exception) -> str:
    """What a provider says of its failure."""
    message = error.message if isinstance(error, UllageError) else str(error)
    return printable(message or type(error).__name__, _LONGEST_WHY)
