"""Our viewers over the loopback: how many one core paces, how exactly, and what each costs.

Viewers run on the last CPU, the nodes that they watch on the first: `ullage-viewers node`,
as many as the limit of descriptors makes necessary. *Plain* is the ordinary scheduler, *realtime*
is `SCHED_FIFO` for both sides: on a machine that others use, the first measures the others too.

* Lateness is that of every send and every arrival that was due at an instant.
* The rate error is of the requests, from each viewer's first that was due at an instant to its
  last: n requests make n - 1 intervals. A rate over a window that is not a whole number of chunk
  periods counts an edge instead (with 2.5 periods, up to a fifth), which is no error of pacing;
  nor is what a process sends after the run's end, while others on its core take down theirs.
* Kernel memory is what slab and socket buffers grow by, of both ends of each connection, as both
  are here.
* wrk has no pace: it is CPU time for each request, ours / theirs, of the same 8 KiB from the same
  node. httperf is the peer of the number of viewers: of the 4,000 that are asked of it, it keeps as
  many waiting at a stalled node as it has descriptors for.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any
from urllib.parse import urlsplit

from benchmarks.figures import Figure, main, median_interval, none
from ullage.host import binaries
from ullage.stats.quantiles import Quantile

CHUNK = 8192
MANY = 100_000
MORE = 300_000
"""Asked for once `MANY` are served without a violation; not by `--quick`."""
ARRIVING_HZ = 4000
ONE_PROCESS = 19_000
EACH_NODE = 18_000
"""Viewers of a node, below its 20,000 descriptors."""
ASKED_OF_HTTPERF = 4000
LATE_S = 2e-4
RATE_ERROR = 1e-3
STALLED = 2000
SLOWER = 1.01


@dataclass(frozen=True)
class ViewersRun:
    """A run's summary, and the kernel's memory for each viewer while all were there."""

    summary: Mapping[str, Any]
    kernel_bytes: float

    @property
    def late_s(self) -> float:
        """99 % of what was due at an instant was sent at most so late."""
        return float(self.summary["lateness_s"]["p99"])

    @property
    def invalid(self) -> str:
        """Why the generator says that its run is worth nothing; empty: it is valid."""
        return "" if self.summary["valid"] else "; ".join(self.summary["why"])

    @property
    def broken(self) -> int:
        """Viewers with a violation, or that were not served."""
        summary = self.summary
        return int(summary["violations"]["viewers"] + summary["outcomes"]["failed"])


@contextmanager
def nodes(
    count: int, *, realtime: bool, size: int = 1 << 30
) -> Iterator[list[subprocess.Popen[str]]]:
    """Nodes on the first CPU."""
    argv = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    argv += ["chrt", "-f", "1"] if realtime else []
    argv += [str(binaries.program("ullage-viewers")), "node", "--bytes", str(size)]
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            pipe = subprocess.PIPE
            node = stack.enter_context(subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True))
            stack.callback(node.kill)
            started.append(node)
        yield started


def url_of(node: subprocess.Popen[str]) -> str:
    """Of a node that has just been started."""
    assert node.stdout is not None
    return f"http://{json.loads(node.stdout.readline())['listening']}/clip"


def config(urls: list[str], count: int, ramp_s: float, hold_s: float) -> dict[str, Any]:
    """Viewers who come within the ramp and all watch for the rest: a chunk in 4 s, or in 1 s."""
    period_s = 4 if count > ONE_PROCESS else 1
    return {
        "nodes": urls,
        "arrivals": {"kind": "uniform", "rate_hz": count / ramp_s, "count": count},
        "video": {"bytes": 1 << 30, "bitrate_bps": CHUNK * 8 // period_s, "chunk_bytes": CHUNK},
        "playback": {"buffer_s": 2.0 * period_s},
        "limits": {"run_s": ramp_s + hold_s, "connect_s": 30},
        "timing": {"cpus": [max(os.sched_getaffinity(0))]},
    }


def watch(settings: dict[str, Any]) -> ViewersRun:
    """One run; the kernel's memory is read in the middle of the time that all watch."""
    count, run_s = settings["arrivals"]["count"], settings["limits"]["run_s"]
    ramp_s = count / settings["arrivals"]["rate_hz"]
    with TemporaryDirectory() as directory:
        path = Path(directory) / "config.json"
        path.write_text(json.dumps(settings))
        before = _kernel_bytes()
        argv = [str(binaries.program("ullage-viewers")), "run", "--config", str(path)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            time.sleep((ramp_s + run_s) / 2)
            grown = _kernel_bytes() - before
            out, _ = process.communicate()
    if process.returncode not in (0, 1):
        raise RuntimeError(f"ullage-viewers ended with {process.returncode}")
    return ViewersRun(json.loads(out), grown / count)


def _kernel_bytes() -> int:
    slab = re.search(r"^Slab:\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    pages = re.search(r"^TCP: .* mem (\d+)$", Path("/proc/net/sockstat").read_text(), re.MULTILINE)
    assert slab and pages
    return int(slab[1]) * 1024 + int(pages[1]) * os.sysconf("SC_PAGE_SIZE")


def _crowd(count: int, hold_s: float) -> ViewersRun:
    """So many at once, under the real-time scheduler."""
    with nodes(-(-count // EACH_NODE), realtime=True) as started:
        urls = [url_of(node) for node in started]
        settings = config(urls, count, count / ARRIVING_HZ, hold_s)
        settings["timing"]["realtime"] = True
        return watch(settings)


def _account(ran: ViewersRun) -> str:
    summary = ran.summary
    return (
        f"{f'invalid: {ran.invalid}; ' if ran.invalid else ''}{summary['shards']} processes, "
        f"realtime; {ran.broken} with a violation or not "
        f"served; {summary['requests'] / summary['seconds']:.0f} requests/s, "
        f"{100 * summary['cpu_share']:.0f} % of the core; p99 lateness {1e3 * ran.late_s:.2f} ms"
    )


def at_once(
    ran: ViewersRun, peer: int | None, more: Callable[[], ViewersRun] | None = None
) -> Figure:
    """How many one core paces: of `more`, asked for where the first held, if that run is valid."""
    playing = ran.summary["most_playing"]
    holds = None if ran.invalid else playing >= MANY and ran.broken == 0
    note = _account(ran)
    if holds and more is not None:
        try:
            further = more()
            if not further.invalid:  # who had a violation is not counted as paced
                playing = max(0, further.summary["most_playing"] - further.broken)
            note = f"{MORE:,} asked for: {_account(further)}; {MANY:,} asked for: {note}"
        except RuntimeError as error:
            note = f"{MORE:,} asked for: {error}; {MANY:,} asked for: {note}"
    return Figure(
        "paced viewers at once on one core",
        playing,
        "1",
        peer="httperf" if peer else "httperf (not installed)",
        peer_value=peer,
        reach="at least 100,000, none with a violation",
        holds=holds,
        note=note,
    )


def _many(quick: bool) -> list[Figure]:
    hold_s = 20.0 if quick else 60.0
    ran = _crowd(MANY, hold_s)
    summary = ran.summary
    error = abs(summary["rate_error"])
    invalid = f"invalid: {ran.invalid}; " if ran.invalid else ""
    return [
        at_once(ran, _httperf_at_once(), None if quick else lambda: _crowd(MORE, hold_s)),
        Figure(
            f"rate error of {MANY:,} viewers",
            error,
            "1",
            reach="at most 0.001",
            holds=None if invalid else error <= RATE_ERROR,
            note=f"{invalid}as delivered, with the nodes' part: {summary['delivered_error']:.2g}",
        ),
        Figure(
            "memory of a viewer", summary["memory"]["per_viewer_bytes"], "B", note="its process's"
        ),
        Figure(
            "kernel memory of a viewer",
            ran.kernel_bytes,
            "B",
            note="slab and socket buffers, both ends of its connection",
        ),
    ]


def _httperf_at_once() -> int | None:
    """Connections that httperf has at once, when nobody answers; None: it is not installed."""
    if shutil.which("httperf") is None:
        return None
    argv = ["taskset", "-c", str(max(os.sched_getaffinity(0))), "httperf", "--timeout=4"]
    argv += [f"--num-conns={ASKED_OF_HTTPERF}", f"--rate={ASKED_OF_HTTPERF // 2}", "--uri=/clip"]
    with nodes(1, realtime=False) as started:
        where = urlsplit(url_of(started[0]))
        started[0].send_signal(signal.SIGSTOP)
        argv += [f"--server={where.hostname}", f"--port={where.port}"]
        text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    most = re.search(r"<=(\d+) concurrent connections", text)
    if most is None:
        raise RuntimeError(f"httperf: {text}")
    return int(most[1])


def _exact(quick: bool) -> list[Figure]:
    """Interleaved: both schedulers, and waiting in a loop instead of sleeping."""
    ways: dict[str, dict[str, Any]] = {
        "plain": {"tick_us": 20},
        "realtime": {"tick_us": 20, "realtime": True},
        "realtime, 50 µs ticks": {"tick_us": 50, "realtime": True},
        "realtime, spinning": {"tick_us": 20, "realtime": True, "spin_us": 100},
    }
    late: dict[str, list[float]] = {way: [] for way in ways}
    used: dict[str, list[float]] = {way: [] for way in ways}
    invalid = dict.fromkeys(ways, 0)
    for _ in range(1 if quick else 7):
        for way, timing in ways.items():
            with nodes(2, realtime="realtime" in timing) as started:
                settings = config([url_of(node) for node in started], ONE_PROCESS, 5, 10)
                settings["shards"] = 1
                settings["timing"] |= timing
                ran = watch(settings)
            late[way].append(ran.late_s)
            used[way].append(ran.summary["cpu_share"])
            invalid[way] += bool(ran.invalid)
    return [_lateness(way, late[way], used[way], invalid[way]) for way in ways]


def _lateness(way: str, late: list[float], used: list[float], invalid: int) -> Figure:
    """What was late counts, however late it was; such runs are told, as they have no other use."""
    middle = statistics.median(late)
    interval = median_interval(late) if len(late) > 5 else None
    return Figure(
        f"p99 lateness of {ONE_PROCESS:,} viewers in a process, {way}",
        middle,
        "s",
        interval.low if interval else None,
        interval.high if interval else None,
        reach="at most 0.0002 s, by the median",
        holds=middle <= LATE_S if interval else None,
        note=f"{100 * statistics.median(used):.0f} % of the core; {len(late)} runs, "
        f"{invalid} of them invalid by the generator's own limit",
    )


def _begun(stalled: bool) -> float:
    """How much longer the arrivals took than they were due to take, as a ratio."""
    with nodes(1, realtime=False) as started, TemporaryDirectory() as directory:
        settings = config([url_of(started[0])], STALLED, 2, 1)
        settings["sessions"] = str(Path(directory) / "sessions.jsonl")
        if stalled:
            started[0].send_signal(signal.SIGSTOP)
        watch(settings)
        lines = Path(settings["sessions"]).read_text().splitlines()
    records = sorted((json.loads(line) for line in lines), key=lambda viewer: viewer["client"])
    if len(records) != STALLED:
        raise RuntimeError(f"{len(records)} of {STALLED} viewers came")
    requested, due = (records[-1][name] - records[0][name] for name in ("asked_ns", "due_ns"))
    return float(requested / due)


def _at_most(interval: Quantile | None, aim: float) -> bool | None:
    """None: the interval is on both sides, or one run has none."""
    if interval is None or interval.low is None or interval.high is None:
        return None
    return True if interval.high <= aim else False if interval.low > aim else None


def _stalled(quick: bool) -> Figure:
    ratios = [_begun(True) / _begun(False) for _ in range(1 if quick else 7)]
    interval = median_interval(ratios) if len(ratios) > 5 else None
    middle = statistics.median(ratios)
    return Figure(
        "time that arrivals take at a stalled node / at one that answers",
        middle,
        "×",
        interval.low if interval else None,
        interval.high if interval else None,
        reach=f"at most {SLOWER:g}",
        holds=_at_most(interval, SLOWER),
        note=f"{STALLED:,} viewers at 1,000/s; a closed loop would stop at its first connections",
    )


def _beside_wrk(quick: bool) -> Figure:
    """CPU time of a request, ours / wrk's, in turns at the same node."""
    name = "CPU time of a request, ours / wrk"
    if shutil.which("wrk") is None:
        return none(name, "×", "not installed: wrk")
    ratios, theirs = [], []
    for _ in range(1 if quick else 7):
        with nodes(1, realtime=False) as started:
            url = url_of(started[0])
            ran = watch(config([url], 10_000, 4, 6))
            mine = ran.summary["cpu_s"] / ran.summary["requests"]
            theirs.append(_wrk(url))
        ratios.append(mine / theirs[-1])
    interval = median_interval(ratios) if len(ratios) > 5 else None
    return Figure(
        name,
        statistics.median(ratios),
        "×",
        interval.low if interval else None,
        interval.high if interval else None,
        peer="wrk",
        peer_value=1.0,
        note=f"wrk: {1e6 * statistics.median(theirs):.1f} µs, 100 connections, as fast as it can; "
        "ours: 10,000 viewers at their rate, with connecting",
    )


def _wrk(url: str) -> float:
    argv = ["wrk", "-t1", "-c100", "-d4", "-H", f"Range: bytes=0-{CHUNK - 1}", url]
    used, text = used_by(argv)
    count = re.search(r"(\d+) requests in ", text)
    if count is None or "Non-2xx" in text:
        raise RuntimeError(f"wrk: {text}")
    return cpu_s(used) / int(count[1])


def used_by(
    argv: list[str], look: Callable[[int], object] = lambda _: None
) -> tuple[resource.struct_rusage, str]:
    """What a program used on the last CPU, and what it printed; `look` has its id meanwhile."""
    with TemporaryFile("w+") as out:
        on_last = ["taskset", "-c", str(max(os.sched_getaffinity(0))), *argv]
        process = subprocess.Popen(on_last, stdout=out)
        look(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if process.returncode:
        raise RuntimeError(f"{argv[0]} ended with {process.returncode}: {text}")
    return used, text


def cpu_s(used: resource.struct_rusage) -> float:
    """The program's and the kernel's for it."""
    return used.ru_utime + used.ru_stime


def measure(quick: bool) -> Iterator[Figure]:
    """Needs root, for realtime, and wrk."""
    yield from _many(quick)
    yield from _exact(quick)
    yield _stalled(quick)
    yield _beside_wrk(quick)


if __name__ == "__main__":
    main(measure, __doc__ or "")
