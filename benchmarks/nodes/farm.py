"""Many machines in one process, for `benchmarks.nodes.many_nodes`: each speaks the node's protocol.

Who connects says in its first line what ssh would have been asked to run. `serve` is answered here,
request by request; `attach` is a real agent, with the connection as its standard input and output.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.nodes.relay import LOOPBACK
from ullage.environments.agent.client import binary
from ullage.environments.agent.frames import FrameReader, Message, encode_message
from ullage.host import facts, image
from ullage.host.clock import Synced, UdpServer
from ullage.nodes import clock, wire

_READ = 65_536
_PRIVATE: Mapping[str, Any] = {
    "socket": "/run/simulated",
    "cpu_ids": [0],
    "cpu_quota": None,
    "data": "/tmp",
    "own_kernel": False,
    "apart_ns": 0,
}


@cache
def greeting() -> dict[str, Any]:
    """Every machine is this one."""
    return {"protocol": wire.PROTOCOL, "facts": {**facts.facts(), "root": True}}


@cache
def packages(programs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Of this machine's userland."""
    return dict(image.host_image(dict(programs)).packages)


class Machine:
    """One session of one of them."""

    def __init__(self) -> None:
        self._clock: UdpServer | None = None
        self._operations: Mapping[str, Callable[[Message], dict[str, Any]]] = {
            "hello": lambda _: greeting(),
            "check": lambda _: {
                "label": "native",
                "emulated": False,
                "treatments": {},
                "writable_root": "",
            },
            "packages": self._packages,
            "clock": self._tell_time,
            "create": lambda _: dict(_PRIVATE),
            "kills": lambda _: {"kills": 0},
        }

    def answer(self, request: Message) -> bytes:
        """Nothing is ever refused."""
        perform = self._operations.get(request.op)
        fields = {} if perform is None else perform(request)
        return encode_message("done", id=request.integer("id", 0, 2**32 - 1), **fields)

    def close(self) -> None:
        """Its clock too."""
        if self._clock is not None:
            self._clock.stop()

    def _packages(self, request: Message) -> dict[str, Any]:
        programs = request.fields["programs"]
        assert isinstance(programs, dict)
        return {"packages": packages(tuple(programs.items()))}

    def _tell_time(self, request: Message) -> dict[str, Any]:
        self._clock = UdpServer(f"{LOOPBACK}:0", bytes.fromhex(request.text("token")))
        return clock.where(self._clock).model_dump()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One session, until its end."""
    machine, frames = Machine(), FrameReader(None)
    writer.write(wire.MAGIC + b" %d\n" % wire.PROTOCOL)
    try:
        while data := await reader.read(_READ):
            for frame in frames.feed(data):
                assert isinstance(frame, Message)
                writer.write(machine.answer(frame))
                if frame.op == "bye":
                    return
    finally:
        machine.close()
        writer.close()


async def accept(listener: socket.socket) -> None:
    """Whoever comes, as what it asks for."""
    loop = asyncio.get_running_loop()
    tasks = set()
    while True:
        peer, _ = await loop.sock_accept(listener)
        word = b""
        while not word.endswith(b"\n"):
            word += await loop.sock_recv(peer, 1)
        if word == b"attach\n":
            _start_agent(peer)
        else:
            tasks.add(asyncio.create_task(_session(peer)))


def _start_agent(peer: socket.socket) -> None:
    with peer:
        peer.setblocking(True)
        argv = [str(binary()), "serve"]
        both = peer.fileno()
        subprocess.Popen(argv, stdin=both, stdout=both, stderr=subprocess.DEVNULL)


async def _session(peer: socket.socket) -> None:
    await serve(*await asyncio.open_unix_connection(sock=peer))


def main() -> None:
    """Arguments: the path to listen at. It ends with its parent."""
    Synced().lead()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(Path(sys.argv[1])))
    listener.listen(4096)
    listener.setblocking(False)
    print("ready", flush=True)
    asyncio.run(accept(listener))


if __name__ == "__main__":
    main()
