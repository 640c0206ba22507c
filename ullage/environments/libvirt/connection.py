"""A connection to libvirtd: opened without a question, opened again when libvirtd was away."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import urlsplit

from ullage.common.errors import (
    HOST_MISSING,
    HOST_NO_ANSWER,
    LIBVIRT_ELSEWHERE,
    LIBVIRT_PASSWORD,
    UllageError,
)
from ullage.common.text import printable

T = TypeVar("T")

_ALIVE_EVERY_S: Final = 5
_MISSED: Final = 4
"""A libvirtd that leaves so many looks unanswered is given up."""
_START: Final = "systemctl start libvirtd"
_STOPPED: Final = {
    0: "it was shut down",
    1: "it was destroyed",
    2: "it crashed",
    3: "it was migrated",
    4: "it was saved",
    5: "its hypervisor failed",
}
"""libvirt's virDomainEventStoppedDetailType."""

_CALL_S: Final = 120.0
"""A libvirtd that lives may still wait for something of its own, for ever."""


@dataclass(frozen=True)
class DomainListener:
    """Who is told what befalls a domain, in the thread of libvirt's events."""

    uuid: str
    stopped: Callable[[str], None]
    """Called with the reason."""
    guest_agent: Callable[[], None]
    """Called when QEMU's guest agent has come up inside."""


@cache
def library() -> Any:
    """libvirt-python, its events running in a thread of their own. HOST_MISSING."""
    try:
        import libvirt  # noqa: PLC0415 - an extra: who has no libvirt need not have it
    except ImportError as error:
        command = "apt-get install libvirt-dev pkg-config gcc && pip install 'ullage[libvirt]'"
        raise UllageError(HOST_MISSING, what="libvirt-python", command=command) from error
    libvirt.registerErrorHandler(lambda *_: None, None)  # it prints what it raises too
    libvirt.virEventRegisterDefaultImpl()
    threading.Thread(target=_hear, args=(libvirt,), name="libvirt", daemon=True).start()
    return libvirt


def _hear(libvirt: Any) -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def reason(error: Exception) -> str:
    """What libvirt says, on one line."""
    return printable(str(error) or type(error).__name__, 400)


class Connection:
    """One client of a libvirtd. Its calls wait in threads."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._lock = threading.Lock()
        self._handle: Any = None
        self._watch: DomainListener | None = None

    @classmethod
    async def open(cls, uri: str) -> Connection:
        """HOST_MISSING, HOST_NO_ANSWER, LIBVIRT_PASSWORD, LIBVIRT_ELSEWHERE."""
        connection = cls(uri)
        await _in_thread(uri, connection._living)
        return connection

    async def call(self, action: Callable[[Any], T]) -> T:
        """What comes of it, given a virConnect that was alive a moment ago.

        libvirt's own error when the action fails; what `open` raises when libvirtd is not there.
        """
        return await _in_thread(self._uri, lambda: action(self._living()))

    @property
    def alive(self) -> bool:
        """False once libvirtd has gone, or has been silent for too long."""
        return self._handle is not None and bool(self._handle.isAlive())

    async def watch(self, watch: DomainListener) -> None:
        """Have it told, by libvirt's own events."""
        self._watch = watch
        await self.call(lambda handle: _listen(handle, watch))

    async def close(self) -> None:
        """Let go of it; does nothing when that is done."""
        handle, self._handle = self._handle, None
        if handle is not None:
            await _in_thread(self._uri, lambda: _close(handle))

    def _living(self) -> Any:
        with self._lock:
            if not self.alive:
                self._handle = _open(self._uri)
                if self._watch is not None:
                    _listen(self._handle, self._watch)
            return self._handle


def _listen(handle: Any, watch: DomainListener) -> None:
    libvirt = library()

    def lifecycle(_: Any, domain: Any, event: int, detail: int, __: Any) -> None:
        if event == libvirt.VIR_DOMAIN_EVENT_STOPPED and domain.UUIDString() == watch.uuid:
            watch.stopped(_STOPPED.get(detail, "it has ended"))

    def guest_agent(_: Any, domain: Any, state: int, __: int, ___: Any) -> None:
        connected = libvirt.VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED
        if state == connected and domain.UUIDString() == watch.uuid:
            watch.guest_agent()

    agents = libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE
    handle.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, lifecycle, None)
    handle.domainEventRegisterAny(None, agents, guest_agent, None)


async def _in_thread(uri: str, function: Callable[[], T]) -> T:
    """In one that nobody waits for at the end. HOST_NO_ANSWER when it takes too long."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(_hear_error)

    def finish(outcome: Callable[[], None]) -> None:
        if not future.done():
            outcome()

    def work() -> None:
        try:
            value = function()
        except Exception as error:
            tell(loop, finish, partial(future.set_exception, error))
        else:
            tell(loop, finish, partial(future.set_result, value))

    threading.Thread(target=work, name="libvirt call", daemon=True).start()
    try:
        async with asyncio.timeout(_CALL_S):
            return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait({future}, timeout=_CALL_S)  # what it makes must be there to be undone
        raise
    except TimeoutError:
        why = f"no answer within {_CALL_S:g} s"
        raise UllageError(HOST_NO_ANSWER, what=uri, reason=why, command=_START) from None


def _hear_error(future: asyncio.Future[T]) -> None:
    """What fails when its caller has been cancelled is nobody's news."""
    if not future.cancelled():
        future.exception()


def tell(loop: asyncio.AbstractEventLoop, listener: Callable[[T], None], message: T) -> None:
    """From another thread; a loop that has closed has nobody to hear it."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(listener, message)


def _close(handle: Any) -> None:
    try:
        handle.close()
    except library().libvirtError:  # libvirtd has gone before
        return


def _open(uri: str) -> Any:
    libvirt = library()
    questions: list[str] = []

    def refuse(credentials: list[list[Any]], _: Any) -> int:
        questions.extend(str(prompt) for _, prompt, *_ in credentials)
        return -1

    kinds = [
        libvirt.VIR_CRED_USERNAME,
        libvirt.VIR_CRED_AUTHNAME,
        libvirt.VIR_CRED_PASSPHRASE,
        libvirt.VIR_CRED_ECHOPROMPT,
        libvirt.VIR_CRED_NOECHOPROMPT,
    ]
    try:
        handle = libvirt.openAuth(_without_terminal(uri), [kinds, refuse, None], 0)
        handle.setKeepAlive(_ALIVE_EVERY_S, _MISSED)
    except libvirt.libvirtError as error:
        _refused(uri, questions, error)
    try:
        _verify_place(uri, handle)
    except BaseException:
        _close(handle)
        raise
    return handle


def _without_terminal(uri: str) -> str:
    """By ssh nobody is asked either: neither for a password nor about a host's key."""
    if "+ssh" not in urlsplit(uri).scheme or "no_tty=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}no_tty=1"


def _refused(uri: str, questions: list[str], error: Exception) -> NoReturn:
    text = reason(error)
    if questions or "authentication" in text.lower() or "permission denied" in text.lower():
        prompt = ", ".join(questions) or text
        raise UllageError(LIBVIRT_PASSWORD, uri=uri, what=printable(prompt, 200)) from error
    raise UllageError(HOST_NO_ANSWER, what=uri, reason=text, command=_START) from error


def _verify_place(uri: str, handle: Any) -> None:
    """LIBVIRT_ELSEWHERE unless it is this host: image, taps and limits are."""
    if not urlsplit(uri).hostname:
        return
    there, here = (name.partition(".")[0] for name in (handle.getHostname(), socket.gethostname()))
    if there != here:
        raise UllageError(LIBVIRT_ELSEWHERE, uri=uri, there=printable(there, 64), here=here)
