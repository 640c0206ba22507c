"""Our viewers beside h2load: a pace for each of 2,000 connections, and what that costs.

`h2load --rps` is the only generator in Debian that gives each connection a pace. Both connect
within 0.8 s and then ask for 8 KiB a second on each connection, ten times; they take turns on the
last CPU, with the node on the first, by the ordinary scheduler: what else works on this machine
makes both late. h2load's log has when each request began, and not whose it was: its lateness is
that of the sorted instants beyond the sorted first ones and whole seconds, which is the least that
it can have been. Its node has 8 KiB in all, ours a film of which each request asks for as much.
Memory is that of the processes half way, less that with 10 connections.

What pacing itself must cost is to wake at each instant: `wakes.c` does that and nothing else, as
often as there are requests.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.elastic.viewers import CHUNK, config, cpu_s, nodes, url_of, used_by
from benchmarks.figures import Figure, main, median_interval, needs
from ullage.host import binaries

PACED: Final = 2000
FEW: Final = 10
EACH_TIME: Final = 10
"""Requests of a connection of h2load's."""
WAKES: Final = Path(__file__).with_name("wakes.c")
COMING_S: Final = 0.8
"""Less than a second, so that nobody's second request begins before the last one's first."""


@dataclass(frozen=True)
class Paced:
    """What a pace for each connection cost, and how well it was kept."""

    request_cpu_s: float
    late_s: float
    """The 99 % quantile."""
    rate_error: float | None
    """None: nobody had two requests at their instants, as the machine stood still."""
    memory_bytes: int


def _ours_paced(count: int) -> Paced:
    with nodes(1, realtime=False) as started, TemporaryDirectory() as directory:
        settings = config([url_of(started[0])], count, COMING_S, EACH_TIME - 1)
        settings["shards"] = 1
        # What this machine's other work does to it is to be seen, in ours as in theirs.
        settings["lateness_limit_ms"] = 1e3 * EACH_TIME
        path = Path(directory) / "config.json"
        path.write_text(json.dumps(settings))
        argv = [str(binaries.program("ullage-viewers")), "run", "--config", str(path)]
        memory: list[int] = []
        used, text = used_by(argv, lambda pid: memory.append(_half_way(pid)))
    summary = json.loads(text)
    return Paced(
        cpu_s(used) / summary["requests"],
        float(summary["lateness_s"]["p99"]),
        None if summary["rate_error"] is None else abs(summary["rate_error"]),
        memory[0],
    )


def _theirs_paced(count: int) -> Paced:
    with nodes(1, realtime=False, size=CHUNK) as started, TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        argv = ["h2load", "--h1", "-t1", f"-c{count}", f"-n{EACH_TIME * count}", "--rps=1"]
        argv += [f"--rate={max(1, round(count / COMING_S / 100))}", "--rate-period=10ms"]
        argv += [f"--log-file={log}", url_of(started[0])]
        memory: list[int] = []
        used, text = used_by(argv, lambda pid: memory.append(_half_way(pid)))
        lines = [line.split("\t") for line in log.read_text().splitlines()]
    if len(lines) != EACH_TIME * count or {line[1] for line in lines} != {"200"}:
        raise RuntimeError(f"h2load: {text}")
    late_s, rate_error = pace_of([int(line[0]) / 1e6 for line in lines], count)
    return Paced(cpu_s(used) / len(lines), late_s, rate_error, memory[0])


def _half_way(pid: int) -> int:
    """Resident memory of a process and its children, bytes.

    Not what `wait4` has: that knows the largest that was there before `exec` too, and it is this
    process.
    """
    time.sleep(EACH_TIME / 2)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(map(_resident, [pid, *map(int, children)]))


def _resident(pid: int) -> int:
    line = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert line
    return int(line[1]) * 1024


def pace_of(begun_s: Sequence[float], count: int) -> tuple[float, float]:
    """The least p99 lateness, and the rate error, of requests of so many connections, one a second.

    The first of each must have begun before anybody's second.
    """
    seconds = np.sort(np.asarray(begun_s)).reshape(-1, count)
    late = seconds - seconds[0] - np.arange(len(seconds))[:, None]
    took_s = float(seconds[-1].mean() - seconds[0].mean())
    return float(np.quantile(late[1:], 0.99)), abs((len(seconds) - 1) / took_s - 1)


@needs("h2load", "gcc")
def measure(quick: bool) -> list[Figure]:
    """Pairs, ours and h2load in turns."""
    runs = [(_ours_paced(PACED), _theirs_paced(PACED)) for _ in range(1 if quick else 7)]
    pairs = [pair for pair in runs if pair[0].rate_error is not None]
    if not pairs:
        raise RuntimeError("our viewers had no pace in any round: this machine stood still")
    base = _ours_paced(FEW).memory_bytes, _theirs_paced(FEW).memory_bytes
    many = [(mine.memory_bytes, theirs.memory_bytes) for mine, theirs in pairs]
    memory = [
        tuple((m - few) / (PACED - FEW) for m, few in zip(p, base, strict=True)) for p in many
    ]
    name = f"{PACED:,} connections with a pace"
    return [
        _ratio(f"CPU time of a request, {name}", "s", [_of(p, "request_cpu_s") for p in pairs]),
        _ratio(f"memory of a connection, {name}", "B", [(a, b) for a, b in memory]),
        _ratio(f"p99 lateness, {name}", "s", [_of(p, "late_s") for p in pairs]),
        _ratio(f"rate error, {name}", "1", [_of(p, "rate_error") for p in pairs]),
        _wake(quick),
    ]


def _wake(quick: bool) -> Figure:
    """The CPU time of waking alone."""
    wakes = PACED if quick else PACED * EACH_TIME
    with TemporaryDirectory() as directory:
        program = str(Path(directory) / "wakes")
        subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", program, str(WAKES)], check=True)
        argv = [program, str(10**9 // PACED), str(wakes)]
        seconds = [float(used_by(argv)[1]) for _ in range(1 if quick else 7)]
    interval = median_interval(seconds) if len(seconds) > 5 else None
    return Figure(
        f"CPU time of a wake alone, {PACED:,} a second",
        statistics.median(seconds),
        "s",
        interval.low if interval else None,
        interval.high if interval else None,
        note="what a pace costs without a request",
    )


def _of(pair: tuple[Paced, Paced], name: str) -> tuple[float, float]:
    return getattr(pair[0], name), getattr(pair[1], name)


def _ratio(name: str, unit: str, pairs: Sequence[tuple[float, float]]) -> Figure:
    ratios = [mine / theirs for mine, theirs in pairs]
    interval = median_interval(ratios) if len(ratios) > 5 else None
    mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    return Figure(
        f"{name}, ours / h2load",
        statistics.median(ratios),
        "×",
        interval.low if interval else None,
        interval.high if interval else None,
        peer="h2load",
        peer_value=1.0,
        note=f"medians: {mine:.3g} and {theirs:.3g} {unit}, {len(pairs)} pairs with a pace",
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
