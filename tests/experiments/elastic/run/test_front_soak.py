"""Many viewers, nodes that die, and a front that is killed again and again: who was told what is in
the log, no node ever had more viewers than it has room for, and every viewer's wait ended.
"""

import random
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.experiments.elastic.frontkit import Connection, Front, fronting

ROOM = 3
VIEWERS = 24
SESSIONS = 6
KILLS = 4


class Crowd:
    """Viewers, each in a thread; the front's address stays."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers: Counter[tuple[int, str]] = Counter()
        self.ended = 0
        self.lock = threading.Condition()
        self.threads = [
            threading.Thread(target=self._come, args=(number,), daemon=True)
            for number in range(VIEWERS)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def until_ended(self, sessions: int) -> None:
        with self.lock:
            assert self.lock.wait_for(lambda: self.ended >= sessions, 120), self.ended

    def _come(self, number: int) -> None:
        rng = random.Random(number)
        for session in range(SESSIONS):
            client = number + VIEWERS * session
            if self._ask(client, rng):
                self._retry(client, "POST", "/finished")
            with self.lock:
                self.ended += 1
                self.lock.notify_all()

    def _ask(self, client: int, rng: random.Random) -> bool:
        """True when it is served; until then it asks again, whatever happens to the front."""
        patience = rng.choice([20, 60_000])
        while True:
            status, word, location = self._retry(
                client, "GET", "/watch", f"?patience_ms={patience}"
            )
            if status == 302:
                with self.lock:
                    self.answers[client, location] += 1
                return True
            if word == "blocked":
                return False

    def _retry(self, client: int, method: str, page: str, query: str = "") -> tuple[int, str, str]:
        while True:
            with suppress(OSError, EOFError):
                connection = Connection(self.port)
                try:
                    connection.send(f"{method} {page}/{client}{query} HTTP/1.1\r\n\r\n")
                    answer = connection.answer()
                    return answer.status, answer.word or "", answer.headers.get("location", "")
                finally:
                    connection.close()


def control(front: Front, ready: set[int], rng: random.Random) -> None:
    """Makes what is wanted; now and then a node cannot be had, or dies."""
    with suppress(OSError, ValueError):  # it was killed
        for node in ready:
            front.ready(node)
    while (line := front.lines.get()) is not None:
        with suppress(OSError, ValueError):
            if (allocate := line.get("allocate")) is not None:
                if rng.random() < 0.2:
                    front.tell(failed=allocate, why="none to be had")
                else:
                    ready.add(allocate)
                    front.ready(allocate)
            elif (unwanted := line.get("release")) is not None:
                ready.discard(unwanted)
                front.tell(released=unwanted)
            if ready and rng.random() < 0.05:
                front.tell(failed=ready.pop(), why="it died")


def check(records: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """Who was sent where; nobody in two places, no node too full."""
    where: dict[int, int] = {}
    sent = set()
    for record in records:
        client = record.get("client")
        if client is None:
            continue
        if record.get("event") in ("request", "finished") or record.get("action") == "lost":
            where.pop(client, None)
        elif record.get("action") == "redirect":
            assert client not in where
            where[client] = record["node"]
            assert sum(node == record["node"] for node in where.values()) <= ROOM
            sent.add((client, record["node"]))
    return sent


def test_whatever_happens_everybody_is_told_what_the_log_says(tmp_path: Path) -> None:
    rng = random.Random(1)
    ready: set[int] = set()
    listen, crowd = "127.0.0.1:0", None
    for life in range(KILLS + 1):
        with fronting(tmp_path, config={"room": ROOM}, listen=listen) as front:
            listen = front.start["listening"]
            controller = threading.Thread(target=control, args=(front, ready, rng))
            controller.start()
            if crowd is None:
                crowd = Crowd(front.port)
                crowd.start()
            crowd.until_ended((life + 1) * VIEWERS * SESSIONS // (KILLS + 1))
            if life < KILLS:
                front.kill()
            else:
                for thread in crowd.threads:
                    thread.join(60)
                front.until('viewers{state="waiting"}', 0)
                assert front.quit() == 0
            controller.join(60)
    assert crowd is not None
    sent = check(front.records())
    named = {(client, f"http://10.0.0.{node + 1}:80/clip.mp4") for client, node in sent}
    assert set(crowd.answers) <= named
    assert {client for client, _ in crowd.answers}
    with fronting(tmp_path, config={"room": ROOM}) as again:
        assert again.start["resumed"]["waiting"] == 0
