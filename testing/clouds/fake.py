"""What fakes of clouds have in common: a web server, trouble in front of it, machines behind.

A fake speaks its cloud's wire protocol, and knows the states, delays, errors and limits that the
cloud's documents tell of. A figure that was seen on one says nothing of the cloud itself.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final, Literal

from testing.clouds import machine
from ullage.common.quantities import memory_bytes

Answer = tuple[int, dict[str, str], str]
Trouble = Callable[[str], Answer | None]
"""Action → what is answered in place of the real answer; None: the real one."""
Refusal = Literal["credentials", "quota", "lacks", "refused"]

FLAVOR: Final = "lab.host"
"""A size of instance that has all that this host has."""
SMALL: Final = "lab.small"
"""One that has not."""
IMAGE: Final = "lab-image"
SILENCE: Final[Answer] = (0, {}, "")
"""No answer: the connection stays open, and nothing comes."""


class CloudFake(ABC):
    """A cloud, while it stands."""

    PROVIDER: ClassVar[str]
    """Its name in a plan."""
    PATH: ClassVar[str]
    """Of its interface, below the endpoint."""
    LAUNCH: ClassVar[str]
    """The action that makes an instance."""
    SIZES: ClassVar[str]
    """The action that tells sizes."""
    IMAGES: ClassVar[str]
    """The action that tells images."""
    SIGNED: ClassVar[tuple[str, ...]] = ()
    """Words that must be in no message and no file: the secrets."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.cpus = len(os.sched_getaffinity(0))
        self.memory_bytes = memory_bytes()
        self.machines: dict[str, machine.CloudMachine] = {}
        self.calls: list[str] = []
        self.trouble: Trouble | None = None
        self.after: Trouble | None = None
        """As `trouble`, once the work has been done: the answer gets lost."""
        self.lost = 0
        """So many answers to LAUNCH get lost after it has been done."""
        self.dead = False
        """What is launched now never boots."""
        self.on_launch: Callable[[], object] | None = None
        """Called when an instance is there and nobody has been answered."""
        self.impostor = False
        """What answers at an instance's address has another host key than the instance."""
        self.stillborn = False
        """Instances fail as soon as they are made."""
        self.hollow = False
        """Instances have no machine behind them: only the cloud's own work is looked at."""
        self.wired = False
        """Each instance has a network of its own."""
        self.room: int | None = None
        """So many instances may be there at once."""
        self.requests: list[str] = []
        """Of instances that have been made, what each was asked for by: twice is once too often."""
        self.lock = threading.RLock()
        self.closed = threading.Event()

    def plan(self, **more: Any) -> dict[str, Any]:
        """An environment of a plan."""
        ours = {
            "provider": self.PROVIDER,
            "endpoint": f"{self.endpoint}{self.PATH}",
            "flavor": FLAVOR,
            "boot_image": IMAGE,
            "network": "lab-network",
            "user": "root",
            "deadline_s": 600,
        }
        return ours | more

    @abstractmethod
    def action(self, path: str, body: bytes) -> str:
        """What a request asks for."""

    @abstractmethod
    def answer(self, path: str, body: bytes) -> Answer:
        """The answer to a request."""

    @abstractmethod
    def refusal(self, why: Refusal) -> Answer:
        """How this cloud says that."""

    @abstractmethod
    def left(self) -> list[str]:
        """Instances and keys that are still there."""

    @abstractmethod
    def vanish(self) -> None:
        """All instances are taken away by the cloud."""

    def boot(self, identifier: str, public_key: str, user_data: str) -> str:
        """Its machine, and the address of that."""
        if self.hollow:
            return "127.0.0.1"
        text = "" if self.impostor else user_data
        booted = machine.boot(identifier, public_key, text, wired=self.wired)
        if self.dead:
            booted.unplug()
        self.machines[identifier] = booted
        return booted.address

    def end(self, identifier: str) -> None:
        """Its machine goes."""
        if ended := self.machines.pop(identifier, None):
            ended.end()

    def respond(self, path: str, body: bytes) -> Answer:
        """The answer, or what comes in its place."""
        action = self.action(path, body)
        self.calls.append(action)
        if self.trouble and (trouble := self.trouble(action)):
            return trouble
        answer = self.answer(path, body)
        if self.after and (trouble := self.after(action)):
            return trouble
        if action == self.LAUNCH and self.lost:
            self.lost -= 1
            status, headers, text = answer
            return status, headers | {"Content-Length": str(len(text.encode()))}, text[:40]
        return answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: CloudFake

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _answer(self, body: bytes) -> None:
        status, headers, text = self.fake.respond(self.path, body)
        self.close_connection = True
        if (status, headers, text) == SILENCE:
            self.fake.closed.wait(600)
            return
        encoded = text.encode()
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(encoded))} | headers).items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(encoded)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
        """It is silent."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


@contextlib.contextmanager
def standing(fake: CloudFake) -> Iterator[CloudFake]:
    """Up, and gone at the end with all its machines."""
    handler = type("Handler", (_Handler,), {"fake": fake})
    server = _Server(("127.0.0.1", 0), handler)
    fake.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.closed.set()
        server.shutdown()
        server.server_close()
        for identifier in list(fake.machines):
            fake.end(identifier)


class Since:
    """Stages that follow each other by themselves, each after so many seconds."""

    def __init__(self, stages: tuple[tuple[str, float], ...], last: str) -> None:
        self._stages, self._last, self._began = stages, last, time.monotonic()

    @property
    def stage(self) -> str:
        """The one of now."""
        passed = time.monotonic() - self._began
        for name, seconds in self._stages:
            if passed < seconds:
                return name
            passed -= seconds
        return self._last
