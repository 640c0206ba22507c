"""Our load generator at 10,000 requests/s beside h2load and httperf, and with a server that stops.

Send lateness is seen from the server's side, the same for all: `arrivals.c` keeps the kernel's
stamp of each request, which is taken as the generator sends it. The schedule that fits is that
whose earliest request is on time; lateness is what the others are behind theirs. h2load paces each
connection by itself, so each has a schedule of its own. The three take turns in an order that is
drawn anew for each round. Figures are geometric means of the rounds' ratios, ours / theirs, with
95 % t intervals.

Then the server is stopped for 1 s of 5. Of requests at a steady rate a tenth waits for 0.5 s at
least, and one in a hundred for 0.95 s; a generator that waits itself does not see them
("coordinated omission").
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.figures import Figure, main, needs
from ullage.host import binaries
from ullage.stats.interval import t_interval

RATE: Final = 10_000
ROUND_S: Final = 2
CONNECTIONS: Final = 16
STOPPED_S: Final = 1.0
BEFORE_S: Final = 2.0
WHOLE_S: Final = 5
CONFIDENCE: Final = 0.95
SOURCE: Final = Path(__file__).with_name("arrivals.c")
DUE_S: Final[Mapping[float, float]] = {
    share: STOPPED_S - (1 - share) * WHOLE_S for share in (0.9, 0.99)
}
"""So long waits at least what is at this quantile."""


class Server:
    """`arrivals.c`, on the first CPU."""

    def __init__(self, work: Path) -> None:
        self._program = work / "arrivals"
        self._file = work / "arrivals.bin"
        command = ["gcc", "-O2", "-Wall", "-Werror", "-o", str(self._program), str(SOURCE)]
        subprocess.run(command, check=True)

    @contextmanager
    def serving(self) -> Iterator[tuple[subprocess.Popen[str], int]]:
        """Its process and its port."""
        argv = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
        argv += [str(self._program), str(self._file)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process, int(process.stdout.readline())
            finally:
                process.terminate()
        if process.returncode:
            raise RuntimeError(f"the server ended with {process.returncode}")

    def arrivals(self) -> tuple[np.ndarray, np.ndarray]:
        """Instants in seconds since the first, and connections, once it has ended."""
        numbers = np.fromfile(self._file, dtype=np.uint64).reshape(-1, 2)
        return (numbers[:, 0] - numbers[:, 0].min()) / 1e9, numbers[:, 1]


def ours(port: int, seconds: int) -> list[str]:
    program = str(binaries.program("ullage-load"))
    load = [program, "http", f"127.0.0.1:{port}", "--path", "/", "--spacing", "constant"]
    return [*load, f"--rate={RATE}", f"--time={seconds}", f"--connections={CONNECTIONS}"]


def h2load(port: int, seconds: int, *more: str) -> list[str]:
    load = ["h2load", "--h1", "-t1", f"-c{CONNECTIONS}", f"-D{seconds}", *more]
    return [*load, f"http://127.0.0.1:{port}/"]


def paced(port: int, seconds: int) -> list[str]:
    return h2load(port, seconds, f"--rps={RATE // CONNECTIONS}")


def httperf(port: int, seconds: int) -> list[str]:
    """A connection for each request: it has no other open loop."""
    load = ["httperf", "--server=127.0.0.1", f"--port={port}", "--uri=/", "--num-calls=1"]
    return [*load, f"--rate={RATE}", f"--num-conns={RATE * seconds}"]


GENERATORS: Final = {"ours": ours, "h2load --rps": paced, "httperf --rate": httperf}


def run(argv: Sequence[str]) -> str:
    """On the last CPU; what it printed."""
    pinned = ["taskset", "-c", str(max(os.sched_getaffinity(0))), *argv]
    return subprocess.run(pinned, check=True, capture_output=True, text=True).stdout


def lateness(instants: np.ndarray, gap_s: float) -> np.ndarray:
    """Seconds behind the schedule that fits."""
    behind: np.ndarray = np.sort(instants) - np.arange(len(instants)) * gap_s
    behind -= behind.min()
    return behind


def turn(server: Server, name: str) -> tuple[float, float]:
    """The median of a generator's lateness, and what a hundredth of its requests exceed."""
    with server.serving() as (_, port):
        run(GENERATORS[name](port, ROUND_S))
    instants, connections = server.arrivals()
    if len(instants) < RATE * ROUND_S * 0.9:
        raise RuntimeError(f"{name} made {len(instants)} of {RATE * ROUND_S} requests")
    if name == "h2load --rps":
        gap_s = CONNECTIONS / RATE
        parts = [
            lateness(instants[connections == number], gap_s) for number in np.unique(connections)
        ]
        late = np.concatenate(parts)
    else:
        late = lateness(instants, 1 / RATE)
    return float(np.quantile(late, 0.5)), float(np.quantile(late, 0.99))


def latenesses(server: Server, rounds: int) -> Iterator[Figure]:
    """Ratios of both quantiles to both peers."""
    rng = random.Random(7)
    seen: list[dict[str, tuple[float, float]]] = []
    for _ in range(rounds):
        order = list(GENERATORS)
        rng.shuffle(order)
        seen.append({name: turn(server, name) for name in order})
    for peer in ("h2load --rps", "httperf --rate"):
        for place, quantile in enumerate(("median", "99 %")):
            ratios = [math.log(one["ours"][place] / one[peer][place]) for one in seen]
            interval = t_interval(ratios, CONFIDENCE)
            mine, theirs = (
                float(np.median([one[name][place] for one in seen])) * 1e6
                for name in ("ours", peer)
            )
            yield Figure(
                f"send lateness at {RATE:,}/s, {quantile}, ours / {peer}",
                interval.estimate,
                "×",
                interval.low,
                interval.high,
                peer=peer,
                peer_value=1.0,
                note=f"{len(seen)} rounds; ours {mine:.0f} µs, {peer} {theirs:.0f} µs",
            )


def stopped(server: Server, command: Callable[[int], list[str]]) -> str:
    """What a generator prints whose server stood still for a while."""
    with server.serving() as (process, port):
        pinned = ["taskset", "-c", str(max(os.sched_getaffinity(0))), *command(port)]
        with subprocess.Popen(pinned, stdout=subprocess.PIPE, text=True) as load:
            time.sleep(BEFORE_S)
            process.send_signal(signal.SIGSTOP)
            try:
                time.sleep(STOPPED_S)
            finally:
                process.send_signal(signal.SIGCONT)
            printed, _ = load.communicate()
        if load.returncode:
            raise RuntimeError(f"{pinned[3]} ended with {load.returncode}")
    return printed


def omissions(server: Server, work: Path) -> Iterator[Figure]:
    """Both quantiles of the latency beside those of each peer."""
    log = work / "h2load.log"
    mine = dict(json.loads(stopped(server, lambda port: ours(port, WHOLE_S)))["quantiles"])
    peers = {"wrk, closed loop": _of_wrk(stopped(server, _wrk))}
    peers["h2load, closed loop"] = _of_h2load(server, log)
    peers["h2load --rps"] = _of_h2load(server, log, f"--rps={RATE // CONNECTIONS}")
    for name, theirs in peers.items():
        for share, due_s in DUE_S.items():
            yield Figure(
                f"latency, {share:.0%}, server stopped for 1 s of {WHOLE_S}",
                mine[share],
                "s",
                peer=name,
                peer_value=theirs[share],
                reach=f"at least {due_s:.2f} s",
                holds=mine[share] >= due_s,
            )


def _of_h2load(server: Server, log: Path, *more: str) -> dict[float, float]:
    log.unlink(missing_ok=True)
    stopped(server, lambda port: h2load(port, WHOLE_S, f"--log-file={log}", *more))
    times = np.loadtxt(log, usecols=2) / 1e6
    return {share: float(np.quantile(times, share)) for share in DUE_S}


def _wrk(port: int) -> list[str]:
    load = ["wrk", "-t1", "-c4", f"-d{WHOLE_S}s", "--latency"]
    return [*load, f"http://127.0.0.1:{port}/"]


def _of_wrk(text: str) -> dict[float, float]:
    """Its distribution, `99%    2.44ms`."""
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    lines = re.findall(r"^ +(\d+)% +([\d.]+)(us|ms|s)$", text, re.MULTILINE)
    return {int(share) / 100: float(value) * units[unit] for share, value, unit in lines}


@needs("gcc", "h2load", "httperf", "wrk")
def measure(quick: bool) -> Iterator[Figure]:
    """Lateness, then omission."""
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as name:
        work = Path(name)
        server = Server(work)
        yield from latenesses(server, 3 if quick else 15)
        yield from omissions(server, work)


if __name__ == "__main__":
    main(measure, __doc__ or "")
