"""Nodes to allocate on, and providers that do what they should not."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.environments import containerkit as kit
from ullage.environments.agent import client
from ullage.environments.base import Instance, InstanceSpec, Provider
from ullage.environments.native import Native, NativeInstance, NativeOptions
from ullage.environments.placement import Resources
from ullage.environments.provisioning.allocate import Application, Site
from ullage.host.image import Image
from ullage.runs.allocations import Copy

MIB = 1 << 20
PORT = 8080
"""Each instance has a network namespace of its own."""

SERVER = f"""
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.HTTPServer(("", {PORT}), Handler).serve_forever()
"""


def server(path: str = "/") -> Application:
    """A web server of the host's Python."""
    return Application(("python3", "-S", "server.py"), PORT, path, {"server.py": SERVER.encode()})


@asynccontextmanager
async def node(
    provider: Provider | None = None, image: Image | None = None, copy: Copy = "backing"
) -> AsyncIterator[Site]:
    """A node with a network; at the end nothing that was made on it may be there."""
    chosen = provider or Native(NativeOptions())
    async with kit.running(chosen) as run:
        resources = Resources.model_validate({"cpus": 1, "memory": 256 * MIB})
        yield Site(run.tag, chosen, resources, image, client.binary(), run.network, copy)


def broken_destroy(
    monkeypatch: pytest.MonkeyPatch,
    misbehave: Callable[[], Awaitable[None]],
    *,
    times: int,
    name: str = "",
) -> list[str]:
    """Who is to be destroyed does that before, the first so many times; every try, by name.

    name: nobody but this one.
    """
    real = NativeInstance.destroy
    tried: list[str] = []

    async def destroy(self: NativeInstance) -> None:
        if name in ("", self.name):
            tried.append(self.name)
            if len(tried) <= times:
                await misbehave()
        await real(self)

    monkeypatch.setattr(NativeInstance, "destroy", destroy)
    return tried


async def dead(instance: Instance) -> None:
    """Wait until its processes are, which is told by the agent's channel."""
    async with asyncio.timeout(60):
        while instance.alive:
            await asyncio.sleep(0.01)


class Bad(Native):
    """Makes real instances, but for the one whose name ends in `-bad`."""

    def __init__(self) -> None:
        super().__init__(NativeOptions())
        self.reached = asyncio.Event()
        self.instances: list[Instance] = []

    async def create(self, spec: InstanceSpec) -> Instance:
        if spec.name.endswith("-bad"):
            self.reached.set()
            await self.misbehave(spec)
        instance = await super().create(spec)
        self.instances.append(instance)
        return instance

    @abstractmethod
    async def misbehave(self, spec: InstanceSpec) -> None: ...


class Hanging(Bad):
    """Never comes to an end by itself."""

    async def misbehave(self, spec: InstanceSpec) -> None:
        await asyncio.Event().wait()


class Deaf(Bad):
    """Does not even hear that it should end, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = asyncio.Event()

    async def misbehave(self, spec: InstanceSpec) -> None:
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
