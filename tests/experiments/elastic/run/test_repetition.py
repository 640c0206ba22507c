"""The programs of a repetition as processes: a real front that dies, viewers that do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic.folder import FRONT_STDERR, VIEWERS
from ullage.experiments.elastic.run import repetition
from ullage.experiments.elastic.run.front import Front, Restarted, Wish, moving
from ullage.experiments.elastic.run.process import ended
from ullage.experiments.elastic.run.viewers import Viewers
from ullage.host import leftovers, paths

LONG = 60.0


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "listen": "127.0.0.1:0",
        "config": {"room": 2},
        "policy": {"name": "elastic-movie"},
        "log": str(folder / "front.jsonl"),
        "alone_ms": 0,
        **more,
    }


async def watch(front: Front, client: int, patience_ms: int) -> tuple[int, str]:
    """Ask for the film, follow nothing: status, and where it is."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    def ask() -> tuple[int, str]:
        url = f"http://{front.address}/watch/{client}?patience_ms={patience_ms}"
        try:
            urllib.request.build_opener(Stay).open(url, timeout=LONG)
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers.get("Location", "")
        raise AssertionError("neither a redirect nor a refusal")

    return await asyncio.to_thread(ask)


def test_a_front_that_is_killed_comes_back_with_what_it_knew(built: None, tmp_path: Path) -> None:
    async def play() -> None:
        front = Front(settings(tmp_path), tmp_path, paths.new_tag(), restarts=1)
        await front.start()
        try:
            messages = front.messages()
            first = asyncio.create_task(watch(front, 1, 3_600_000))
            wish = await anext(messages)
            assert isinstance(wish, Wish)
            assert not wish.release
            place = {"address": "127.0.0.1:9", "url": "http://127.0.0.1:9/film"}
            front.tell(ready=wish.node, **place)
            assert await first == (302, place["url"])
            address = front.address
            os.kill(front.pid, signal.SIGKILL)
            back = await anext(messages)
            assert isinstance(back, Restarted)
            assert back.how == "it was ended by SIGKILL"
            assert back.ended_ns <= back.back_ns
            assert front.address == address
            front.tell(ready=wish.node, **place)  # it knows, and does not mind
            assert await watch(front, 2, 0) == (302, place["url"])
            os.kill(front.pid, signal.SIGKILL)
            with pytest.raises(UllageError) as caught:
                await anext(messages)
            assert caught.value.kind is errors.ELASTIC_FRONT_DIED
        finally:
            await front.quit()

    async def bounded() -> None:
        async with asyncio.timeout(2 * LONG):
            await play()

    asyncio.run(bounded())


def test_a_front_with_a_bad_policy_says_so_at_once(built: None, tmp_path: Path) -> None:
    async def play() -> UllageError:
        front = Front(
            settings(tmp_path, policy={"name": "clairvoyant"}), tmp_path, paths.new_tag(), 3
        )
        try:
            with pytest.raises(UllageError) as caught:
                await front.start()
        finally:
            await front.quit()
        return caught.value

    error = asyncio.run(play())
    assert error.kind is errors.ELASTIC_FRONT_NOT_STARTED
    assert "clairvoyant" in error.message
    assert "clairvoyant" in (tmp_path / FRONT_STDERR).read_text(encoding="utf-8")


def test_the_front_is_found_by_its_tag(built: None, tag: str, tmp_path: Path) -> None:
    async def play() -> None:
        front = Front(settings(tmp_path), tmp_path, tag, restarts=0)
        await front.start()
        leftover_list = await asyncio.to_thread(leftovers.find, tag)
        pids = [
            leftover.name.partition("@")[0]
            for leftover in leftover_list
            if leftover.kind == "process"
        ]
        assert pids == [str(front.pid)]
        await front.quit()

    asyncio.run(play())


def told_to(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "nodes": ["http://127.0.0.1:9/film"],
        "arrivals": {"kind": "uniform", "rate_hz": 100, "count": 3},
        "video": {"bytes": 1000, "bitrate_bps": 8000, "chunk_bytes": 500},
        "sessions": str(folder / "sessions.jsonl"),
        "lateness_limit_ms": 60_000,
        **more,
    }


def viewers(folder: Path) -> Viewers:
    return Viewers(folder, paths.new_tag())


def test_viewers_sum_up_though_nobody_serves_them(built: None, tmp_path: Path) -> None:
    summary = asyncio.run(viewers(tmp_path).run(told_to(tmp_path)))
    document = json.loads((tmp_path / VIEWERS).read_text(encoding="utf-8"))
    assert document["valid"] == summary.valid
    lines = (tmp_path / "sessions.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert all(json.loads(line)["outcome"] != "served" for line in lines)


def test_viewers_that_are_killed_or_told_nonsense_came_to_no_result(
    built: None, tmp_path: Path
) -> None:
    async def play() -> str:
        slow = viewers(tmp_path)
        seldom = {"kind": "uniform", "rate_hz": 0.001, "count": 9}
        running = asyncio.create_task(slow.run(told_to(tmp_path, arrivals=seldom)))
        while slow.pid is None:
            await asyncio.sleep(0.01)
        os.kill(slow.pid, signal.SIGKILL)
        with pytest.raises(UllageError) as caught:
            await running
        assert caught.value.kind is errors.ELASTIC_VIEWERS_FAILED
        return caught.value.message

    assert "SIGKILL" in asyncio.run(play())
    with pytest.raises(UllageError) as caught:
        asyncio.run(viewers(tmp_path).run(told_to(tmp_path, colour="blue")))
    assert "colour" in caught.value.message


def test_who_may_not_go_to_its_node_gives_its_place_to_the_next(
    built: None, tmp_path: Path
) -> None:
    async def play() -> dict[str, Any]:
        config = settings(tmp_path, config={"room": 1, "min_nodes": 1, "max_nodes": 1})
        front = Front(config, tmp_path, paths.new_tag(), restarts=0)
        await front.start()
        try:
            messages = front.messages()
            many = told_to(tmp_path, front=f"http://{front.address}", patience_s=LONG)
            del many["nodes"]
            running = asyncio.create_task(viewers(tmp_path).run(many))
            wish = await anext(messages)
            assert isinstance(wish, Wish)
            outside = "192.0.2.1:80"  # RFC 5737: nobody's, and in no network that is allowed
            front.tell(ready=wish.node, address=outside, url=f"http://{outside}/film")
            await running
            state = await asyncio.to_thread(
                urllib.request.urlopen, f"http://{front.address}/state", None, LONG
            )
            document: dict[str, Any] = json.load(state)
            return document
        finally:
            await front.quit()

    async def bounded() -> dict[str, Any]:
        async with asyncio.timeout(4 * LONG):
            return await play()

    state = asyncio.run(bounded())
    lines = (tmp_path / "sessions.jsonl").read_text(encoding="utf-8").splitlines()
    # All three were given the only place, one after the other; else two would have been blocked.
    assert [json.loads(line)["why"] for line in lines] == ["not-allowed"] * 3
    assert state["view"]["served"] == 0, state


@pytest.mark.parametrize(
    ("body", "length", "expected"),
    [
        (b'{"nodes": [{"state": "ready"}]}', 31, False),
        (b'{"nodes": [{"state": "ready"}, {"state": "coming"}]}', 52, True),
        (b'{"nodes": [', 31, True),  # it was killed while it spoke
        (b"no JSON", 7, True),
    ],
)
def test_a_front_that_says_nothing_whole_may_have_nodes_that_come(
    monkeypatch: pytest.MonkeyPatch, body: bytes, length: int, expected: bool
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # not asked: the front is here
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + body)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        host, port = listener.getsockname()
        assert asyncio.run(moving(f"{host}:{port}")) == expected
        thread.join(LONG)
    assert asyncio.run(moving(f"{host}:{port}"))


def test_how_processes_end_is_said_in_words() -> None:
    assert ended(3) == "it ended with status 3"
    assert ended(-signal.SIGTERM) == "it was ended by SIGTERM"
    assert ended(-33) == "it was ended by signal 33"
    assert repetition._reason(OSError(28, "No space left on device")).code == "os-error"
