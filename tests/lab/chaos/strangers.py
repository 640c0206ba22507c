"""Users of this machine without the secret crowd a live page, while its run goes on."""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket
import time
import urllib.request
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.lab.chaos.campaign import Campaign, Case, FaultFoundError, numbered
from tests.lab.chaos.controller import Controller, stretched_s
from tests.lab.chaos.subjects import CROWDED, RESUMED_S, Attacked, check_words

CONNECTIONS: Final = 10_000
_HELD: Final = 400
"""At a time."""
_BATCH: Final = 50
_PAUSE_S: Final = 0.05
_MOST_DESCRIPTORS: Final = 256
_URL: Final = re.compile(r"live: (http://127\.0\.0\.1:(\d+)/\S+)")
_WORDS: Final = (
    b"",
    b"G",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /x/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /" + b"a" * 5000,
    b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"\r\n" * 900,
    bytes(2000),
)
"""What a stranger says, if it says anything."""


class Crowd:
    """Connections that say something or nothing, are held for a while and closed."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self.count = 0
        self._port = port
        self._chance = chance
        self._held: deque[socket.socket] = deque()

    def push(self) -> None:
        """So many more; the oldest go."""
        for _ in range(_BATCH):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", self._port))
            self._held.append(one)
        self.count += _BATCH
        for one in self._held:
            if self._chance.random() < 0.2:
                with contextlib.suppress(OSError):
                    one.send(self._chance.choice(_WORDS))
        while len(self._held) > _HELD:
            self._held.popleft().close()

    def leave(self) -> None:
        """All of them."""
        while self._held:
            self._held.popleft().close()


def play(case: Case) -> None:
    """One run, and all the strangers; who has the secret gets the page after them."""
    attacked = Attacked(case, CROWDED)
    controller = attacked.start()
    url, port = _address(controller)
    crowd, began, cpu_s = Crowd(port, case.random), time.monotonic(), _beside_s(controller.pid)
    while crowd.count < CONNECTIONS and not controller.gone(0.0):
        crowd.push()
        case.most("most_descriptors", len(list(Path(f"/proc/{controller.pid}/fd").iterdir())))
        time.sleep(_PAUSE_S)
    used_s = _beside_s(controller.pid) - cpu_s
    case.most("most_ms_of_cpu_per_s", 1e3 * used_s / (time.monotonic() - began))
    crowd.leave()
    case.counts["connections"] += crowd.count
    if not controller.gone(0.0):
        _check_page(url, controller)
    if not controller.gone(RESUMED_S):
        raise FaultFoundError(f"the run does not end: {controller.stderr[-300:]}")
    attacked.see()
    check_words(controller)
    if controller.status not in {0, 3}:
        raise FaultFoundError(f"it ended with {controller.status}: {controller.stderr[-300:]}")
    if case.counts["most_descriptors"] > _MOST_DESCRIPTORS:
        raise FaultFoundError(f"{case.counts['most_descriptors']} descriptors")
    attacked.check_whole()
    attacked.check_nothing_left("after the run")


def _address(controller: Controller) -> tuple[str, int]:
    """Of the page, once it is there."""
    until = time.monotonic() + stretched_s(RESUMED_S)
    while time.monotonic() < until and not controller.gone(0.05):
        if match := _URL.search(controller.stderr):
            return match[1], int(match[2])
    raise FaultFoundError(f"no live page: {controller.stderr[-300:]}")


def _check_page(url: str, controller: Controller) -> None:
    """Strangers that have gone keep nobody away."""
    try:
        with urllib.request.urlopen(url, timeout=stretched_s(30.0)) as page:
            words = page.read()
    except OSError as error:
        if controller.gone(1.0):
            return
        raise FaultFoundError(f"who has the secret gets no page: {error}") from error
    if b"</html>" not in words:
        raise FaultFoundError("half a page")


def _beside_s(pid: int) -> float:
    """CPU time of the threads beside the first, one of which answers strangers."""
    ticks = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            if int(task.name) != pid:
                fields = (task / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _cases(seed: int) -> Iterable[str]:
    return numbered("crowd", 4)


CAMPAIGN: Final = Campaign(
    name="strangers",
    figure="live page: connections without the secret",
    reach=f"{CONNECTIONS:,} each run; it goes on and ends; who has the secret gets the page",
    cases=_cases,
    play=play,
)
