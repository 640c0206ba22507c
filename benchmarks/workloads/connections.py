"""Our connection generator beside wrk and httperf: the same requests to the same nginx.

Every connection is a connect, one GET of 16 bytes and a close by the server (`Connection: close`).
nginx runs as one process on the first CPU, the generator on the last; the three take turns in an
order that is drawn anew for each round. Connections per CPU second of the generator, its own time
and the kernel's for it, is the rate that one core could make if the server kept up: it hardly
depends on who else uses this machine. The rate itself does, and is the server's as much as the
generator's: there is no aim for either ratio, they say what the blocking threads of ours cost. wrk
keeps four connections going, and ours against it does so with four threads;
httperf makes one after another, as does ours against that.

Figures are geometric means of the rounds' ratios, ours / theirs, with 95 % t intervals.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, main, needs
from ullage.host import binaries
from ullage.stats.interval import t_interval

ROUND_S = 1
CONNECTIONS = 3000
"""Of httperf, which is not told a time."""
CONFIDENCE = 0.95

NGINX = """\
daemon off;
worker_processes 1;
pid {directory}/pid;
error_log stderr;
events {{ worker_connections 512; }}
http {{
  access_log off;
  keepalive_timeout 0;
  client_body_temp_path {directory}; proxy_temp_path {directory}; fastcgi_temp_path {directory};
  uwsgi_temp_path {directory}; scgi_temp_path {directory};
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "0123456789abcdef"; }} }}
}}
"""


@dataclass(frozen=True)
class Load:
    """What a generator did."""

    connections: int
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.connections / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Connections for each second of CPU time."""
        return self.connections / self.cpu_s


@dataclass(frozen=True)
class Generator:
    """A program that makes connections."""

    argv: Callable[[int], list[str]]
    """Port → command."""
    read: Callable[[str], tuple[int, float]]
    """Its output → connections without error, and seconds."""


def _ours(threads: int) -> Generator:
    def argv(port: int) -> list[str]:
        load = [str(binaries.program("ullage-load")), "connect", f"127.0.0.1:{port}", "--get", "/"]
        return [*load, "--threads", str(threads), "--time", str(ROUND_S)]

    def read(text: str) -> tuple[int, float]:
        report = json.loads(text)
        if report["started"] != report["completed"]:
            raise RuntimeError(f"connections failed: {report['errors']}")
        return int(report["in_time"]), float(report["seconds"])

    return Generator(argv, read)


def _wrk() -> Generator:
    def argv(port: int) -> list[str]:
        load = ["wrk", "-t1", "-c4", f"-d{ROUND_S}", "-H", "Connection: close"]
        return [*load, f"http://127.0.0.1:{port}/"]

    def read(text: str) -> tuple[int, float]:
        summary = re.search(r"(\d+) requests in ([0-9.]+)s,", text)
        if summary is None or "Socket errors" in text or "Non-2xx" in text:
            raise RuntimeError(f"wrk: {text}")
        return int(summary[1]), float(summary[2])

    return Generator(argv, read)


def _httperf() -> Generator:
    def argv(port: int) -> list[str]:
        load = ["httperf", "--server=127.0.0.1", f"--port={port}", "--uri=/"]
        return [*load, f"--num-conns={CONNECTIONS}", "--num-calls=1"]

    def read(text: str) -> tuple[int, float]:
        summary = re.search(r"replies (\d+) test-duration ([0-9.]+) s", text)
        if summary is None or "Errors: total 0 " not in text or f"2xx={CONNECTIONS} " not in text:
            raise RuntimeError(f"httperf: {text}")
        return int(summary[1]), float(summary[2])

    return Generator(argv, read)


GENERATORS = {"ours, 4": _ours(4), "wrk": _wrk(), "ours, 1": _ours(1), "httperf": _httperf()}
PAIRS = (("ours, 4", "wrk"), ("ours, 1", "httperf"))


def run(generator: Generator, port: int) -> Load:
    """Run it once on the last CPU."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "out"
        with path.open("wb") as out:
            argv = ["taskset", "-c", str(max(os.sched_getaffinity(0))), *generator.argv(port)]
            process = subprocess.Popen(argv, stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{argv[3]} ended with {process.returncode}")
        connections, seconds = generator.read(path.read_text())
    return Load(connections, seconds, used.ru_utime + used.ru_stime)


@contextmanager
def server() -> Iterator[int]:
    """nginx with a configuration of its own on a free port of the loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with TemporaryDirectory() as directory:
        conf = Path(directory) / "nginx.conf"
        conf.write_text(NGINX.format(directory=directory, port=port))
        argv = ["taskset", "-c", str(min(os.sched_getaffinity(0))), "nginx"]
        process = subprocess.Popen(
            [*argv, "-p", directory, "-c", str(conf)], stderr=subprocess.DEVNULL
        )
        try:
            _wait_for(port)
            yield port
        finally:
            process.terminate()
            process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("nginx does not listen")


def _figure(
    mine: str, theirs: str, name: str, rounds: list[dict[str, Load]], of: Callable[[Load], float]
) -> Figure:
    ratios = [math.log(of(loads[mine]) / of(loads[theirs])) for loads in rounds]
    interval = t_interval(ratios, CONFIDENCE)
    middle = sorted(of(loads[theirs]) for loads in rounds)[len(rounds) // 2]
    cpu = sorted(loads[mine].cpu_s / loads[mine].connections for loads in rounds)[len(rounds) // 2]
    return Figure(
        f"{name}, ours / {theirs}",
        interval.estimate,
        "×",
        interval.low,
        interval.high,
        peer=theirs,
        peer_value=1.0,
        note=f"{len(rounds)} rounds; {theirs}: {middle:.0f}/s; ours: {cpu * 1e6:.1f} µs of CPU "
        "for each connection",
    )


@needs("wrk", "httperf", "nginx")
def measure(quick: bool) -> list[Figure]:
    """Both ratios, to wrk and to httperf."""
    rng = random.Random(5)
    rounds: list[dict[str, Load]] = []
    with server() as port:
        for _ in range(5 if quick else 30):
            order = list(GENERATORS)
            rng.shuffle(order)
            rounds.append({name: run(GENERATORS[name], port) for name in order})
    return [
        _figure(mine, theirs, quantity, rounds, of)
        for quantity, of in (
            ("connections per CPU second", lambda load: load.per_cpu_second),
            ("connections per second", lambda load: load.rate),
        )
        for mine, theirs in PAIRS
    ]


if __name__ == "__main__":
    main(measure, __doc__ or "")
