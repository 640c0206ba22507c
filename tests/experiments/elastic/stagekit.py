"""A repetition with a real front and viewers, and nodes that are processes here."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import RepetitionOutcome
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.run import viewers
from ullage.experiments.elastic.run.generators import Machines
from ullage.experiments.elastic.run.repetition import RunningRepetition, RunSetup
from ullage.host import binaries, clock, paths
from ullage.workloads.web import clip

LONG = 60.0

PLAN = """\
name: film
room: 2
environments:
  here: {{provider: lxc}}
policy: {{name: elastic-movie, unused: release}}
arrivals: {{kind: uniform, rate: {rate}, viewers: {viewers}}}
video: {{length: {length}, bitrate: 80000, generate: bytes, buffer: 0.2}}
patience: {patience}
lateness_limit: 60
budgets:
  allocate: {{tries: 2, limit: 60}}
  release: {{tries: 2, limit: 60}}
  front: {front}
  repetition: {limit}
  silence: {silence}
"""

USUAL = {
    "rate": 20,
    "viewers": 6,
    "length": 1,
    "patience": 60,
    "front": 3,
    "limit": 120,
    "silence": 60,
}


class LocalNode:
    """`ullage-viewers node`: streams without an instance around it."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self.process, self.address, self.url = process, address, f"http://{address}/film"
        self.made_ns = self.serving_ns = clock.ordered_ns()
        self.stages: dict[str, float] = {}
        self.steps: dict[str, int] = {}
        self.death = asyncio.Event()

    async def gone(self) -> str:
        await self.death.wait()
        return "its host burns"

    async def remove(self, limit_s: float) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


class LocalNodes:
    """Makes them; `trouble` is called before each, and may raise."""

    def __init__(self, size: int) -> None:
        program = str(binaries.program(viewers.PROGRAM))
        self.argv: tuple[str, ...] = (program, "node", "--bytes", str(size))
        """Of a server that says where it listens."""
        self.running: list[LocalNode] = []
        self.trouble: Callable[[int], Awaitable[None]] | None = None

    def name(self, node: int, attempt: int) -> str:
        return f"here-{node}-{attempt}"

    def machine(self, name: str) -> str:
        return ""

    async def make(self, name: str, limit_s: float) -> LocalNode:
        if self.trouble is not None:
            await self.trouble(len(self.running))
        process = await asyncio.create_subprocess_exec(
            *self.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        address = json.loads(await process.stdout.readline())["listening"]
        self.running.append(LocalNode(process, address))
        return self.running[-1]


class Stage:
    """One repetition, and what it left."""

    def __init__(
        self, root: Path, *, machines: Callable[[str], Machines] | None = None, **times: float
    ) -> None:
        """`machines`: of the run's tag; None: the viewers are processes here."""
        times = USUAL | times
        plan, document = schema.loads(PLAN.format(**times))
        (environment,) = schema.resolve(plan, document)
        size = round(times["length"] * 10_000)
        network: Any = SimpleNamespace(
            gateway="127.0.0.1", subnet=ipaddress.IPv4Network("127.0.0.0/8")
        )
        film = clip.Clip(root / "film", "bytes", "0", size, "a test")
        tag = paths.new_tag()
        more = None if machines is None else machines(tag)
        hosts: dict[str, Any] = {environment.key: None}
        setting = RunSetup(plan, root, tag, 1, network, hosts, film, more)
        self.nodes = LocalNodes(size)
        self.repetition = RunningRepetition(setting, environment, 0, 0, maker=self.nodes)
        self.outcome: RepetitionOutcome

    def play(self, script: Callable[[Stage], Awaitable[None]] | None = None) -> Stage:
        async def whole() -> None:
            async with asyncio.timeout(4 * LONG):
                running = asyncio.create_task(self.repetition.run())
                try:
                    if script is not None:
                        await script(self)
                    self.outcome = await running
                finally:
                    running.cancel()
                    await asyncio.wait({running})

        asyncio.run(whole())
        assert all(node.process.returncode is not None for node in self.nodes.running)
        assert self.outcome == folders.read_outcome(self.repetition.folder)
        return self

    def acts(self, kind: type) -> list[Any]:
        acts = folders.read_acts(self.repetition.folder)
        return [act for act in acts if isinstance(act, kind)]

    @property
    def sessions(self) -> list[dict[str, Any]]:
        lines = (self.repetition.folder / folders.SESSIONS).read_text(encoding="utf-8")
        return [json.loads(line) for line in lines.splitlines()]

    @property
    def events(self) -> list[dict[str, Any]]:
        text = (self.repetition.folder / folders.FRONT_LOG).read_text(encoding="utf-8")
        *lines, _ = text.split("\n")  # the last may be on its way
        return [json.loads(line) for line in lines]

    async def streams(self, nodes: int) -> None:
        """Wait until so many nodes do."""
        controller = None
        while controller is None or len(controller.nodes) < nodes:
            await asyncio.sleep(0.005)
            controller = getattr(self.repetition, "controller", None)
