"""The channel to one agent: requests out, answers in, credits both ways, one way to fail."""

from __future__ import annotations

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.text import printable
from ullage.environments.agent.frames import (
    CREDIT,
    Clock,
    Data,
    Frame,
    FrameError,
    FrameKind,
    FrameReader,
    Message,
    encode_clock,
    encode_data,
    encode_message,
)
from ullage.host import clock

PATIENCE_S: Final = 30.0
"""How long an answer that should come at once may take: a busy guest in emulation is slow."""
_CLOSE_S: Final = 5.0
"""An aborted stream is closed at once; nobody waits for one that is not."""
_READ: Final = 256 * 1024
_GIVE_BACK: Final = 256 * 1024
"""Credit is given back in lots of this size, so that small outputs cost no frames."""
_MAX_BACKLOG: Final = 4 * 1024 * 1024
_MAX_ID: Final = 2**32

T = TypeVar("T")


class AgentError(UllageError):
    """The agent answered that it could not do what was asked; the channel lives on."""

    def __init__(self, agent: str, op: str, error: str, reason: str) -> None:
        self.error = error
        """The protocol's code, such as `exec-failed`."""
        super().__init__(errors.AGENT_REFUSED, agent=agent, op=op, error=error, reason=reason)


class Exchange(ABC):
    """One request and what comes back for it. The channel calls the methods."""

    def __init__(self, op: str, purpose: str | None = None) -> None:
        self.op = op
        self.purpose = purpose or op
        """What it is for, in messages."""
        self.activity = 0
        """Counts frames, so that a wait can tell slow from silent."""

    @abstractmethod
    def on_message(self, message: Message, arrived_ns: int) -> bool:
        """Take an answer; True when it was the last one. May raise FrameError."""

    def on_data(self, frame: Data) -> None:
        """Take raw bytes. May raise FrameError."""
        raise FrameError(f"data in answer to {self.op}")

    @abstractmethod
    def on_fail(self, error: UllageError) -> None:
        """Nothing more will come."""


class PendingCall(Exchange, Generic[T]):
    """A request with one answer; `parse` makes of it what was wanted, or raises FrameError."""

    def __init__(self, op: str, answer: str, parse: Callable[[Message], T]) -> None:
        super().__init__(op)
        self.future: asyncio.Future[tuple[T, int]] = quiet_future()
        self._answer = answer
        self._parse = parse

    def on_message(self, message: Message, arrived_ns: int) -> bool:
        if message.op != self._answer:
            raise FrameError(f"{message.op} in answer to {self.op}")
        self.future.set_result((self._parse(message), arrived_ns))
        return True

    def on_fail(self, error: UllageError) -> None:
        """Pass the error to the task that waits."""
        self.future.set_exception(error)


class AgentChannel:
    """Frames over a stream pair. Ends by `fail`, once, and tells everyone who waits."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        agent: str,
        frames: FrameReader | None = None,
    ) -> None:
        """frames: for a peer that is no agent and begins otherwise."""
        self.agent = agent
        self.failure: UllageError | None = None
        self.greeted: asyncio.Future[None] = quiet_future()
        self.ended: asyncio.Future[None] = quiet_future()
        self._reader = reader
        self._writer = writer
        self._frames = frames or FrameReader()
        self._exchanges: dict[int, Exchange] = {}
        self._next_id = 1
        self._credit = CREDIT
        self._credit_waiters: list[asyncio.Future[None]] = []
        self._allowed = CREDIT
        self._consumed = 0
        self._clock_answers = 0
        self._clock_client: clock.Client | None = None
        self._clock_news: asyncio.Future[None] = quiet_future()
        self._pump_task = asyncio.create_task(self._pump(), name=f"agent of {agent}")

    @property
    def banner(self) -> bytes:
        """What came instead of the magic line."""
        return self._frames.banner

    def request(self, exchange: Exchange, **fields: object) -> int:
        """Send a request; its answers go to the exchange. Raises when the channel has failed."""
        if self.failure is not None:
            raise self.failure
        number = self._next_id
        try:
            frame = encode_message(exchange.op, id=number, **fields)
        except ValueError as error:
            raise AgentError(self.agent, exchange.purpose, "too-long", str(error)) from error
        self._next_id = number % (_MAX_ID - 1) + 1
        self._exchanges[number] = exchange
        self._write(frame)
        return number

    async def call(
        self, op: str, answer: str, parse: Callable[[Message], T], **fields: object
    ) -> tuple[T, int]:
        """Send a request; wait for what `parse` makes of its answer and the instant it came."""
        call = PendingCall(op, answer, parse)
        self.request(call, **fields)
        return await self.answer(call, call.future)

    async def answer(
        self, exchange: Exchange, future: asyncio.Future[T], patience_s: float = PATIENCE_S
    ) -> T:
        """Wait for what the exchange promised; AGENT_SILENT when nothing comes for that long."""
        while True:
            before = exchange.activity
            if (await asyncio.wait((future,), timeout=patience_s))[0]:
                return future.result()
            if exchange.activity == before:
                raise self.silent(exchange.purpose, patience_s)

    async def synchronise(self, token: bytes, rules: clock.Rules) -> clock.Outcome | str:
        """Exchange clocks; what was found out, or why nothing was.

        Both sides are woken up by their schedulers for each message, so only the hard bound counts.
        """
        client = clock.Client(token, clock.ordered_ns(), rules)
        self._clock_client = client
        try:
            while True:
                now = clock.ordered_ns()
                self._clock_news = quiet_future()
                match client.poll(now):
                    case ("send", message):
                        self._clock_answers += 1
                        self._write(encode_clock(message))
                    case ("wait", until_ns):
                        left_s = max(0, until_ns - now) / 1e9
                        await asyncio.wait((self._clock_news,), timeout=left_s)
                        if self.failure is not None:
                            raise self.failure
                    case (_, outcome):
                        return outcome
        finally:
            self._clock_client = None

    async def send_data(self, number: int, data: bytes | memoryview) -> None:
        """Send file data for a request, when there is credit for it."""
        frame = encode_data(FrameKind.FILE, number, data)
        cost = len(data) + 4
        while self._credit < cost and self.failure is None:
            waiter: asyncio.Future[None] = quiet_future()
            self._credit_waiters.append(waiter)
            if not (await asyncio.wait((waiter,), timeout=PATIENCE_S))[0]:
                raise self.silent("put", PATIENCE_S)
        self._credit -= cost
        self._write(frame)

    def silent(self, op: str, seconds: float) -> UllageError:
        """The error for an answer that does not come."""
        return UllageError(errors.AGENT_SILENT, agent=self.agent, op=op, seconds=seconds)

    def fail(self, reason: str | UllageError) -> UllageError:
        """End the channel: every waiting call fails now. Returns the error of the first reason."""
        if self.failure is not None:
            return self.failure
        error = self.failure = (
            reason
            if isinstance(reason, UllageError)
            else UllageError(errors.AGENT_LOST, agent=self.agent, reason=reason)
        )
        exchanges, self._exchanges = self._exchanges, {}
        for exchange in exchanges.values():
            exchange.on_fail(error)
        waiters, self._credit_waiters = self._credit_waiters, []
        for waiter in [*waiters, self.greeted, self.ended, self._clock_news]:
            if not waiter.done():
                waiter.set_exception(error)
        # At once: what is still to be sent to a peer that does not read would hold the end up.
        if not self._writer.is_closing():
            self._writer.transport.abort()
        return error

    async def hand_over(self) -> tuple[int, int]:
        """The descriptors to read from and to write to, for another process; then all ends here.

        Between two requests, when nothing is under way. A clock's answer may still be, to an
        exchange that did not wait for it: whoever takes the pipes would take it for a lie.
        """
        while self._clock_answers and self.failure is None:
            self._clock_news = quiet_future()
            if not (await asyncio.wait((self._clock_news,), timeout=PATIENCE_S))[0]:
                raise self.silent("the clock", PATIENCE_S)
        reader = self._reader._transport  # type: ignore[attr-defined]  # nothing public leads there
        reader.pause_reading()
        self._pump_task.cancel()
        await asyncio.wait((self._pump_task,))
        if self._exchanges or self._reader._buffer:  # type: ignore[attr-defined]
            raise self.fail("it was spoken to while it was handed over")
        pipes = os.dup(_descriptor(reader)), os.dup(_descriptor(self._writer.transport))
        self.fail("it was handed over to another process")
        return pipes

    async def close(self) -> None:
        """End the channel on our side; the agent takes the end of file as `bye`."""
        self.fail("its channel was closed on this side")
        self._pump_task.cancel()
        await asyncio.wait((self._pump_task,))
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()

    def _write(self, frame: bytes) -> None:
        if self.failure is not None:
            raise self.failure
        self._writer.write(frame)
        if self._writer.transport.get_write_buffer_size() > _MAX_BACKLOG:
            raise self.fail("it does not read what it is sent")

    async def _pump(self) -> None:
        try:
            while data := await self._reader.read(_READ):
                now = clock.ordered_ns()
                for frame in self._frames.feed(data):
                    self._take(frame, now)
                if self._frames.greeted and not self.greeted.done():
                    self.greeted.set_result(None)
            self.fail("it closed its channel")
        except FrameError as error:
            self.fail(f"it broke the protocol: {error}")
        except Exception as error:
            # Whatever goes wrong here, nobody may wait for ever.
            self.fail(f"{type(error).__name__}: {error}")

    def _take(self, frame: Frame, arrived_ns: int) -> None:
        if isinstance(frame, Data):
            self._take_data(frame)
        elif isinstance(frame, Clock):
            self._take_clock(frame, arrived_ns)
        elif frame.op == "credit":
            self._take_credit(frame.integer("bytes", 1, CREDIT))
        elif frame.op == "error":
            self._take_error(frame)
        else:
            number = frame.integer("id", 0, _MAX_ID - 1)
            exchange = self._exchanges.get(number)
            if exchange is None:
                raise FrameError(f"{frame.op} in answer to nothing")
            exchange.activity += 1
            if exchange.on_message(frame, arrived_ns):
                del self._exchanges[number]

    def _take_data(self, frame: Data) -> None:
        exchange = self._exchanges.get(frame.id)
        if exchange is None:
            raise FrameError("data in answer to nothing")
        self._allowed -= frame.cost
        if self._allowed < 0:
            raise FrameError("more data than it had credit for")
        exchange.activity += 1
        exchange.on_data(frame)
        self._consumed += frame.cost
        if self._consumed >= _GIVE_BACK:
            self._write(encode_message("credit", bytes=self._consumed))
            self._allowed += self._consumed
            self._consumed = 0

    def _take_clock(self, frame: Clock, arrived_ns: int) -> None:
        self._clock_answers -= 1
        if self._clock_answers < 0:
            raise FrameError("a clock's answer to nothing")
        # One that comes after its synchronisation has given up is late, no more.
        if self._clock_client is not None:
            self._clock_client.receive(frame.data, arrived_ns, False)
        if not self._clock_news.done():
            self._clock_news.set_result(None)

    def _take_credit(self, count: int) -> None:
        self._credit += count
        if self._credit > CREDIT:
            raise FrameError("more credit than it may give")
        waiters, self._credit_waiters = self._credit_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _take_error(self, frame: Message) -> None:
        code, reason = printable(frame.text("code"), 40), printable(frame.text("message"), 400)
        number = frame.optional_integer("id", 0, _MAX_ID - 1)
        if number is None:
            raise FrameError(f"it calls our frame malformed: {code}: {reason}")
        exchange = self._exchanges.pop(number, None)
        # Data that was under way when its request failed is answered with an error too: no news.
        if exchange is not None:
            reason = reason.removeprefix(f"{exchange.op}: ")
            exchange.on_fail(AgentError(self.agent, exchange.purpose, code, reason))


def _descriptor(transport: asyncio.BaseTransport) -> int:
    """Of a pipe, or of a socket."""
    file = transport.get_extra_info("pipe") or transport.get_extra_info("socket")
    return int(file.fileno())


def quiet_future() -> asyncio.Future[Any]:
    """A future whose error nobody has to fetch."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.add_done_callback(_fetch)
    return future


def _fetch(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
