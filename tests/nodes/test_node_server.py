"""The remote end of a node, in this process: what it answers, whatever goes wrong in it."""

from __future__ import annotations

import asyncio
from typing import Any

from ullage.environments.agent.frames import Frame, FrameReader, Message, encode_message
from ullage.nodes.serve import Server
from ullage.nodes.wire import MAGIC, PROTOCOL, Nothing


def answers_of(op: str, perform: Any) -> list[Frame]:
    """What it answers to a request that is done so."""
    written = bytearray()

    async def session() -> None:
        reader = asyncio.StreamReader()
        server = Server(reader, written.extend)
        server._operations[op] = (Nothing, perform)
        reader.feed_data(encode_message(op, id=1))
        reader.feed_data(encode_message("bye", id=2))
        serving = asyncio.create_task(server.run())
        async with asyncio.timeout(20):
            while b'"id":1' not in written or b'"id":2' not in written:
                await asyncio.sleep(0.01)
        reader.feed_eof()
        await serving

    asyncio.run(session())
    return list(FrameReader(MAGIC, PROTOCOL).feed(bytes(written)))


def test_a_fault_is_an_answer() -> None:
    """Silence would be waited for, a quarter of an hour long."""

    async def fail(_: Nothing) -> Nothing:
        raise ExceptionGroup("several", [KeyError("x")])

    answers = {a.fields["id"]: a for a in answers_of("doctor", fail) if isinstance(a, Message)}
    assert answers[1].fields["code"] == "fault"
    assert "ExceptionGroup: several" in answers[1].text("message")
    assert answers[2].op == "done"


def test_a_fault_of_the_system_without_a_number_says_its_words() -> None:
    async def fail(_: Nothing) -> Nothing:
        raise OSError("AF_UNIX path too long")

    answers = {a.fields["id"]: a for a in answers_of("doctor", fail) if isinstance(a, Message)}
    assert answers[1].text("message") == "doctor: AF_UNIX path too long"


def test_instances_go_though_an_upload_does_not_end() -> None:
    """Its tar may wait for a disk that answers nobody."""
    destroyed = asyncio.Event()

    class Running:
        async def destroy(self) -> None:
            destroyed.set()

    async def close() -> None:
        await asyncio.Event().wait()

    async def session() -> None:
        reader = asyncio.StreamReader()
        server: Any = Server(reader, bytearray().extend)
        server._instances["one"] = Running()
        server._uploads.close = close
        reader.feed_eof()
        serving = asyncio.create_task(server.run())
        async with asyncio.timeout(20):
            await destroyed.wait()
        serving.cancel()

    asyncio.run(session())
