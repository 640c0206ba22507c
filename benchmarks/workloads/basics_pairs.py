"""`ullage-basics` beside sysbench 1.0.20: what the same work costs, for each of the five tests.

Each round runs both, twice each, in an order that is drawn anew, on one CPU: once with the work and
once with next to none. The difference of the two CPU times is what the work costs; wall time would
be that of whoever else uses this machine. The work takes a quarter of a second: what of a start
does not cancel, up to 1 ms, was 1.5 % of a quarter of that. Both are in a control group of their
own, so that a yield of `threads` is not the other programs' turn, which would be milliseconds. A
figure is the median of the rounds' ratios, ours / sysbench's, with its 90 % interval: inside 0.98
to 1.02 the two are equivalent.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.figures import Figure, main, median_interval, needs
from ullage.host import binaries
from ullage.host.cgroups import Group, Limits

CONFIDENCE = 0.90
MARGIN = 0.02
FILES = ("--file-num=16", "--file-total-size=1M", "--file-test-mode=rndrd", "--rand-seed=1")


@dataclass(frozen=True)
class Test:
    """The same work as both ask for it; `{}` is how much."""

    ours: tuple[str, ...]
    sysbench: tuple[str, ...]
    work: int

    def argv(self, program: str, amount: int) -> list[str]:
        if program == "ours":
            own = str(binaries.program("ullage-basics"))
            return [own, *(word.format(amount) for word in self.ours)]
        return ["sysbench", *(word.format(amount) for word in self.sysbench), "run"]


TESTS = {
    "cpu": Test(("--events={}", "cpu"), ("cpu", "--time=0", "--events={}"), 600),
    "memory": Test(
        ("--events={}", "memory"),
        ("memory", "--time=0", "--memory-total-size={}K"),
        1_600_000,
    ),
    "threads": Test(
        ("--events=1", "threads", "--yields={}"),
        ("threads", "--time=0", "--events=1", "--thread-yields={}"),
        400_000,
    ),
    "mutex": Test(("mutex", "--locks={}"), ("mutex", "--time=0", "--mutex-locks={}"), 80_000),
    "fileio": Test(
        ("--events={}", "fileio", "--total=1048576"),
        ("fileio", "--time=0", "--events={}", *FILES),
        320_000,
    ),
}


@contextmanager
def _apart() -> Iterator[Callable[[], None]]:
    """A control group on the last CPU; what is called in a new process puts it there."""
    # It is never more than one CPU that one CPU gives: the quota only asks for the controller.
    limits = Limits(cpu_ids=(max(os.sched_getaffinity(0)),), cpu_quota=1.0)
    group = Group.create(f"u{secrets.token_hex(4)[:7]}", "basics-0", limits)

    def enter() -> None:
        for directory in group.directories:
            (directory / "cgroup.procs").write_text("0", encoding="ascii")

    try:
        yield enter
    finally:
        asyncio.run(group.remove())


def _cpu_time(argv: Sequence[str], directory: str, enter: Callable[[], None]) -> float:
    """Seconds that it took of a CPU, in the system too."""
    process = subprocess.Popen(
        argv,
        cwd=directory,
        stdout=subprocess.DEVNULL,
        preexec_fn=enter,  # noqa: PLW1509 - no thread
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _round(
    test: Test, rng: random.Random, directories: Mapping[str, str], enter: Callable[[], None]
) -> dict[str, float]:
    """Program → what the work costs it."""
    runs = [(program, amount) for program in directories for amount in (1, test.work)]
    rng.shuffle(runs)
    times = {
        (program, amount): _cpu_time(test.argv(program, amount), directories[program], enter)
        for program, amount in runs
    }
    return {program: times[program, test.work] - times[program, 1] for program in directories}


def _figure(name: str, rounds: int, rng: random.Random, enter: Callable[[], None]) -> Figure:
    test = TESTS[name]
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as sysbench:
        if name == "fileio":  # ours makes its files, and removes them, itself
            prepare = ["sysbench", "fileio", *FILES, "prepare"]
            subprocess.run(prepare, cwd=sysbench, check=True, stdout=subprocess.DEVNULL)
        directories = {"ours": ours, "sysbench": sysbench}
        costs = [_round(test, rng, directories, enter) for _ in range(rounds)]
    ratios = [math.log(cost["ours"] / cost["sysbench"]) for cost in costs]
    theirs = sorted(cost["sysbench"] for cost in costs)
    interval = median_interval(ratios, CONFIDENCE)
    low, high = (
        None if bound is None else math.exp(bound) for bound in (interval.low, interval.high)
    )
    return Figure(
        f"{name}, CPU time of the same work, ullage-basics / sysbench",
        math.exp(interval.estimate),
        "×",
        low,
        high,
        peer="sysbench 1.0.20",
        peer_value=1.0,
        reach="90 % interval inside 0.98 to 1.02",
        holds=low is not None and high is not None and low > 1 - MARGIN and high < 1 + MARGIN,
        note=f"{rounds} rounds; sysbench: {theirs[len(theirs) // 2] * 1e3:.0f} ms",
    )


@needs("sysbench")
def measure(quick: bool) -> Iterator[Figure]:
    """A ratio for each test."""
    rng = random.Random(11)
    with _apart() as enter:
        for name in TESTS:
            yield _figure(name, 10 if quick else 100, rng, enter)


if __name__ == "__main__":
    main(measure, __doc__ or "")
