"""What a run with a live page loses to 10,000 connections of a user who has not the secret.

Pairs of runs, one quiet and one flooded, in turn first: the ratio of the seconds of their blocks.
And what the controller's threads beside the first take more, as a share of one CPU: of that a busy
host changes little.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, main

CONNECTIONS = 10_000
MOST_SLOWER = 1.02
PLAN = """\
name: strangers
baseline: native
image: host
environments: {native: {provider: native}, other: {provider: native}}
workloads: [{name: command, argv: [sh, -c, "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"]}]
"""
FLOOD = """
import socket, sys, time
port, most = int(sys.argv[1]), int(sys.argv[2])
held, done = [], 0
while done < most:
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", port))
    held.append(one)
    done += 1
    if len(held) == 800:
        time.sleep(0.2)
        for other in held[:400]:
            other.close()
        del held[:400]
print(done, flush=True)
time.sleep(600)
"""


def measure(quick: bool) -> list[Figure]:
    """`quick`: two pairs of runs."""
    pairs, ratios, shares = 2 if quick else 8, [], []
    for index in range(pairs):
        seconds: dict[bool, float] = {}
        share: dict[bool, float] = {}
        for flooded in (False, True) if index % 2 else (True, False):
            seconds[flooded], share[flooded] = _run(flooded, 6 if quick else 20)
        shares.append(share[True] - share[False])
        ratios.append(seconds[True] / seconds[False])
    ratio = float(np.exp(np.mean(np.log(ratios))))
    spread = float(np.std(np.log(ratios), ddof=1) / np.sqrt(pairs))
    return [
        Figure(
            f"live: blocks under {CONNECTIONS:,} strangers, to without",
            ratio,
            "1",
            reach="at most 1.02",
            holds=ratio <= MOST_SLOWER,
        ),
        Figure("live: standard error of its logarithm", spread, "1"),
        Figure("live: CPU time that answering them takes, of one CPU", float(np.mean(shares)), "1"),
    ]


def _run(flooded: bool, blocks: int) -> tuple[float, float]:
    """Seconds of the blocks of a run, and the share of a CPU that its live thread took."""
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as work:
        plan, stderr = Path(work, "plan.yaml"), Path(work, "stderr")
        plan.write_text(f"{PLAN}blocks: {{min: {blocks}, max: {blocks}}}\n")
        argv = [
            sys.executable,
            "-m",
            "ullage",
            "run",
            str(plan),
            "--live",
            "--runs",
            f"{work}/runs",
        ]
        with (
            stderr.open("w") as messages,
            subprocess.Popen(argv, stderr=messages, stdout=messages) as run,
        ):
            port = _port(stderr, run)
            began = time.monotonic()
            with _strangers(port) if flooded else contextlib.nullcontext():
                taken = 0.0
                while run.poll() is None:
                    taken = max(taken, _beside_s(run.pid))
                    time.sleep(0.2)
        elapsed_s = time.monotonic() - began
        if run.returncode not in (0, 3):
            raise RuntimeError(stderr.read_text()[-2000:])
        (folder,) = Path(work, "runs").iterdir()
        lines = (folder / "journal.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        return sum(
            event["seconds"] for event in events if event["event"] == "block"
        ), taken / elapsed_s


def _port(stderr: Path, run: subprocess.Popen[bytes]) -> int:
    while run.poll() is None:
        if match := re.search(r"live: http://[\d.]+:(\d+)/", stderr.read_text()):
            return int(match[1])
        time.sleep(0.05)
    raise RuntimeError(stderr.read_text()[-2000:])


@contextlib.contextmanager
def _strangers(port: int) -> Iterator[None]:
    argv = [sys.executable, "-c", FLOOD, str(port), str(CONNECTIONS)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as flood:
        try:
            yield
        finally:
            flood.send_signal(signal.SIGKILL)


def _beside_s(pid: int) -> float:
    """CPU time of the threads beside the first: one of them answers."""
    ticks = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            if int(task.name) != pid:
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(measure, __doc__ or "")
