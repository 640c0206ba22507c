"""The front beside nginx: redirects per second on one core, each decided and logged.

Two ways to ask: over 32 connections that are kept, and with a connection for each request, which
the server closes. In each round the front and nginx (`return 302`, one process, no access log) take
turns in an order that is drawn anew, on the first CPU; wrk, on the last, asks both for the same
addresses, `/watch/N` with a new viewer each time. The front begins each turn with an empty log and
one node that has room for all. A turn counts only if every redirect that wrk saw was decided and is
in the log.

The rate is what came out while others used this machine, too. Redirects per CPU second, user and
kernel time of the server's own threads, are what one core makes that has nothing else to do. Values
and ratios are geometric means over the rounds with 95 % t intervals. An aim holds when the whole
interval is on its side, and does not when none of it is; but a rate that is too low says nothing of
a front that had less than nine tenths of its core: that is neither.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figures import Figure, main, needs
from ullage.host import binaries
from ullage.stats.interval import t_interval

TURN_S: Final = 2
CONNECTIONS: Final = 32
FULL: Final = 0.9
"""Of its core: less, and it was not the front that was slow."""
AIM_HZ: Final = 10_000.0
START_S: Final = 20.0
WAYS: Final = {"kept connections": "keep-alive", "a connection each": "close"}
URL: Final = "http://10.0.0.5:80/clip.mp4"

VIEWERS: Final = """\
local viewer = 0
request = function()
  viewer = viewer + 1
  return wrk.format("GET", "/watch/" .. viewer)
end
"""

NGINX: Final = """\
daemon off;
worker_processes 1;
pid {directory}/pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path {directory}; proxy_temp_path {directory}; fastcgi_temp_path {directory};
  uwsgi_temp_path {directory}; scgi_temp_path {directory};
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 302 {url}; }} }}
}}
"""


@dataclass(frozen=True)
class Turn:
    """What a server did while it was asked."""

    redirects: int
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.redirects / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Redirects for each second of CPU time."""
        return self.redirects / self.cpu_s


@dataclass(frozen=True)
class Server:
    port: int
    pids: tuple[int, ...]
    check: Callable[[int], None]
    """Raises unless so many redirects were made as they should be."""

    def cpu_s(self) -> float:
        """CPU time of its processes so far."""
        tasks = [task for pid in self.pids for task in Path(f"/proc/{pid}/task").iterdir()]
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _on_cpu(cpu: int, *argv: str) -> list[str]:
    return ["taskset", "-c", str(cpu), *argv]


@contextmanager
def _running(argv: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        _on_cpu(min(os.sched_getaffinity(0)), *argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def _front() -> Iterator[Server]:
    """The front with one node, which is made at once."""
    with TemporaryDirectory() as directory:
        log = Path(directory) / "front.jsonl"
        settings = {
            "listen": "127.0.0.1:0",
            "config": {"room": 1_000_000, "min_nodes": 1},
            "policy": {"name": "elastic-movie"},
            "log": str(log),
        }
        config = Path(directory) / "front.json"
        config.write_text(json.dumps(settings))
        argv = [str(binaries.program("ullage-front")), "--config", str(config)]
        with _running(argv) as process:
            assert process.stdin is not None and process.stdout is not None
            port = int(json.loads(process.stdout.readline())["listening"].rsplit(":", 1)[1])
            node = json.loads(process.stdout.readline())["allocate"]
            ready = {"ready": node, "address": "10.0.0.5:80", "url": URL}
            process.stdin.write(json.dumps(ready) + "\n")
            process.stdin.flush()
            _until(lambda: _metric(port, 'nodes{state="ready"}') == 1)
            yield Server(port, (process.pid,), lambda redirects: _logged(port, log, redirects))


def _metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=START_S) as page:
        text = page.read().decode()
    line = re.search(rf"^ullage_front_{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert line is not None
    return float(line[1])


def _logged(port: int, log: Path, redirects: int) -> None:
    """What was under way when wrk stopped was decided, too; one for each connection at most."""
    decided = int(_metric(port, "redirects_total"))
    with log.open("rb") as lines:
        written = sum(b'"redirect"' in line for line in lines)
    if not redirects <= decided <= redirects + 2 * CONNECTIONS or written < redirects:
        raise RuntimeError(f"{redirects} redirects seen, {decided} decided, {written} in the log")


@contextmanager
def _nginx() -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with TemporaryDirectory() as directory:
        conf = Path(directory) / "nginx.conf"
        conf.write_text(NGINX.format(directory=directory, port=port, url=URL))
        argv = ["nginx", "-p", directory, "-c", str(conf)]
        with _running(argv) as process:
            _until(lambda: _redirects(port))
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield Server(port, (process.pid, *map(int, children)), lambda _: None)


def _redirects(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(START_S)
        if probe.connect_ex(("127.0.0.1", port)) != 0:
            return False
        probe.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return probe.recv(1024).startswith(b"HTTP/1.1 302")


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError("the server does not serve")
        time.sleep(0.02)


SERVERS: Final = {"front": _front, "nginx": _nginx}


def turn(name: str, way: str, script: Path) -> Turn:
    """Asks one server one way."""
    with SERVERS[name]() as server:
        wrk = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{TURN_S}", "-s", str(script)]
        argv = [*wrk, "-H", f"Connection: {WAYS[way]}", f"http://127.0.0.1:{server.port}/"]
        before = server.cpu_s()
        last = max(os.sched_getaffinity(0))
        done = subprocess.run(_on_cpu(last, *argv), capture_output=True, text=True, check=True)
        cpu_s = server.cpu_s() - before
        summary = re.search(r"(\d+) requests in ([0-9.]+)s,", done.stdout)
        if summary is None or "Socket errors" in done.stdout or "Non-2xx" in done.stdout:
            raise RuntimeError(f"wrk: {done.stdout}")
        server.check(int(summary[1]))
    return Turn(int(summary[1]), float(summary[2]), cpu_s)


RATE: Final = attrgetter("rate")
PER_CPU_SECOND: Final = attrgetter("per_cpu_second")
Rounds = Sequence[Mapping[tuple[str, str], Turn]]


def _holds(low: float, high: float, limited: bool) -> bool | None:
    if low >= AIM_HZ:
        return True
    return False if high < AIM_HZ and limited else None


def _values(rounds: Rounds, way: str, unit: str, of: Callable[[Turn], float]) -> Figure:
    """The front's own, with the aim; the peer's stands beside it."""
    mine = t_interval([math.log(of(servers["front", way])) for servers in rounds], 0.95)
    theirs = t_interval([math.log(of(servers["nginx", way])) for servers in rounds], 0.95)
    turns = [servers["front", way] for servers in rounds]
    share = sum(turn.cpu_s for turn in turns) / sum(turn.seconds for turn in turns)
    cost = sum(turn.cpu_s for turn in turns) / sum(turn.redirects for turn in turns)
    return Figure(
        f"front, {way}: redirects per {unit}",
        mine.estimate,
        "1/s",
        mine.low,
        mine.high,
        peer="nginx",
        peer_value=theirs.estimate,
        reach=f"at least {AIM_HZ:g}",
        holds=_holds(mine.low, mine.high, share >= FULL or of is PER_CPU_SECOND),
        note=f"{len(rounds)} rounds; {cost * 1e6:.2f} µs of CPU for each redirect; "
        f"it had {share:.0%} of its core",
    )


def _ratio(rounds: Rounds, way: str, unit: str, of: Callable[[Turn], float]) -> Figure:
    logs = [math.log(of(servers["front", way]) / of(servers["nginx", way])) for servers in rounds]
    interval = t_interval(logs, 0.95)
    return Figure(
        f"front / nginx, {way}: redirects per {unit}",
        interval.estimate,
        "×",
        interval.low,
        interval.high,
        peer="nginx",
        peer_value=1.0,
    )


@needs("wrk", "nginx")
def measure(quick: bool) -> list[Figure]:
    """Rates and ratios, both ways."""
    rng = random.Random(6)
    rounds: list[dict[tuple[str, str], Turn]] = []
    with TemporaryDirectory() as directory:
        script = Path(directory) / "viewers.lua"
        script.write_text(VIEWERS)
        for _ in range(5 if quick else 30):
            order = [(name, way) for name in SERVERS for way in WAYS]
            rng.shuffle(order)
            rounds.append({(name, way): turn(name, way, script) for name, way in order})
    figures = []
    for way in WAYS:
        for unit, of in (("second", RATE), ("CPU second", PER_CPU_SECOND)):
            figures += [_values(rounds, way, unit, of), _ratio(rounds, way, unit, of)]
    return figures


if __name__ == "__main__":
    main(measure, __doc__ or "")
