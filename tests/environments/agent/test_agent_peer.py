"""The client against peers that break the protocol, fall silent or die."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.peer import CLOCK, MAGIC, Peer, lost, play
from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.environments.agent import channel, files
from ullage.environments.agent import clock as agent_clock
from ullage.environments.agent import process as agentprocess
from ullage.environments.agent.client import AgentClient, AgentError, Command
from ullage.environments.agent.frames import CREDIT, FrameKind, encode_clock
from ullage.host import clock

TRUE = Command(("true",))


async def nothing(_: AgentClient) -> None:
    raise AssertionError("must not connect")


def refused(script: Callable[[Peer], Awaitable[None]], *, deadline_s: float = 5) -> str:
    with pytest.raises(UllageError) as caught:
        play(script, nothing, deadline_s=deadline_s)
    assert caught.value.kind is errors.AGENT_NOT_STARTED
    return str(caught.value)


def test_a_banner_is_skipped() -> None:
    async def script(peer: Peer) -> None:
        peer.writer.write(b"Last login: yesterday\r\n\xff\xfe")
        await peer.greet()

    async def use(client: AgentClient) -> None:
        assert client.facts == {"uid": 0}
        assert not client.closed

    play(script, use)


def test_no_magic_line() -> None:
    async def script(peer: Peer) -> None:
        peer.writer.write(b"sh: ullage-agent:\x1b[31m not found\n")
        await asyncio.sleep(60)

    message = refused(script, deadline_s=0.2)
    assert "no hello within 0.2 s; it said: sh: ullage-agent:?[31m not found" in message


def test_end_of_file_before_the_magic_line() -> None:
    async def script(peer: Peer) -> None:
        peer.writer.write(b"No such container\n")
        peer.writer.close()

    assert "it closed its channel; it said: No such container" in refused(script)


def test_an_endless_banner() -> None:
    async def script(peer: Peer) -> None:
        peer.writer.write(b"y\n" * 40_000)

    assert "no magic line" in refused(script)


def nested(depth: int) -> object:
    return {"a": nested(depth - 1)} if depth else 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"version": 1, "facts": {}}, "version 1"),
        ({"version": 2}, "facts is not an object"),
        ({"version": True, "facts": {}}, "version is not an integer"),
        ({"version": 2, "facts": {"x": "\ud800"}}, "bad JSON"),
        ({"version": 2, "facts": {"x": 1}}, "the fact x: Extra inputs are not permitted"),
        ({"version": 2, "facts": {"\x1b[2J" * 99: 1}}, "the fact ?[2J?[2J"),
        ({"version": 2, "facts": {"hostname": nested(250)}}, "the fact hostname: Input should be"),
        ({"version": 2, "facts": {"hostname": 1}}, "the fact hostname"),
        ({"version": 2, "facts": {"uid": -1}}, "the fact uid"),
        ({"version": 2, "facts": {"uid": True}}, "the fact uid"),
        ({"version": 2, "facts": {"memory_total_bytes": 2**63}}, "the fact memory_total_bytes"),
        ({"version": 2, "facts": {"cpus_allowed": [0, 1 << 16]}}, "the fact cpus_allowed.1"),
        ({"version": 2, "facts": {"cpu_quota": True}}, "the fact cpu_quota"),
        ({"version": 2, "facts": {"cpu_quota": 1e300}}, "the fact cpu_quota"),
        ({"version": 2, "facts": {"init": 1}}, "the fact init"),
    ],
)
def test_a_bad_hello(fields: dict[str, object], reason: str) -> None:
    async def script(peer: Peer) -> None:
        peer.writer.write(MAGIC)
        peer.send("hello", id=await peer.request("hello"), **fields)

    assert reason in refused(script)


def test_facts_are_kept_short_and_printable() -> None:
    async def script(peer: Peer) -> None:
        facts = {"os": "\x1b]0;pwned\x07 Linux\n12", "cpu_model": "x" * 999, "cpu_quota": 2}
        peer.writer.write(MAGIC)
        peer.send("hello", id=await peer.request("hello"), version=2, facts=facts, clock=CLOCK)
        await peer.tell_time()

    async def use(client: AgentClient) -> None:
        cut = "x" * 199 + "…"
        assert client.facts == {"os": "?]0;pwned? Linux 12", "cpu_model": cut, "cpu_quota": 2.0}

    play(script, use)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"clock": None}, "clock is not an object"),
        ({"clock": {**CLOCK, "source": "sundial"}}, "unknown source"),
        ({"clock": {**CLOCK, "shared": 1}}, "neither true nor false"),
        ({"clock": {**CLOCK, "ordered_ns": -1}}, "ordered_ns is not an integer"),
        ({"clock": {**CLOCK, "ordered_ns": 100_001}}, "ordered_ns is not an integer"),
        ({"clock": {**CLOCK, "reasons": ["bored"]}}, "not a list of known reasons"),
        ({"clock": {**CLOCK, "reasons": "moved"}}, "not a list of known reasons"),
    ],
)
def test_a_bad_word_about_the_clock(claims: dict[str, object], reason: str) -> None:
    async def script(peer: Peer) -> None:
        peer.writer.write(MAGIC)
        peer.send("hello", id=await peer.request("hello"), version=2, facts={}, **claims)

    assert reason in refused(script)


def test_a_line_that_is_not_shared() -> None:
    async def script(peer: Peer) -> None:
        await peer.hello()
        await peer.tell_time(ahead_ns=-1_000_000_000)

    assert "it says that it shows this host's time, and is -" in refused(script)


def test_a_clock_that_cannot_be() -> None:
    async def script(peer: Peer) -> None:
        await peer.hello(shared=False)
        await peer.tell_time(ahead_ns=5)
        await peer.tell_time(ahead_ns=10_000_000_000)

    assert "cannot be true of two clocks" in refused(script)


@pytest.mark.parametrize("off_ns", [1_000_000, 10**10, 2**63])
def test_a_clock_that_does_not_know_the_time(off_ns: int) -> None:
    """What it says of itself may not widen the bound within which it is believed."""

    async def script(peer: Peer) -> None:
        await peer.hello(shared=False)
        while True:
            _, message = await peer.take()
            pending = peer.server.receive(message, clock.ordered_ns())
            assert pending is not None
            standing = clock.Standing(hard_ns=off_ns, bound_ns=off_ns, awake=False)
            peer.writer.write(encode_clock(pending.answer(clock.ordered_ns(), standing)))

    assert "it does not know the time itself" in refused(script)


def test_a_clock_frame_of_no_message() -> None:
    async def script(peer: Peer) -> None:
        await peer.hello()
        await peer.take()
        peer.writer.write(b"\xa1\x55\x04\x00\x00\x00\x00\x4fx")

    assert "a clock frame of 79 bytes" in refused(script)


def test_late_answers_of_a_clock_are_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """A synchronisation that has given up leaves an answer on its way."""
    rules = clock.Rules(patience_ns=1_000_000, reply_ns=1_000_000, messages=2)

    async def script(peer: Peer) -> None:
        await peer.greet()
        _, late = await peer.take()
        number = await peer.request("sample")
        pending = peer.server.receive(late, 1)
        assert pending is not None
        peer.writer.write(encode_clock(pending.answer(2, clock.Standing())))
        peer.send("sample", id=number)
        await peer.tell_time()
        await peer.request("sample")
        peer.writer.write(encode_clock(pending.answer(2, clock.Standing())))

    async def use(client: AgentClient) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(agent_clock, "one_exchange", lambda: rules)
            with pytest.raises(UllageError, match="does not answer for it") as caught:
                await client.sync()
        assert caught.value.kind is errors.AGENT_CLOCK
        assert await client.sample() == {}
        await client.sync()
        with pytest.raises(UllageError) as gone:
            await client.sample()
        lost(gone.value, "a clock's answer to nothing")

    play(script, use)


def test_an_answer_of_another_kind() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.send("done", id=await peer.request("sample"))

    async def use(client: AgentClient) -> None:
        with pytest.raises(UllageError) as caught:
            await client.sample()
        lost(caught.value, "done in answer to sample")

    play(script, use)


def test_an_error_is_told_in_one_clean_line() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        number = await peer.request("spawn")
        peer.send("error", id=number, code="exec-failed", message="no\x1b[2J\nsuch " + "x" * 5000)

    async def use(client: AgentClient) -> None:
        process = await client.spawn(TRUE)
        for waiting in (process.started(), process.wait()):
            with pytest.raises(AgentError) as caught:
                await waiting
            assert caught.value.kind is errors.AGENT_REFUSED
            assert caught.value.error == "exec-failed"
            assert "could not run true: no?[2J such xxx" in caught.value.message
            assert len(caught.value.message) < 500
        assert not client.closed

    play(script, use)


def test_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (channel, agentprocess):
        monkeypatch.setattr(module, "PATIENCE_S", 0.1)

    async def script(peer: Peer) -> None:
        await peer.greet()
        while True:
            await peer.take()

    async def use(client: AgentClient) -> None:
        process = await client.spawn(Command(("true",), timeout_s=0.01))
        for waiting in (process.started(), process.wait(), client.put(b"x" * CREDIT * 2, "/x")):
            with pytest.raises(UllageError) as caught:
                await waiting
            assert caught.value.kind is errors.AGENT_SILENT

    with pytest.raises(asyncio.IncompleteReadError):
        play(script, use)


@pytest.mark.parametrize("op", ["put", "get"])
def test_a_byte_now_and_then_is_not_for_ever(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "TRANSFER_S", 0.3)

    ended: list[str] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        number = await peer.request(op)
        while not ended:
            await asyncio.sleep(0.02)
            if op == "put":
                peer.send("credit", bytes=1)
            else:
                peer.data(FrameKind.FILE, number, b"x")

    async def use(client: AgentClient) -> None:
        size = CREDIT + 1000
        work = client.put(b"x" * size, "/data/x") if op == "put" else client.get("/data/x", size)
        with pytest.raises(UllageError) as caught:
            await asyncio.wait_for(work, 20)
        assert caught.value.kind is errors.AGENT_SLOW
        assert not client.closed
        ended.append(op)

    play(script, use)


def test_a_file_that_changes_on_the_way_in() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        number = await peer.request("put")
        assert (await peer.take())[1][4:] == b"data"
        peer.send("done", id=number, sha256=hashlib.sha256(b"date").hexdigest())

    async def use(client: AgentClient) -> None:
        with pytest.raises(UllageError) as caught:
            await client.put(b"data", "/data/x")
        assert caught.value.kind is errors.AGENT_CORRUPT

    play(script, use)


@pytest.mark.parametrize(("size", "data"), [(5, b"data"), (4, b"date")])
def test_a_file_that_changes_on_the_way_out(size: int, data: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        number = await peer.request("get")
        peer.data(FrameKind.FILE, number, data)
        peer.send("done", id=number, size=size, sha256=hashlib.sha256(b"data").hexdigest())

    async def use(client: AgentClient) -> None:
        with pytest.raises(UllageError) as caught:
            await client.get("/data/x")
        assert caught.value.kind is errors.AGENT_CORRUPT

    play(script, use)


def test_more_than_was_asked_for() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.data(FrameKind.FILE, await peer.request("get"), b"12345")

    async def use(client: AgentClient) -> None:
        with pytest.raises(UllageError) as caught:
            await client.get("/data/x", limit=3)
        lost(caught.value, "more than was asked for")

    play(script, use)


def test_a_flood_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(agentprocess, "OUTPUT_LIMIT", 100_000)

    async def script(peer: Peer) -> None:
        await peer.greet()
        number = await peer.spawned()
        peer.data(FrameKind.STDOUT, number, b"x" * 100_001)
        kill = await peer.request("kill")
        peer.data(FrameKind.STDOUT, number, b"x" * 50_000)
        peer.exit(number, status=None, signal=9)
        peer.send("done", id=kill)

    async def use(client: AgentClient) -> None:
        process = await client.spawn(TRUE, stdout_path=tmp_path / "out")
        with pytest.raises(UllageError) as caught:
            await process.wait()
        assert caught.value.kind is errors.AGENT_FLOOD
        assert (tmp_path / "out").stat().st_size == 100_001

    play(script, use)


def test_a_full_disk_fails_the_program_not_the_channel() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        number = await peer.spawned()
        peer.data(FrameKind.STDOUT, number, b"x")
        peer.send("done", id=await peer.request("kill"))
        peer.exit(number)

    async def use(client: AgentClient) -> None:
        process = await client.spawn(TRUE, stdout_path=Path("/dev/full"))
        with pytest.raises(UllageError) as caught:
            await process.wait()
        assert caught.value.kind is errors.RUN_DISK_FULL
        assert not client.closed

    play(script, use)


def test_a_request_that_is_too_long() -> None:
    async def use(client: AgentClient) -> None:
        with pytest.raises(AgentError, match="at most 65536"):
            await client.run(Command(("echo", "x" * 70_000)))
        assert not client.closed

    play(Peer.greet, use)


def test_errors_of_late_data_are_no_news() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        number = await peer.request("put")
        for _ in range(3):
            peer.send("error", id=number, code="no-such-id", message="which?")
        await peer.take()
        peer.send("sample", id=await peer.request("sample"))

    async def use(client: AgentClient) -> None:
        with pytest.raises(AgentError):
            await client.put(b"data", "/data/x")
        assert await client.sample() == {}

    play(script, use)


@pytest.mark.parametrize("kind", [errors.AGENT_LOST, errors.AGENT_SILENT, errors.AGENT_REFUSED])
def test_a_lost_trial_is_not_bad_input(kind: ErrorKind) -> None:
    assert kind.exit_code == errors.ExitCode.SOME_CELLS_FAILED


def test_who_takes_the_pipes_hears_no_late_answer() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        _, message = await peer.take()
        await asyncio.sleep(0.3)
        peer.writer.write(encode_clock(bytes(message)))

    async def use(client: AgentClient) -> None:
        look = asyncio.create_task(client.sync())
        await asyncio.sleep(0.1)
        look.cancel()  # as an exchange does that has seen enough, or has no more time
        read, write = await client.hand_over()
        assert client.closed
        await asyncio.sleep(0.5)
        os.set_blocking(read, False)
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
        os.close(read)
        os.close(write)

    play(script, use)
