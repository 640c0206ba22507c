"""What a run with a live page loses to the connections of a user who has not the secret.

One run, whose blocks are in turn quiet and flooded (quiet, flooded, flooded, quiet): the ratio of
the seconds of neighbours, so that what the host does meanwhile cancels. And what the controller's
threads beside the first take more, as a share of one CPU: of that a busy host changes little.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, main, mean_interval

CONNECTIONS = 10_000
MOST_SLOWER = 1.02
MOST_SHARE = 0.02
PLAN = """\
name: strangers
baseline: native
image: host
environments: {native: {provider: native}, other: {provider: native}}
workloads: [{name: command, argv: [sh, -c, "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"]}]
"""
FLOOD = """
import select, socket, sys
port, held, came, on = int(sys.argv[1]), [], 0, False
while True:
    if select.select([sys.stdin], [], [], 0 if on else None)[0]:
        word = sys.stdin.readline()
        if not word:
            break
        on = word == "on\\n"
        print(came, flush=True)
    while on and len(held) < 100:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", port))
        held.append(one)
        came += 1
    if on:
        select.select([sys.stdin], [], [], 0.1)
    while held:
        held.pop().close()
"""


@dataclass
class Shares:
    """What the threads beside the first take, as a share of one CPU, when flooded and when not."""

    parts: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})

    def add(self, flooded: bool, cpu_s: float, all_s: float) -> None:
        """A time of either; the first, in which the run begins, counts for nothing."""
        if cpu_s >= 0 and all_s > 0:
            self.parts[flooded].append(cpu_s / all_s)

    @property
    def differences(self) -> list[float]:
        """Flooded less quiet, of neighbours."""
        pairs = zip(self.parts[True], self.parts[False][1:], strict=False)
        return [flooded - quiet for flooded, quiet in pairs]


def measure(quick: bool) -> list[Figure]:
    """`quick`: forty blocks."""
    seconds, came, shares = _run(40 if quick else 400)
    pairs = zip(seconds[::2], seconds[1::2], strict=False)
    ratios = [
        np.log(b / a) if _is_flooded(2 * number + 1) else np.log(a / b)
        for number, (a, b) in enumerate(pairs)
    ]
    ratio, low, high = (None if x is None else float(np.exp(x)) for x in mean_interval(ratios))
    assert ratio is not None
    return [
        Figure(
            "live: blocks that strangers crowd, to without",
            ratio,
            "1",
            low,
            high,
            reach="at most 1.02",
            holds=_holds(low, high),
            note=f"{len(ratios)} pairs",
        ),
        Figure(
            "live: connections without the secret",
            came,
            "1",
            reach=f"at least {CONNECTIONS:,}",
            holds=came >= CONNECTIONS,
        ),
        _taken(shares.differences),
    ]


def _taken(differences: list[float]) -> Figure:
    """More than that no run can lose, whatever else the host does."""
    share, low, high = mean_interval(differences)
    return Figure(
        "live: CPU time that answering them takes, of one CPU",
        share,
        "1",
        low,
        high,
        reach=f"at most {MOST_SHARE}",
        holds=None if high is None else high <= MOST_SHARE,
        note=f"{len(differences)} pairs",
    )


def _holds(low: float | None, high: float | None) -> bool | None:
    """None: the interval has room for both."""
    if low is None or high is None or low <= MOST_SLOWER < high:
        return None
    return high <= MOST_SLOWER


def _is_flooded(block: int) -> bool:
    return block % 4 in (1, 2)


def _run(blocks: int) -> tuple[list[float], int, Shares]:
    """Seconds of each block; how many strangers came; what they took."""
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as work:
        plan, stderr, shares = Path(work, "plan.yaml"), Path(work, "stderr"), Shares()
        plan.write_text(f"{PLAN}blocks: {{min: {blocks}, max: {blocks}}}\n")
        argv = [sys.executable, "-m", "ullage", "run", str(plan)]
        argv += ["--live", "--runs", f"{work}/runs"]
        with (
            stderr.open("w") as messages,
            subprocess.Popen(argv, stderr=messages, stdout=messages) as run,
        ):
            came = _crowd(run, _port(stderr, run), Path(work, "runs"), shares)
        if run.returncode not in (0, 3):
            raise RuntimeError(stderr.read_text()[-2000:])
        return _blocks(Path(work, "runs")), came, shares


def _blocks(runs: Path) -> list[float]:
    """Seconds of those that are done."""
    texts = [file.read_text() for file in runs.glob("*/journal.jsonl")]
    lines = [line for text in texts for line in text.splitlines(keepends=True)]
    return [
        json.loads(line)["seconds"]
        for line in lines
        if line.startswith('{"event":"block"') and line.endswith("\n")
    ]


def _crowd(run: subprocess.Popen[bytes], port: int, runs: Path, shares: Shares) -> int:
    """Strangers come in the blocks that are theirs; how many came."""
    with _strangers(port) as flood:
        came, flooded, done = 0, False, 0
        at_s, cpu_s = time.monotonic(), _beside_s(run.pid)
        while run.poll() is None:
            time.sleep(0.01)
            done = len(_blocks(runs))
            if _is_flooded(done) == flooded:
                continue
            now_s, used_s = time.monotonic(), _beside_s(run.pid)
            shares.add(flooded, used_s - cpu_s, now_s - at_s)
            at_s, cpu_s, flooded = now_s, used_s, not flooded
            came = _turned(flood, flooded)
        return came


def _turned(flood: subprocess.Popen[str], on: bool) -> int:
    """Let them come, or not; how many have come so far."""
    assert flood.stdin is not None and flood.stdout is not None
    flood.stdin.write("on\n" if on else "off\n")
    flood.stdin.flush()
    return int(flood.stdout.readline())


def _port(stderr: Path, run: subprocess.Popen[bytes]) -> int:
    while run.poll() is None:
        if match := re.search(r"live: http://[\d.]+:(\d+)/", stderr.read_text()):
            return int(match[1])
        time.sleep(0.05)
    raise RuntimeError(stderr.read_text()[-2000:])


@contextlib.contextmanager
def _strangers(port: int) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", FLOOD, str(port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as flood:
        try:
            yield flood
        finally:
            flood.kill()


def _beside_s(pid: int) -> float:
    """CPU time of the threads beside the first: one of them answers."""
    ns = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            if int(task.name) != pid:
                ns += int((task / "schedstat").read_text().split()[0])
    return ns / 1e9


if __name__ == "__main__":
    main(measure, __doc__ or "")
