"""The connection to one node: requests out, answers in, and a sign of life every few seconds."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from ullage.common import commands, errors, processes
from ullage.common.errors import UllageError
from ullage.common.faults import first_fault
from ullage.environments.agent.channel import AgentChannel, AgentError, PendingCall
from ullage.environments.agent.frames import FrameError, FrameReader, Message
from ullage.environments.agent.transport import Transport
from ullage.host.network import sockets
from ullage.nodes import wire
from ullage.nodes.reach.openssh import FAILED, Target, last_words
from ullage.nodes.reach.tree import HOME, runner
from ullage.nodes.wire import BEAT_S, HINT, Nothing, Payload

GREETING_S: Final = 30.0
"""A machine that is busy starts Python slowly."""
REQUEST_S: Final = 900.0
"""A provider has deadlines of its own; this one is for a node that forgets its request."""
TRIAL_S: Final = 60.0
"""The same for what is asked again and again of what is there: freeze, thaw, meters on and off."""
LEAVE_S: Final = 15.0
"""The same for what is asked at the end: a node that is left removes everything by itself."""
SEND_S: Final = 60.0
SEND_BYTES_PER_S: Final = 128 * 1024
"""A file has SEND_S and the time that its bytes take at this rate, whatever comes now and then."""
SILENCE_S: Final = 15.0
"""So late may the answer to a sign of life come."""
_WORDS_S: Final = 5.0
"""So long may what an ssh that has ended has said take to arrive."""
CONTROL: Final = "control"
"""Names the socket at which ssh shares its connection."""
_NOT_FOUND: Final = frozenset({126, 127})

T = TypeVar("T", bound=Payload)


class NodeLink:
    """One session with `ullage-node serve` at the other end."""

    def __init__(self, target: Target, transport: Transport, control: Path) -> None:
        self.target, self.control = target, control
        self.lost: UllageError | None = None
        self.on_lost: list[Callable[[UllageError], None]] = []
        self._transport = transport
        frames = FrameReader(wire.MAGIC, wire.PROTOCOL)
        self._channel = AgentChannel(transport.reader, transport.writer, target.node, frames)
        self._heart: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, target: Target, control: Path, log: Path | None = None) -> NodeLink:
        """Start it. One of the errors of nodes says why it cannot be."""
        with contextlib.suppress(FileNotFoundError):
            await asyncio.to_thread(control.unlink)
        argv = target.first((str(runner()), "serve"), control)
        transport = await Transport.start(argv, log, None, target.node)
        link = cls(target, transport, control)
        greeted = link._channel.greeted
        await asyncio.wait((greeted,), timeout=GREETING_S)
        if not greeted.done() or greeted.exception():
            raise await link._not_opened()
        link._heart = asyncio.create_task(link._beat(), name=f"node {target.node}")
        return link

    async def call(
        self,
        op: str,
        answer: type[T],
        request: Payload | None = None,
        *,
        within_s: float | None = None,
    ) -> T:
        """Ask for something. NODE_REFUSED with the node's reason, NODE_LOST."""
        pending = self._begin(op, answer, request)
        return await self._answer(op, pending, REQUEST_S if within_s is None else within_s)

    async def send(self, file: Path, digest: str, config: dict[str, Any] | None) -> None:
        """Send an image's tar. NODE_LOST too when it takes longer than one may.

        The system's ssh reads the file, over the same connection: no byte passes through here.
        """
        size = (await asyncio.to_thread(file.stat)).st_size
        request = wire.Take(digest=digest, size=size, config=config)
        taking = await self.call("take", wire.Taking, request)
        limit_s = SEND_S + size / SEND_BYTES_PER_S
        async with self._carried(file, taking.socket):
            try:
                async with asyncio.timeout(limit_s):
                    await self.call("taken", Nothing, wire.Taken(digest=digest), within_s=limit_s)
            except TimeoutError:
                reason = f"it has not taken {size} bytes within {limit_s:.0f} s"
                lost = UllageError(errors.NODE_LOST, node=self.target.node, reason=reason)
                raise self._gone(lost) from None

    @asynccontextmanager
    async def _carried(self, file: Path, socket: str) -> AsyncIterator[None]:
        """The file goes to who listens there; where ssh cannot, its words go with the error."""
        with await asyncio.to_thread(file.open, "rb") as stream:
            process = await asyncio.create_subprocess_exec(
                *self.target.further((str(runner()), "attach", socket), self.control),
                stdin=stream,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        assert process.stderr is not None
        words = asyncio.ensure_future(commands.ending(process.stderr))
        try:
            yield
        except UllageError as error:
            if process.returncode:
                await asyncio.wait((words,), timeout=_WORDS_S)
                raise self._not_carried(words.result() if words.done() else b"") from error
            raise
        finally:
            words.cancel()
            await processes.end(process, group=True)

    def _not_carried(self, output: bytes) -> UllageError:
        reason = f"{self.target.program} says: {last_words(output)}"
        return self._refused("take", AgentError(self.target.node, "take", "cut", reason))

    async def prove(self) -> None:
        """See that the node still answers. NODE_LOST, for good."""
        pending = PendingCall("ping", "done", _reader(Nothing))
        try:
            self._channel.request(pending)
            await self._channel.answer(pending, pending.future, SILENCE_S)
        except UllageError as error:
            raise self._gone(error) from error

    async def close(self) -> None:
        """Let the node remove what is left of the run, and end.

        One that hangs is not waited for: until it has parted it has to show that it is there.
        """
        if self.lost is None:
            with contextlib.suppress(UllageError):
                await self.call("bye", Nothing, within_s=LEAVE_S)
        if self._heart is not None:
            self._heart.cancel()
        await self._end()

    def _begin(self, op: str, answer: type[T], request: Payload | None) -> PendingCall[T]:
        pending = PendingCall(op, "done", _reader(answer))
        fields = {} if request is None else request.model_dump(mode="json")
        try:
            self._channel.request(pending, **fields)
        except AgentError as error:
            raise self._refused(op, error) from error
        except UllageError as error:
            raise self._gone(error) from error
        return pending

    async def _answer(self, op: str, pending: PendingCall[T], within_s: float) -> T:
        try:
            answer, _ = await self._channel.answer(pending, pending.future, within_s)
        except AgentError as error:
            raise self._refused(op, error) from error
        except UllageError as error:
            raise self._gone(error) from error
        return answer

    def _refused(self, op: str, error: AgentError) -> UllageError:
        """What the node could not do, by its own words."""
        reason, _, advice = str(error.facts["reason"]).partition(HINT)
        if error.error == errors.NODE_DISK_FULL.code:
            return UllageError(errors.NODE_DISK_FULL, node=self.target.node, what=reason)
        return UllageError(
            errors.NODE_REFUSED,
            node=self.target.node,
            op=op,
            reason=reason,
            error=error.error,
            advice=advice or f"`ullage doctor --node {self.target.address}` looks at it",
        )

    def _gone(self, error: UllageError) -> UllageError:
        """The node does not answer any more; all that hang on it hear so."""
        if self.lost is None:
            reason = str(error.facts.get("reason", error.message))
            if words := self._transport.tail:
                reason += f"; {self.target.program} says: {last_words(words)}"
            self.lost = UllageError(errors.NODE_LOST, node=self.target.node, reason=reason)
            self._channel.fail(self.lost)
            for listener in self.on_lost:
                listener(self.lost)
        return self.lost

    async def _beat(self) -> None:
        """Say every few seconds that we are here, and hear that the node is."""
        while self.lost is None:
            try:
                await self.prove()
                await asyncio.wait((self._channel.ended,), timeout=BEAT_S)
                if self._channel.failure is not None:
                    raise self._gone(self._channel.failure)
            except UllageError:
                await self._end()

    async def _end(self) -> None:
        await self._channel.close()
        await self._transport.end()

    async def _not_opened(self) -> UllageError:
        """Why there is no greeting: ssh's own reason, or the node's."""
        failure = self._channel.failure
        await self._end()
        status, output = self._transport.status, self._transport.tail + self._channel.banner
        if known := self.target.refusal(output, status):
            return known
        if status == FAILED or failure is None:
            return self.target.unreachable(output or b"it does not answer", status)
        if status in _NOT_FOUND or status == 1:
            return await self._not_there()
        return self.target.unreachable(output or str(failure.facts.get("reason")).encode(), status)

    async def _not_there(self) -> UllageError:
        """NODE_OTHER_VERSION where another tree is there, else NODE_NOT_INSTALLED."""
        from ullage import __version__  # noqa: PLC0415

        transport = await Transport.start(
            self.target.argv(("ls", str(HOME))), None, None, self.target.node
        )
        try:
            async with asyncio.timeout(GREETING_S):
                names = await transport.reader.read(4096)
        except TimeoutError:
            names = b""
        await transport.end()
        kind = errors.NODE_OTHER_VERSION if names.strip() else errors.NODE_NOT_INSTALLED
        return UllageError(
            kind, node=self.target.node, address=self.target.address, version=__version__
        )


def _reader(answer: type[T]) -> Callable[[Message], T]:
    """Reads an answer of that kind; FrameError for any other."""

    def read(message: Message) -> T:
        fields: Mapping[str, object] = {
            name: value for name, value in message.fields.items() if name not in {"op", "id"}
        }
        try:
            return answer.model_validate(fields)
        except ValidationError as error:
            raise FrameError(f"{answer.__name__}: {first_fault(error)}") from None

    return read


async def diagnosis(target: Target) -> wire.Diagnosis:
    """The doctor's answer there. The errors of nodes."""
    async with _visit(target) as link:
        return await link.call("doctor", wire.Diagnosis)


async def leavings(target: Target, *, remove: bool) -> wire.Leavings:
    """What killed runs have left there, removed if that is wanted. The errors of nodes."""
    async with _visit(target) as link:
        return await link.call("clean", wire.Leavings, wire.Clean(remove=remove))


@asynccontextmanager
async def _visit(target: Target) -> AsyncIterator[NodeLink]:
    make = partial(tempfile.TemporaryDirectory, prefix="ullage-", dir=sockets.place())
    folder = await asyncio.to_thread(make)
    try:
        link = await NodeLink.open(target, Path(folder.name) / CONTROL)
        try:
            yield link
        finally:
            await link.close()
    finally:
        await asyncio.to_thread(folder.cleanup)
