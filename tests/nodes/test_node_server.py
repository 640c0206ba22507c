"""The remote end of a node, in this process: what it answers, whatever goes wrong in it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ullage.environments.agent.frames import Frame, FrameReader, Message, encode_message
from ullage.environments.placement import Resources
from ullage.nodes.serve import RefusedError, Server
from ullage.nodes.wire import MAGIC, PROTOCOL, Create, Named, Nothing


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


def test_a_name_is_free_when_its_last_instance_is_gone() -> None:
    """What could not be removed is tried again first: two would share directories."""
    failures = [OSError("busy"), OSError("still busy")]
    removed = []

    class Lasting:
        async def destroy(self) -> None:
            if failures:
                raise failures.pop(0)
            removed.append(self)

    class Refusing:
        async def check(self, _: object) -> None:
            return None

        async def create(self, _: object) -> None:
            raise RefusedError("full", "no more")

    async def session() -> None:
        server: Any = Server(asyncio.StreamReader(), bytearray().extend)
        server._node, server._instances["one"] = Refusing(), Lasting()
        wish = Create(provider="native", name="one", resources=Resources(), turn=0, image=None)
        with pytest.raises(RefusedError, match="there is an instance one"):
            await server._create(wish)
        with pytest.raises(OSError, match=r"^busy"):
            await server._destroy(Named(name="one"))
        with pytest.raises(OSError, match="still busy"):
            await server._create(wish)
        with pytest.raises(RefusedError, match="no more"):
            await server._create(wish)
        assert len(removed) == 1
        await server._destroy(Named(name="one"))  # what is gone already is no failure

    asyncio.run(session())


def test_a_removal_that_does_not_end_is_begun_anew_at_the_end() -> None:
    """The end of the input ends what goes on; the tag finds what stays."""
    begun = []

    class Hanging:
        async def destroy(self) -> None:
            begun.append(self)
            if len(begun) == 1:
                await asyncio.Event().wait()

    async def session() -> None:
        reader = asyncio.StreamReader()
        server: Any = Server(reader, bytearray().extend)
        server._instances["one"] = Hanging()
        asking = asyncio.create_task(server._destroy(Named(name="one")))
        while not begun:
            await asyncio.sleep(0)
        reader.feed_eof()
        async with asyncio.timeout(20):
            await server.run()
        assert len(begun) == 2
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(session())
