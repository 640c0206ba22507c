"""The real front, its controller, and viewers that speak HTTP by hand."""

from __future__ import annotations

import json
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from ullage.host import binaries

PROGRAM = "ullage-front"
PATIENCE_S = 60.0
"""For whatever must happen, on however slow a machine."""


def need_program() -> None:
    """Skips when the program was not built."""
    if not (binaries.DIRECTORY / PROGRAM).is_file():
        pytest.skip(f"{PROGRAM} is not built: `make programs` does it")


@dataclass(frozen=True)
class Answer:
    """What the front answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def word(self) -> str | None:
        """Why not, in a word."""
        return self.headers.get("x-ullage")


class Connection:
    """One connection of a viewer."""

    def __init__(self, port: int) -> None:
        # From another address: while the front is dead, one that got the front's own port would be
        # connected with itself, and keep the port.
        self.socket = socket.create_connection(
            ("127.0.0.1", port), PATIENCE_S, source_address=("127.0.0.2", 0)
        )
        self._read = self.socket.makefile("rb")

    def send(self, data: str | bytes) -> None:
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def get(self, path: str, *headers: str) -> None:
        """Asks, and does not wait."""
        self.send("\r\n".join([f"GET {path} HTTP/1.1", "Host: front", *headers, "", ""]))

    def post(self, path: str) -> None:
        """The same with POST."""
        self.send(f"POST {path} HTTP/1.1\r\nHost: front\r\nContent-Length: 0\r\n\r\n")

    def answer(self) -> Answer:
        """The next answer; EOFError when the connection ends instead."""
        status = self._read.readline()
        if not status:
            raise EOFError
        lines = list(iter(self._read.readline, b"\r\n"))
        assert lines and lines[-1].endswith(b"\r\n"), lines
        pairs = (line.decode().rstrip("\r\n").split(": ", 1) for line in lines)
        headers = {name.lower(): value for name, value in pairs}
        body = self._read.read(int(headers.get("content-length", "0")))
        return Answer(int(status.split()[1]), headers, body)

    def ended(self) -> bool:
        """Waits for its end: true when nothing came before that."""
        try:
            return self._read.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self._read.close()
        self.socket.close()

    def reset(self) -> None:
        """Goes at once and without a word."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close()


@dataclass
class Front:
    """A front that runs, and its controller."""

    process: subprocess.Popen[str]
    start: dict[str, Any]
    log: Path
    errors: Path
    lines: queue.Queue[dict[str, Any] | None]
    open: list[Connection] = field(default_factory=list)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.start["listening"].rsplit(":", 1)[1])

    def connect(self) -> Connection:
        """A connection, closed at the end."""
        self.open.append(Connection(self.port))
        return self.open[-1]

    def watch(self, client: int, patience_ms: int = 60_000) -> Connection:
        """A viewer asks, on a connection of its own."""
        connection = self.connect()
        connection.get(f"/watch/{client}?patience_ms={patience_ms}")
        return connection

    def finish(self, client: int) -> Answer:
        """A viewer has seen enough."""
        connection = Connection(self.port)
        connection.post(f"/finished/{client}")
        try:
            return connection.answer()
        finally:
            connection.close()

    def page(self, path: str) -> str:
        """Asked on a connection of its own, which the front ends: it takes no place any more."""
        connection = Connection(self.port)
        try:
            connection.get(path, "Connection: close")
            answer = connection.answer()
            assert connection.ended()
        finally:
            connection.close()
        assert answer.status == 200, answer
        return answer.body.decode()

    def state(self) -> dict[str, Any]:
        """`/state`."""
        state: dict[str, Any] = json.loads(self.page("/state"))
        return state

    def metrics(self) -> dict[str, float]:
        """`/metrics`, without the prefix."""
        lines = (line for line in self.page("/metrics").splitlines() if line[0] != "#")
        pairs = (line.rsplit(" ", 1) for line in lines)
        return {name.removeprefix("ullage_front_"): float(value) for name, value in pairs}

    def order(self) -> dict[str, Any]:
        """What it tells the controller next."""
        line = self.lines.get(timeout=PATIENCE_S)
        assert line is not None, f"it ended: {self.last_words()}"
        return line

    def tell(self, **fields: Any) -> None:
        """The controller says something."""
        self.tell_text(json.dumps(fields) + "\n")

    def tell_text(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def ready(self, node: int) -> None:
        """A node streams."""
        self.tell(ready=node, address=f"10.0.0.{node + 1}:80", url=url(node))

    def hang_up(self) -> None:
        """The controller is gone."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def until(self, name: str, value: float) -> None:
        """Waits until a metric is this."""
        deadline = time.monotonic() + PATIENCE_S
        while (reading := self.metrics()[name]) != value:
            assert time.monotonic() < deadline, f"{name} is {reading}, not {value}"
            time.sleep(0.01)

    def until_said(self, text: str) -> None:
        """Waits until it is on standard error."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.last_words():
            assert time.monotonic() < deadline, self.last_words()
            time.sleep(0.01)

    def last_words(self) -> str:
        """Standard error so far."""
        return self.errors.read_text()

    def records(self) -> list[dict[str, Any]]:
        """The log's whole lines."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def quit(self) -> int:
        """Told to end; its status."""
        self.tell(quit=True)
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        """Nothing is left of it."""
        for connection in self.open:
            connection.close()
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def url(node: int) -> str:
    """Where viewers are sent."""
    return f"http://10.0.0.{node + 1}:80/clip.mp4"


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    """Two viewers a node, the published policy; the log in this folder."""
    return {
        "listen": "127.0.0.1:0",
        "config": {"room": 2},
        "policy": {"name": "elastic-movie"},
        "log": str(folder / "front.jsonl"),
        **more,
    }


def launch(folder: Path, start_config: dict[str, Any], **options: Any) -> subprocess.Popen[str]:
    """The process; its standard error is kept in the folder."""
    need_program()
    config = folder / "front.json"
    config.write_text(json.dumps(start_config))
    with (folder / "front.err").open("a") as errors:
        return subprocess.Popen(
            [str(binaries.program(PROGRAM)), "--config", str(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            **options,
        )


def _hear(out: IO[str], lines: queue.Queue[dict[str, Any] | None]) -> None:
    with suppress(ValueError, OSError):
        for line in out:
            lines.put(json.loads(line))
    lines.put(None)


@contextmanager
def fronting(folder: Path, options: dict[str, Any] | None = None, **more: Any) -> Iterator[Front]:
    """A front with these settings, until the end of the block."""
    process = launch(folder, settings(folder, **more), **(options or {}))
    lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=_hear, args=(process.stdout, lines), daemon=True).start()
    log, errors = folder / "front.jsonl", folder / "front.err"
    front = Front(process, {}, log, errors, lines)
    try:
        front.start = front.order()
        yield front
    finally:
        front.end()


def refused(folder: Path, config: dict[str, Any], **options: Any) -> tuple[int, str]:
    """Status and words of a front that does not start."""
    process = launch(folder, config, **options)
    try:
        out, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert out == ""
    return process.returncode, (folder / "front.err").read_text()
