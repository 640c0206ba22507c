"""Serves the page and its stream of events to this machine, and to nobody else.

Only the loopback device is listened on, the path holds a secret, and a `Host` that is not
ours is refused, so that no page from elsewhere reads it by a name of its own (DNS rebinding).
Any user of this machine can connect: one thread answers all, a few strangers at a time, each with
little time and few bytes to name the secret, and so many a second at most; the others wait with the
kernel, and cost the run nothing. While a trial is measured the thread sleeps, unless one comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import socket
import threading
from collections.abc import Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Final

from ullage.cli.live import page, request
from ullage.cli.live.feed import Feed
from ullage.cli.live.request import HttpRequest
from ullage.common.errors import LIVE_NO_PORT, UllageError

END: Final = "end"
"""The part after which nothing follows."""
HOST: Final = "127.0.0.1"
KEEPALIVE_S: Final = 20.0
"""So often a silent reader is tried, to learn of one that has gone."""
LAST_S: Final = 2.0
"""Readers have so long to hear the end of the run."""
HEAD_S: Final = 2.0
"""A stranger has so long to say what it wants, and to take its answer."""
PACE_S: Final = 0.02
"""Between two strangers that are let in."""
RETRY_S: Final = 1.0
"""Until the next try, when the system lets nobody in."""
SEND_S: Final = 10.0
"""A reader has so long to take a part."""
MOST_STRANGERS: Final = 32
MOST_READERS: Final = 16
BACKLOG: Final = 64
METHODS: Final = ("GET", "HEAD")


class LiveServer:
    """The page of one run at `url`, from entering to leaving the context.

    LIVE_NO_PORT when the port cannot be had.
    """

    def __init__(self, feed: Feed, title: str, port: int = 0) -> None:
        self.feed = feed
        self.token = secrets.token_urlsafe(16)
        self.page = page.render(title).encode()
        self._listener = _listener(port)
        self._loop = asyncio.new_event_loop()
        self._strangers = asyncio.Semaphore(MOST_STRANGERS)
        self._answering: set[asyncio.Task[None]] = set()
        """Who is answered now."""
        self._readers: set[asyncio.Event] = set()
        """A bell for each open stream."""
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    @property
    def address(self) -> str:
        """Host and port, as a browser names them."""
        return f"{HOST}:{self._listener.getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.address}/{self.token}/"

    def __enter__(self) -> LiveServer:
        self._letting_in = self._loop.create_task(self._let_in())
        self.feed.bell = self._ring
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Tell the readers that it is over, and close."""
        self.feed.put({END: "over"})
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self.feed.bell = lambda: None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._listener.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _ring(self) -> None:
        """Called by the run; the thread is not woken for nobody."""
        if self._readers:
            self._loop.call_soon_threadsafe(self._wake_readers)

    def _wake_readers(self) -> None:
        for bell in self._readers:
            bell.set()

    async def _close(self) -> None:
        """Let nobody in any more; who reads hears the end, in time."""
        self._letting_in.cancel()
        self._wake_readers()
        if self._answering:
            await asyncio.wait(self._answering, timeout=LAST_S)
        for task in self._answering:
            task.cancel()
        await asyncio.gather(self._letting_in, *self._answering, return_exceptions=True)

    async def _let_in(self) -> None:
        while True:
            await self._strangers.acquire()
            try:
                peer, _ = await self._loop.sock_accept(self._listener)
            except OSError:  # it has gone again, or there are no descriptors now
                self._strangers.release()
                await asyncio.sleep(RETRY_S)
                continue
            task = self._loop.create_task(self._meet(peer))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            await asyncio.sleep(PACE_S)

    async def _meet(self, peer: socket.socket) -> None:
        """Answer one connection: as a stranger's, until it has named the secret."""
        with peer, contextlib.suppress(OSError, TimeoutError):
            try:
                async with asyncio.timeout(HEAD_S):
                    wanted = await self._answer(peer)
            finally:
                self._strangers.release()
            if wanted is not None:
                await self._stream(peer, wanted)

    async def _answer(self, peer: socket.socket) -> HttpRequest | None:
        """Answer what is short; the request when it is for the stream of parts."""
        head = await self._head(peer)
        wanted = request.parse(head) if head is not None else None
        body = wanted is None or wanted.method != "HEAD"
        if head is None:
            await self._refuse(peer, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif wanted is None:
            await self._refuse(peer, HTTPStatus.BAD_REQUEST)
        elif (status := self._fault(wanted)) is not None:
            await self._refuse(peer, status, with_body=body)
        elif not wanted.path.endswith("/events"):
            length = {"Content-Length": str(len(self.page))}
            lines = _head_lines("text/html; charset=utf-8", length)
            await self._say(peer, lines, self.page if body else b"")
        elif body:
            return wanted
        else:  # takes no reader's place
            await self._say(peer, _head_lines("text/event-stream"))
        return None

    async def _head(self, peer: socket.socket) -> bytes | None:
        """What comes before the empty line; None when that is too much. OSError: it has gone."""
        head = b""
        while not request.END.search(head):
            if len(head) > request.MOST_BYTES:
                return None
            more = await self._loop.sock_recv(peer, request.MOST_BYTES)
            if not more:
                raise ConnectionResetError
            head += more
        return head

    def _fault(self, wanted: HttpRequest) -> HTTPStatus | None:
        """Why it is not given to them, if it is not."""
        places = (f"/{self.token}/", f"/{self.token}/events")
        if wanted.method not in METHODS:
            return HTTPStatus.METHOD_NOT_ALLOWED
        if wanted.host != self.address:
            return HTTPStatus.MISDIRECTED_REQUEST
        if not any(hmac.compare_digest(wanted.path, place) for place in places):
            return HTTPStatus.NOT_FOUND
        reads = wanted.method == "GET" and wanted.path.endswith("/events")
        if reads and len(self._readers) >= MOST_READERS:
            return HTTPStatus.SERVICE_UNAVAILABLE
        return None

    async def _refuse(
        self, peer: socket.socket, status: HTTPStatus, *, with_body: bool = True
    ) -> None:
        body = f"{status.value} {status.phrase}\n".encode()
        headers = {"Content-Type": "text/plain", "Content-Length": str(len(body))}
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(METHODS)
        await self._say(peer, _lines(status, headers), body if with_body else b"")

    async def _say(self, peer: socket.socket, head: bytes, body: bytes = b"") -> None:
        await self._loop.sock_sendall(peer, head + body)

    async def _stream(self, peer: socket.socket, wanted: HttpRequest) -> None:
        """Send what is new, until the run ends or the reader has gone."""
        bell = asyncio.Event()
        self._readers.add(bell)
        try:
            await self._say(peer, _head_lines("text/event-stream"))
            number = wanted.last
            while True:
                bell.clear()
                parts = self.feed.since(number)
                for part in parts:
                    text = json.dumps(part.html)
                    event = f"id: {part.number}\nevent: {part.name}\ndata: {text}\n\n"
                    await asyncio.wait_for(self._say(peer, event.encode()), SEND_S)
                    number = part.number
                if any(part.name == END for part in parts):
                    return
                try:
                    await asyncio.wait_for(bell.wait(), KEEPALIVE_S)
                except TimeoutError:
                    await asyncio.wait_for(self._say(peer, b": still here\n\n"), SEND_S)
        finally:
            self._readers.discard(bell)


def _listener(port: int) -> socket.socket:
    try:
        listener = socket.create_server((HOST, port), backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UllageError(LIVE_NO_PORT, host=HOST, port=port, reason=reason) from error
    listener.setblocking(False)
    return listener


def _head_lines(kind: str, more: Mapping[str, str] | None = None) -> bytes:
    """Of what the secret's owner is given."""
    headers = {
        "Content-Type": kind,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Content-Security-Policy": page.POLICY,
    }
    return _lines(HTTPStatus.OK, {**headers, **(more or {})})


def _lines(status: HTTPStatus, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Server: ullage", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii")
