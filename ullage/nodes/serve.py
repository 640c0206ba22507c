"""The remote end of a node: what a controller asks for is done here, by this machine's providers.

It speaks on standard input and output, so whoever may execute it is its controller: ssh has asked
for the key. All that it makes carries the run's tag. At the end of its input, and when it has heard
nothing for `LEASE_S`, it removes everything and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from ullage import environments
from ullage.common.archives.inflow import CutError
from ullage.common.errors import NODE_DISK_FULL, NODE_IMAGE_CORRUPT, UllageError
from ullage.common.faults import first_fault
from ullage.common.text import printable
from ullage.environments import Instance, Provider
from ullage.environments.agent.client import binary
from ullage.environments.agent.frames import (
    FrameError,
    FrameReader,
    Message,
    encode_message,
)
from ullage.host import claims, facts, image, leftovers, paths
from ullage.host.clock import UdpServer
from ullage.host.image import Image
from ullage.host.network.sockets import SocketFolder
from ullage.meters import Scene
from ullage.nodes import clock, wire
from ullage.nodes.answers import LONGEST
from ullage.nodes.base import Order
from ullage.nodes.handover import offer
from ullage.nodes.local import LocalNode
from ullage.nodes.uploads import Uploads
from ullage.nodes.wire import HINT, LEASE_S, MAGIC, PROTOCOL, Nothing, Payload

_READ: Final = 256 * 1024
_MOST_REQUESTS: Final = 1024
_DISK_FULL: Final = frozenset({28, 122})
"""ENOSPC, EDQUOT."""
_LEAVING_S: Final = 60.0
"""So long may what was asked for last take to end before everything is removed all the same."""


class RefusedError(Exception):
    """What is asked for cannot be: a code, a reason and what to do."""

    def __init__(self, code: str, reason: str, hint: str = "") -> None:
        self.code, self.reason, self.hint = code, reason, hint
        super().__init__(reason)


class Server:
    """One controller's session."""

    def __init__(self, reader: asyncio.StreamReader, write: Callable[[bytes], None]) -> None:
        self._reader, self._write = reader, write
        self._frames = FrameReader(None)
        self._requests: set[asyncio.Task[None]] = set()
        self._tag = ""
        self._node: LocalNode
        self._sockets: SocketFolder
        self._providers: dict[str, Provider] = {}
        self._images: dict[str, Image] = {}
        self._uploads = Uploads()
        self._instances: dict[str, Instance] = {}
        self._removals: dict[str, asyncio.Task[None]] = {}
        """Instance → its removal, which goes on or has failed."""
        self._offers: list[asyncio.Task[None]] = []
        self._meters: AsyncExitStack | None = None
        self._readings: dict[str, dict[str, float]] = {}
        self._clock: UdpServer | None = None
        self._over = asyncio.Event()
        self._operations: dict[str, tuple[type[Payload], Callable[[Any], Awaitable[Payload]]]] = {
            "hello": (wire.Hello, self._hello),
            "ping": (Nothing, self._ping),
            "check": (wire.Provided, self._check),
            "room": (Nothing, self._room),
            "has": (wire.Has, self._has),
            "take": (wire.Take, self._take),
            "taken": (wire.Taken, self._taken),
            "packages": (wire.Packages, self._packages),
            "surroundings": (wire.Surroundings, self._surroundings),
            "join": (wire.Join, self._join),
            "listen": (Nothing, self._listen),
            "reach": (wire.Ear, self._reach),
            "hush": (Nothing, self._hush),
            "clock": (wire.ClockRequest, self._tell_time),
            "create": (wire.Create, self._create),
            "freeze": (wire.Named, self._freeze),
            "thaw": (wire.Named, self._thaw),
            "destroy": (wire.Named, self._destroy),
            "kills": (wire.Named, self._kills),
            "meter": (wire.MetersOn, self._meter),
            "metered": (Nothing, self._metered),
            "clean": (wire.Clean, self._clean),
            "doctor": (Nothing, self._doctor),
            "bye": (Nothing, self._bye),
        }

    async def run(self) -> None:
        """Serve until the controller leaves, is silent for too long, or breaks the protocol."""
        self._write(MAGIC + b" %d\n" % PROTOCOL)
        try:
            while not self._over.is_set():
                async with asyncio.timeout(LEASE_S):
                    data = await self._reader.read(_READ)
                if not data:
                    break
                for frame in self._frames.feed(data):
                    self._begin(frame)
        except (TimeoutError, FrameError) as error:
            why = f"nothing was heard for {LEASE_S:g} s" if isinstance(error, TimeoutError) else ""
            print(f"ullage-node: {why or error}", file=sys.stderr)
        finally:
            await self._leave()

    def _begin(self, frame: object) -> None:
        if not isinstance(frame, Message):
            raise FrameError("a frame that no node knows")
        number = frame.integer("id", 0, 2**32 - 1)
        if len(self._requests) >= _MOST_REQUESTS:
            raise FrameError("too many requests at once")
        task = asyncio.create_task(self._answer(number, frame))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _answer(self, number: int, frame: Message) -> None:
        fields = {name: v for name, v in frame.fields.items() if name not in {"op", "id"}}
        try:
            answer = await self._perform(frame.op, fields)
            body = encode_message("done", id=number, **answer.model_dump(mode="json"))
        except RefusedError as error:
            body = _error(number, error.code, error.reason, error.hint)
        except UllageError as error:
            body = _error(number, error.code, error.message, error.hint)
        except OSError as error:
            code = NODE_DISK_FULL.code if error.errno in _DISK_FULL else "io"
            body = _error(number, code, f"{error.filename or frame.op}: {error.strerror or error}")
        except ValueError as error:
            body = _error(number, "bad-field", str(error))
        except Exception as error:  # silence would hold the controller for a quarter of an hour
            body = _error(number, "fault", f"{type(error).__name__}: {error}")
        self._write(body)
        if frame.op == "bye":
            self._over.set()

    async def _perform(self, op: str, fields: Mapping[str, Any]) -> Payload:
        if not self._tag and op not in {"hello", "ping", "clean", "doctor", "bye"}:
            raise RefusedError("no-hello", "nobody has said which run it is for")
        try:
            if op not in self._operations:
                raise RefusedError("unknown-op", f"{printable(op, 40)} is nothing that a node does")
            model, perform = self._operations[op]
            return await perform(model.model_validate(fields))
        except ValidationError as error:
            raise RefusedError("bad-field", f"{op}: {first_fault(error)}") from None

    async def _hello(self, request: wire.Hello) -> Payload:
        if request.protocol != PROTOCOL:
            raise RefusedError("version", f"it speaks version {request.protocol} of the protocol")
        remains = await _remove(request.earlier)
        await asyncio.to_thread(claims.claim, request.tag, f"{request.run} (a node of it)")
        self._tag = request.tag
        self._node = LocalNode(platform.node(), request.tag, binary())
        self._sockets = await asyncio.to_thread(SocketFolder, request.tag)
        known = {**facts.facts(), "root": os.geteuid() == 0}
        return wire.Greeting(protocol=PROTOCOL, not_removed=remains[:100], facts=known)

    async def _ping(self, _: Nothing) -> Payload:
        return Nothing()

    async def _check(self, request: wire.Provided) -> Payload:
        provider = self._provider(request.provider, request.options)
        offered = await self._node.check(provider)
        return wire.Offered(**offered.model_dump())

    def _provider(self, name: str, options: Mapping[str, Any]) -> Provider:
        """The same one for the same options: what its check has seen is kept in it."""
        key = f"{name} {sorted(options.items())}"
        if key not in self._providers:
            try:
                kind = environments.get(name)
            except KeyError:
                raise RefusedError("bad-field", f"there is no provider {name}") from None
            self._providers[key] = kind(kind.options_model.model_validate(options))
        return self._providers[key]

    async def _room(self, _: Nothing) -> Payload:
        return await self._node.room()

    async def _has(self, request: wire.Has) -> Payload:
        return wire.HasAnswer(there=await self._image(request.digest) is not None)

    async def _image(self, digest: str) -> Image | None:
        """As it was received, whole."""
        if digest not in self._images:
            there = await asyncio.to_thread(image.received, digest)
            if there is None:
                return None
            await there.verify()
            self._images[digest] = there
        return self._images[digest]

    async def _take(self, request: wire.Take) -> Payload:
        if request.digest in self._uploads:
            raise RefusedError("taking", "it is on its way already")
        socket = self._sockets.socket(f"image {request.digest}")
        await self._uploads.begin(request, socket)
        return wire.Taking(socket=str(socket))

    async def _taken(self, request: wire.Taken) -> Payload:
        if request.digest not in self._uploads:
            raise RefusedError("not-taking", "nobody has said that it comes")
        try:
            arrived = await self._uploads.end(request.digest)
        except CutError as error:
            raise RefusedError("cut", str(error)) from error
        except (UllageError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _DISK_FULL:
                raise
            if isinstance(error, UllageError) and "No space left" not in error.message:
                raise
            raise RefusedError(NODE_DISK_FULL.code, "the image") from error
        if not isinstance(arrived, Image):
            raise RefusedError(NODE_IMAGE_CORRUPT.code, arrived)
        self._images[request.digest] = arrived
        return Nothing()

    async def _packages(self, request: wire.Packages) -> Payload:
        return wire.PackagesAnswer(packages=dict(await self._node.packages(request.programs)))

    async def _surroundings(self, request: wire.Surroundings) -> Payload:
        return await self._node.surroundings(request.address)

    async def _join(self, request: wire.Join) -> Payload:
        if self._node.joined:
            raise RefusedError("joined", "there is a network")
        await self._node.join(request)
        return Nothing()

    async def _listen(self, _: Nothing) -> Payload:
        self._require_network()
        return await self._node.listen()

    async def _reach(self, request: wire.Ear) -> Payload:
        self._require_network()
        await self._node.reach(request)
        return Nothing()

    async def _hush(self, _: Nothing) -> Payload:
        self._require_network()
        await self._node.hush()
        return Nothing()

    async def _tell_time(self, request: wire.ClockRequest) -> Payload:
        if self._clock is not None:
            raise RefusedError("clock", "the time is told already")
        own = await self._node.surroundings(request.address)
        self._clock = await asyncio.to_thread(clock.listen, own.address, request.token)
        return clock.where(self._clock)

    def _require_network(self) -> None:
        if not self._node.joined:
            raise RefusedError("no-network", "there is no network of the run")

    async def _create(self, request: wire.Create) -> Payload:
        if request.name in self._removals:
            await self._remove_instance(request.name)  # the last of that name goes first
        if request.name in self._instances:
            raise RefusedError("exists", f"there is an instance {request.name}")
        base = None if request.image is None else await self._image(request.image)
        if request.image is not None and base is None:
            raise RefusedError("no-image", f"the image {request.image[:19]} is not there")
        if request.network:
            self._require_network()
        if base is not None and request.writable:
            base = replace(base, writable=True)
        provider = self._provider(request.provider, request.options)
        await self._node.check(provider)
        instance = await self._node.create(
            Order(
                provider,
                request.name,
                request.resources,
                request.turn,
                base,
                joined=request.network,
            )
        )
        self._instances[request.name] = instance
        known = instance.agent.clock
        socket = self._sockets.socket(f"agent {request.name}")
        self._offers.append(await offer(socket, await instance.agent.hand_over()))
        return wire.Created(
            socket=str(socket),
            cpu_ids=list(instance.spec.cpu_ids),
            cpu_quota=instance.spec.cpu_quota,
            data=instance.data,
            own_kernel=instance.own_kernel,
            address=instance.address,
            apart_ns=known.apart_ns if known.shared else None,
        )

    def _instance(self, name: str) -> Instance:
        if name not in self._instances:
            raise RefusedError("no-instance", f"there is no instance {name}")
        return self._instances[name]

    async def _freeze(self, request: wire.Named) -> Payload:
        await self._instance(request.name).freeze()
        return Nothing()

    async def _thaw(self, request: wire.Named) -> Payload:
        await self._instance(request.name).thaw()
        return Nothing()

    async def _destroy(self, request: wire.Named) -> Payload:
        await self._remove_instance(request.name)
        return Nothing()

    async def _remove_instance(self, name: str) -> None:
        """See that it is gone. A removal that goes on is waited for; one that failed is tried
        again, and raises why it fails. Whoever gives up waiting does not end it.
        """
        if name not in self._instances:
            return
        removal = self._removals.get(name)
        if removal is None or removal.done():
            removal = self._removals[name] = asyncio.create_task(self._take_away(name))
        await asyncio.shield(removal)

    async def _take_away(self, name: str) -> None:
        await self._instances[name].destroy()
        self._forget(name)

    def _forget(self, name: str) -> None:
        """Nothing of it is left, or its tag finds it."""
        self._instances.pop(name, None)
        self._removals.pop(name, None)

    async def _kills(self, request: wire.Named) -> Payload:
        return wire.Kills(kills=await self._instance(request.name).memory_kills())

    async def _meter(self, request: wire.MetersOn) -> Payload:
        if self._meters is not None:
            raise RefusedError("metered", "the meters are on")
        scene = Scene(self._tag, tuple(request.instances), tuple(request.ends))
        self._meters = AsyncExitStack()
        self._readings = await self._meters.enter_async_context(self._node.metered(scene))
        return Nothing()

    async def _metered(self, _: Nothing) -> Payload:
        if self._meters is None:
            raise RefusedError("not-metered", "the meters are off")
        meters, self._meters = self._meters, None
        await meters.aclose()
        return wire.Readings(readings=self._readings)

    async def _clean(self, request: wire.Clean) -> Payload:
        there = await asyncio.to_thread(leftovers.find)
        mine = [one for one in there if one.uid == os.geteuid()]
        failed = []
        if request.remove:
            remains = await asyncio.to_thread(leftovers.remove, mine)
            failed = [f"{one.kind} {one.name}: {why}" for one, why in remains]
            claims.forget_dead()
        return wire.Leavings(
            there=[
                wire.Leaving(kind=one.kind, name=one.name[:LONGEST], tag=one.tag, run=_run(one.tag))
                for one in mine[:200]
            ],
            failed=failed[:100],
        )

    async def _doctor(self, _: Nothing) -> Payload:
        from ullage.nodes.doctor import examine  # noqa: PLC0415

        return wire.Diagnosis(host=facts.facts(), findings=await examine(energy=False))

    async def _bye(self, _: Nothing) -> Payload:
        await self._empty()
        return Nothing()

    async def _leave(self) -> None:
        """Instances go first: an upload may wait for a disk that answers nobody."""
        for task in (tasks := [*self._requests, *self._offers, *self._removals.values()]):
            task.cancel()
        ending = asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait((ending,), timeout=_LEAVING_S)
        if self._clock is not None:
            await asyncio.to_thread(self._clock.stop)
        await self._empty()
        await self._uploads.close()

    async def _empty(self) -> None:
        """Remove every instance, in order where that works, and what is left by its tag."""
        names = list(self._instances)
        await asyncio.gather(*map(self._remove_instance, names), return_exceptions=True)
        for name in names:
            self._forget(name)
        if self._tag:
            with contextlib.suppress(UllageError, OSError):  # what stays is found by its tag
                await self._node.close()
            for text in await _remove([self._tag]):
                print(f"ullage-node: not removed: {text}", file=sys.stderr)


async def _remove(tags: Collection[str]) -> list[str]:
    """Remove what carries one of the tags, unless its controller lives; what stays, and why."""
    if not tags:
        return []
    there = await asyncio.to_thread(leftovers.find, own=True)
    theirs = [one for one in there if one.tag in tags]
    remains = await asyncio.to_thread(leftovers.remove, theirs)
    return [f"{one.kind} {one.name}: {why}"[:LONGEST] for one, why in remains]


def _run(tag: str) -> str | None:
    owner = claims.controller(tag) if paths.TAG.fullmatch(tag) else None
    return owner.run[:LONGEST] if owner else None


def _error(number: int, code: str, reason: str, hint: str = "") -> bytes:
    text = reason[:LONGEST] if not hint else f"{reason[: LONGEST // 2]}{HINT}{hint}"[:LONGEST]
    return encode_message("error", id=number, code=code, message=text)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_READ)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    output = os.dup(1)
    os.dup2(2, 1)  # whatever prints here must not get into the protocol
    task = asyncio.ensure_future(Server(reader, _Writer(output).write).run())
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


class _Writer:
    """Writes whole frames; a controller that does not read is one that has gone."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, True)
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]


def main() -> None:
    """`ullage-node serve`."""
    asyncio.run(_serve())
