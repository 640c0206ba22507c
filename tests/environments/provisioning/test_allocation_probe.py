"""Ports that open, and replies that are none."""

from __future__ import annotations

import asyncio
import socket

import pytest

from ullage.environments.provisioning.probe import first_reply, watch_port

HERE = "127.0.0.1"


def free_port() -> socket.socket:
    """Bound, but nobody listens: a connection is refused."""
    bound = socket.socket()
    bound.bind((HERE, 0))
    return bound


def test_a_port_is_closed_then_open() -> None:
    steps: list[str] = []

    async def scenario() -> None:
        with free_port() as bound:
            closed = asyncio.Event()

            def on_step(step: str) -> None:
                steps.append(step)
                closed.set()

            expected = asyncio.Event()
            port = bound.getsockname()[1]
            watch = asyncio.create_task(watch_port(HERE, port, on_step, expected))
            async with asyncio.timeout(60):
                await closed.wait()
                assert steps == ["port_closed"]
                expected.set()
                bound.listen()
                await watch

    asyncio.run(scenario())
    assert steps == ["port_closed", "port_open"]


def test_a_port_that_is_open_at_the_first_look_never_was_closed() -> None:
    steps: list[str] = []

    async def scenario() -> None:
        with free_port() as bound:
            bound.listen()
            async with asyncio.timeout(60):
                await watch_port(HERE, bound.getsockname()[1], steps.append, asyncio.Event())

    asyncio.run(scenario())
    assert steps == ["port_open"]


async def replied(reply: bytes) -> int:
    """The status that is read from what a server says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readline()).startswith(b"GET /clip HTTP/1.1")
        writer.write(reply)
        writer.close()

    server = await asyncio.start_server(serve, HERE, 0)
    async with server, asyncio.timeout(60):
        return await first_reply(HERE, server.sockets[0].getsockname()[1], "/clip")


@pytest.mark.parametrize("status", [200, 404, 503])
def test_the_status_of_a_reply(status: int) -> None:
    assert asyncio.run(replied(f"HTTP/1.1 {status} what\r\n\r\n".encode())) == status


@pytest.mark.parametrize(
    "reply", [b"", b"\r\n", b"HTTP/1.1", b"SSH-2.0-x\r\n", b"HTTP/1.1 abc\r\n", b"x" * 100_000]
)
def test_what_is_no_reply(reply: bytes) -> None:
    with pytest.raises((ValueError, OSError)):
        asyncio.run(replied(reply))
