"""A TCP server that answers what a test wants: whatever is not as the protocol has it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Answer = Callable[[bytes], bytes | None]
"""What a client sent → what it gets; None: the connection is closed."""


class TcpDouble:
    """Serves one client after the other, on a port of its own of the loopback."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.drips = False
        """Send a byte every 20 ms and never an end."""
        self.heard = b""
        """All that clients have sent."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._client: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all connections."""
        self.drips = False
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        client = self._client
        if client is not None:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            try:
                self._client, _ = self._listener.accept()
            except OSError:
                return
            with self._client as client, suppress(OSError):
                self._talk(client)

    def _talk(self, client: socket.socket) -> None:
        while request := client.recv(4096):
            self.heard += request
            while self.drips:
                client.sendall(b"x")
                time.sleep(0.02)
            answer = self.answer(request)
            if answer is None:
                return
            client.sendall(answer)


@contextmanager
def answering(answer: Answer | bytes) -> Iterator[TcpDouble]:
    """One that answers everything with these bytes, or by this function."""
    double = TcpDouble(answer if callable(answer) else lambda _: answer)
    try:
        yield double
    finally:
        double.close()
