"""MPI ping-pong: ours in C, mpi4py's and NetPIPE's, on the same pair of network namespaces.

Open MPI over TCP through a veth pair, each rank on a CPU of its own. In a round each program is run
several times, all in random order; its figure of the round is the quickest of nine means over
REPETITIONS exchanges (NetPIPE reports the quickest of three by itself): what others do on the
machine makes means longer, never shorter. Ratios are taken within rounds; their median stands here
with its order-statistic interval at 90 %, so that «equivalent within 3 %» is two one-sided tests at
5 %. Below 64 KiB the difference is what Python costs: its calls around those of MPI.

How much of it is Python's above that is measured too: ours and mpi4py's run again with MPI's calls
timed from within (`mpi_calls.c`, preloaded), and the part of a message that MPI itself takes is
compared.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, main, median_interval, needs
from ullage.host import binaries
from ullage.workloads.mpi import mpi4py_bench

SIZES: Final = [1 << i for i in range(21)]
EQUAL_FROM: Final = 64 * 1024
MARGIN: Final = 0.03
WARMUPS, REPETITIONS = 40, 5
"""With fewer before 512 KiB, TCP's windows are still growing."""
ADDRESSES: Final = ("10.250.77.1", "10.250.77.2")
RUNS: Final = {"c": 9, "mpi4py": 3, "NetPIPE": 3, "c, calls": 9, "mpi4py, calls": 3}
"""Of mpi4py and NetPIPE each gives three means."""
CALLS: Final = Path(__file__).with_name("mpi_calls.c")

Times = dict[int, float]
"""Bytes → seconds one way."""


@contextlib.contextmanager
def pair(work: Path) -> Iterator[list[str]]:
    """Two namespaces with a cable; yields how `mpirun` is begun, up to the program."""
    names = [f"ullage-bench-{os.getpid()}-{side}" for side in "ab"]
    cpus = sorted(os.sched_getaffinity(0))[:2]
    try:
        for name in names:
            ip("netns", "add", name)
        cable = ("link", "add", "eth0", "netns", names[0], "type", "veth")
        ip(*cable, "peer", "name", "eth0", "netns", names[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", name, "link", "set", device, "up")
        inside = [
            ["ip", "netns", "exec", n, "taskset", "-c", str(cpus[i])] for i, n in enumerate(names)
        ]
        shell = work / "rsh"
        shell.write_text(f'#!/bin/sh\nshift\nexec {" ".join(inside[1])} sh -c "$*"\n')
        shell.chmod(0o755)
        yield [*inside[0], *mpirun(shell)]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def ip(*arguments: str) -> None:
    """One step of iproute2."""
    subprocess.run(["ip", *arguments], check=True)


def mpirun(shell: Path) -> list[str]:
    """One rank in each namespace, TCP between them: as `ullage.workloads.mpi.mpi` does it."""
    settings = {
        "pml": "ob1",
        "btl": "self,tcp",
        "btl_tcp_if_include": "eth0",
        "oob_tcp_if_include": "eth0",
        "plm_rsh_agent": str(shell),
        "mpi_yield_when_idle": "0",
    }
    argv = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    argv += ["-np", "2", "--map-by", "node", "--host", ",".join(f"{a}:1" for a in ADDRESSES)]
    return argv + [part for name, value in settings.items() for part in ("--mca", name, value)]


def c_argv() -> list[str]:
    argv = [str(binaries.program("pingpong", "openmpi")), "--max-bytes", str(SIZES[-1])]
    return [*argv, "--warmups", str(WARMUPS), "--repetitions", str(REPETITIONS)]


def mpi4py_argv(work: Path) -> list[str]:
    """mpi4py's, from its wheel."""
    kinds = ("", "-large", "-huge")
    counts = " ".join(f"--skip{kind} {WARMUPS} --loop{kind} {REPETITIONS}" for kind in kinds)
    argv = ["/usr/bin/python3", "-X", "utf8", mpi4py_bench.__file__, str(work / "mpi4py.whl")]
    return [*argv, "openmpi", *[f"pingpong -a none -n {SIZES[-1]} {counts}"] * 3]


def quickest(means: Iterable[tuple[int, float]]) -> Times:
    """Of several means for each size."""
    times: Times = {}
    for size, seconds in means:
        times[size] = min(seconds, times.get(size, seconds))
    return times


def run_c(begin: list[str], work: Path) -> Times:
    """Ours, as it says itself."""
    text = output(begin, c_argv(), work).stdout
    rows = re.findall(r"^size (\d+) .* mean_ns (\S+)", text, re.MULTILINE)
    return quickest((int(size), float(mean) / 1e9) for size, mean in rows)


def run_mpi4py(begin: list[str], work: Path) -> Times:
    """mpi4py's, as it says itself."""
    text = output(begin, mpi4py_argv(work), work).stdout
    rows = re.findall(r"^ *(\d+) .* \| (\S+) ", text, re.MULTILINE)
    return quickest((int(size), float(mean)) for size, mean in rows)


def within_calls(begin: list[str], argv: list[str], work: Path) -> Times:
    """The same of a program's messages, as far as they are within MPI's calls."""
    preloaded = ["-x", f"LD_PRELOAD={work / 'mpi_calls.so'}", "-x", f"CALLS_SKIP={WARMUPS}"]
    text = output([*begin, *preloaded], argv, work).stderr
    seconds_by_rank: dict[str, list[tuple[int, float]]] = {"0": [], "1": []}
    rows = re.findall(rf"^calls ([01]) (\d+) {REPETITIONS} (\S+)$", text, re.MULTILINE)
    for rank, size, seconds in rows:
        seconds_by_rank[rank].append((int(size), float(seconds)))
    return quickest(
        (size, (whole - between) / 2)
        for (size, whole), (_, between) in zip(
            seconds_by_rank["0"], seconds_by_rank["1"], strict=True
        )
    )


def run_netpipe(begin: list[str], work: Path) -> Times:
    """NetPIPE's; of the sizes that it measures, those that the others have too."""
    table = work / "np.out"
    argv = ["NPopenmpi", "-o", str(table), "-u", str(SIZES[-1])]
    output(begin, [*argv, "-p", "0", "-n", str(REPETITIONS)], work)
    rows = [line.split() for line in table.read_text().splitlines()]
    return {int(size): float(seconds) for size, _, seconds in rows if int(size) in SIZES}


PROGRAMS: Final[dict[str, Callable[[list[str], Path], Times]]] = {
    "c": run_c,
    "mpi4py": run_mpi4py,
    "NetPIPE": run_netpipe,
    "c, calls": lambda begin, work: within_calls(begin, c_argv(), work),
    "mpi4py, calls": lambda begin, work: within_calls(begin, mpi4py_argv(work), work),
}


def output(begin: list[str], argv: list[str], work: Path) -> subprocess.CompletedProcess[str]:
    """What one run prints."""
    return subprocess.run(
        [*begin, *argv], check=True, capture_output=True, text=True, cwd=work, timeout=600
    )


def rounds(count: int, work: Path) -> list[dict[str, Times]]:
    """The quickest mean of each program, by size, in each round."""
    measured = []
    with pair(work) as begin:
        for number in range(count):
            order = [name for name, runs in RUNS.items() for _ in range(runs)]
            random.Random(number).shuffle(order)
            means: dict[str, list[tuple[int, float]]] = {name: [] for name in RUNS}
            for name in order:
                means[name] += PROGRAMS[name](begin, work).items()
            best = {name: quickest(program_times) for name, program_times in means.items()}
            assert all(set(times) == set(SIZES) for times in best.values())
            measured.append(best)
            sys.stderr.write(f"round {number + 1} of {count}\n")
    return measured


def figures(measured: list[dict[str, Times]]) -> list[Figure]:
    """Ratios to ours by size; below EQUAL_FROM Python's cost, above it MPI's part."""
    rows = [ratio(measured, peer, "c", size) for size in SIZES for peer in ("mpi4py", "NetPIPE")]
    for size in SIZES:
        if size < EQUAL_FROM:
            cost = median_interval([times["mpi4py"][size] - times["c"][size] for times in measured])
            rows.append(Figure(f"Python's cost, {size} B", cost.estimate, "s", cost.low, cost.high))
        else:
            rows.append(ratio(measured, "mpi4py, calls", "c, calls", size))
    return rows


def ratio(measured: list[dict[str, Times]], peer: str, mine: str, size: int) -> Figure:
    own = median_interval([times[mine][size] for times in measured]).estimate
    paired = median_interval([times[peer][size] / times[mine][size] for times in measured], 0.90)
    low, high = paired.low or 0.0, paired.high or float("inf")
    judged = size >= EQUAL_FROM
    return Figure(
        f"{peer} ÷ ours, {size} B",
        paired.estimate,
        "1",
        paired.low,
        paired.high,
        reach=f"equivalent within {MARGIN:.0%}" if judged else "",
        holds=low > 1 - MARGIN and high < 1 + MARGIN if judged else None,
        note=f"ours takes {own * 1e6:.2f} µs",
    )


@needs("NPopenmpi", "mpicc.openmpi")
def measure(quick: bool) -> list[Figure]:
    """Run all of them in turn."""
    work = Path(tempfile.mkdtemp(prefix="ullage-bench-"))
    try:
        shutil.copy(binaries.program("mpi4py.whl"), work)
        library = ["-shared", "-fPIC", "-O2", str(CALLS), "-o", str(work / "mpi_calls.so")]
        subprocess.run(["mpicc.openmpi", *library], check=True)
        return figures(rounds(10 if quick else 60, work))
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main(measure, __doc__ or "")
