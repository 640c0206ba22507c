"""The client against peers that send one wrong frame: whoever waits hears of it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support.peer import RUSAGE, Peer, lost, play
from ullage.common.errors import UllageError
from ullage.environments.agent.client import AgentClient, Command
from ullage.environments.agent.frames import CREDIT, FrameKind, encode_clock

TRUE = Command(("true",))


def bad_frame(peer: Peer, number: int) -> None:
    peer.writer.write(b"\xa1\x55\x09\x00\x00\x00\x00\x00")


def too_long_frame(peer: Peer, number: int) -> None:
    peer.writer.write(b"\xa1\x55\x00\x00\xff\xff\xff\xff")


def other_answer(peer: Peer, number: int) -> None:
    peer.send("sample", id=number)


def second_start(peer: Peer, number: int) -> None:
    peer.send("started", id=number, pid=1, start_ns=10)


def answer_to_nothing(peer: Peer, number: int) -> None:
    peer.send("done", id=number + 1000)


def data_to_nothing(peer: Peer, number: int) -> None:
    peer.data(FrameKind.STDOUT, number + 1000, b"x")


def file_data(peer: Peer, number: int) -> None:
    peer.data(FrameKind.FILE, number, b"x")


def no_id(peer: Peer, number: int) -> None:
    peer.send("exit")


def end_before_start(peer: Peer, number: int) -> None:
    peer.exit(number, end_ns=9)


def end_after_all_time(peer: Peer, number: int) -> None:
    peer.exit(number, end_ns=2**62)


def start_before_all_time(peer: Peer, number: int) -> None:
    peer.exit(number, start_ns=-(2**63))


def end_after_64_bit(peer: Peer, number: int) -> None:
    peer.exit(number, end_ns=2**63)


def negative_usage(peer: Peer, number: int) -> None:
    peer.exit(number, rusage={**RUSAGE, "user_ns": -1})


def status_of_text(peer: Peer, number: int) -> None:
    peer.exit(number, status="0")


def unknown_reason(peer: Peer, number: int) -> None:
    peer.exit(number, reasons=["bored"])


def answer_of_no_clock(peer: Peer, number: int) -> None:
    peer.writer.write(encode_clock(b"x" * 80))


def no_usage(peer: Peer, number: int) -> None:
    peer.exit(number, rusage=None)


def huge_usage(peer: Peer, number: int) -> None:
    peer.exit(number, rusage={**RUSAGE, "max_rss_bytes": 2**64 - 1})


def too_much_credit(peer: Peer, number: int) -> None:
    peer.send("credit", bytes=1)


def negative_credit(peer: Peer, number: int) -> None:
    peer.send("credit", bytes=-1)


def blame(peer: Peer, number: int) -> None:
    peer.send("error", code="bad-json", message="what?")


def more_than_credit(peer: Peer, number: int) -> None:
    # One frame larger than the rest of the credit, so that none can be given back before it.
    peer.data(FrameKind.STDOUT, number, b"x" * 200_000)
    peer.data(FrameKind.STDOUT, number, b"x" * (CREDIT - 200_000))


def end_of_file(peer: Peer, number: int) -> None:
    peer.writer.close()


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (bad_frame, "unknown kind 9"),
        (too_long_frame, "a frame of 4294967295 bytes"),
        (other_answer, "sample in answer to spawn"),
        (second_start, "started in answer to spawn"),
        (answer_to_nothing, "done in answer to nothing"),
        (data_to_nothing, "data in answer to nothing"),
        (file_data, "file data in answer to spawn"),
        (no_id, "id is not an integer"),
        (end_before_start, "ended before it started"),
        (end_after_all_time, "exit: end_ns is no instant"),
        (start_before_all_time, "start_ns is not an integer"),
        (end_after_64_bit, "end_ns is not an integer"),
        (negative_usage, "user_ns is not an integer"),
        (status_of_text, "status is not an integer"),
        (unknown_reason, "not a list of known reasons"),
        (answer_of_no_clock, "a clock's answer to nothing"),
        (no_usage, "rusage is not an object"),
        (huge_usage, "max_rss_bytes is not an integer"),
        (too_much_credit, "more credit than it may give"),
        (negative_credit, "bytes is not an integer"),
        (blame, "it calls our frame malformed: bad-json: what?"),
        (more_than_credit, "more data than it had credit for"),
        (end_of_file, "it closed its channel"),
    ],
)
def test_whoever_waits_hears_at_once(break_it: Callable[[Peer, int], None], reason: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        number = await peer.spawned()
        await peer.request("sample")
        break_it(peer, number)

    async def use(client: AgentClient) -> None:
        process = await client.spawn(TRUE)
        await process.started()
        waiting = [process.wait(), client.sample(), process.wait_for_output(b"ready", 60)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        for result in results:
            assert isinstance(result, UllageError)
            lost(result, reason)
        assert client.closed
        with pytest.raises(UllageError) as caught:
            await client.sync()
        lost(caught.value, reason)

    play(script, use)
