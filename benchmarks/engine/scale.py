"""How `show`, `report`, `query` and `list` grow: with a run's trials, with the runs of a store.

Run folders are made up (`testing/synthetic.py`), with checksums as the engine writes them: twenty
trials a block, of four workloads in five environments. Each command is a process of its own; its
CPU time, of all its threads, and its largest memory are those of `wait4`. The model is a line: so
much to begin with, so much for each trial (run) more. It holds where a trial between the last two
sizes costs what one costs between the first two. What is said of 10⁶ trials and 10⁵ runs is that
line drawn on, through the last two sizes, and no measurement; a journal that grew beyond what is
read back (`ullage/runs/room.py:RECORDS`) ends the run before.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figures import Figure, main
from testing.synthetic import make_run
from ullage.common import sums
from ullage.runs.reader import RunFolder
from ullage.runs.records import JOURNAL, RESOLVED
from ullage.runs.room import RECORDS
from ullage.runs.writer import Journal

TRIALS_PER_BLOCK: Final = 20
BLOCKS: Final = (50, 500, 5_000)
BLOCKS_QUICK: Final = (5, 50, 200)
RUNS: Final = (100, 1_000, 10_000)
RUNS_QUICK: Final = (20, 40, 80)
"""From the twentieth on `list` remembers what it read (`runs/listing.py`)."""
CACHE: Final = "cache"
LISTS: Final = "lists"
"""What `list` keeps, in the cache."""
REMEMBERED: Final = "list of remembered runs"
DISTINCT: Final = 30
"""Runs of a store that are made up one by one; the others are copies of them."""
LIMITS_S: Final = {REMEMBERED: 2.0, "query": 10.0}
"""Of 10,000 runs."""
MOST_GROWTH: Final = 1.5
AT_ONCE: Final = 1000
SQL: Final = "select environment, workload, median(value) from samples group by all"


@dataclass(frozen=True)
class Cost:
    """Of one process."""

    cpu_s: float
    memory_bytes: float


@dataclass(frozen=True)
class Growth:
    """Of a command: what each of several sizes cost."""

    command: str
    unit: str
    """What there are more of: trials."""
    sizes: tuple[int, ...]
    costs: tuple[Cost, ...]

    def one_more(self, last: bool) -> Cost:
        """What one more costs, between the last two sizes or the first two."""
        a, b = (-2, -1) if last else (0, 1)
        more = self.sizes[b] - self.sizes[a]
        cpu_s = (self.costs[b].cpu_s - self.costs[a].cpu_s) / more
        return Cost(cpu_s, (self.costs[b].memory_bytes - self.costs[a].memory_bytes) / more)

    def at(self, size: int) -> Cost:
        """By the line through the last two."""
        slope, more = self.one_more(last=True), size - self.sizes[-1]
        top = self.costs[-1]
        return Cost(top.cpu_s + more * slope.cpu_s, top.memory_bytes + more * slope.memory_bytes)


def cost(*words: str, cache: Path) -> Cost:
    """One `ullage …`, with a cache of its own; RuntimeError if it fails."""
    argv = [sys.executable, "-m", "ullage", *words]
    process = subprocess.Popen(
        argv,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "ULLAGE_CACHE_DIR": str(cache)},
    )
    assert process.stderr is not None
    complaint = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode:
        raise RuntimeError(complaint.decode()[-2000:])
    return Cost(used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss)


def sealed(path: Path, blocks: int, seed: int = 1) -> Path:
    """A made-up run as it is written today: with checksums."""
    folder = RunFolder.open(make_run(path, blocks=blocks, failures=(), raw=False, seed=seed))
    (path / JOURNAL).unlink()
    with Journal(path) as journal:
        journal.resolve(folder.resolved)
        for first in range(0, len(folder.events), AT_ONCE):
            journal.append(*folder.events[first : first + AT_ONCE], wait=False)
    return path


def copy(run: Path, path: Path) -> Path:
    """The same run under another name, without its tables."""
    path.mkdir()
    (path / JOURNAL).write_bytes((run / JOURNAL).read_bytes())
    resolved = RunFolder.open(run).resolved.model_copy(update={"run": path.name})
    (path / RESOLVED).write_bytes(sums.sealed(resolved.model_dump_json(indent=1).encode()))
    return path


def _of_trials(work: Path, blocks: Sequence[int]) -> Iterator[Growth]:
    """A run of ever more trials."""
    costs: dict[str, list[Cost]] = {"show": [], "report": [], "query": []}
    for number in blocks:
        run = str(sealed(work / f"20261120T000000-b{number}", number))
        # In the reader's process, not in ours, is what all of it takes at once.
        page, cache = f"{work}/page.html", work / CACHE
        costs["show"].append(cost("show", "--read-only", run, cache=cache))
        costs["report"].append(cost("report", "--read-only", "--out", page, run, cache=cache))
        costs["query"].append(cost("query", SQL, "--runs", run, cache=cache))
    sizes = tuple(number * TRIALS_PER_BLOCK for number in blocks)
    for command, of_command in costs.items():
        yield Growth(command, "trials", sizes, tuple(of_command))


def _of_runs(work: Path, numbers: Sequence[int]) -> Iterator[Growth]:
    """A store of ever more runs of two blocks; `query` the second time, with all tables there.

    `list` keeps what it read in the cache: once without any, and then with all runs in it.
    """
    costs: dict[str, list[Cost]] = {"list": [], REMEMBERED: [], "query": []}
    store, cache, there = work / "store", work / CACHE, 0
    store.mkdir()
    for number in numbers:
        for seed in range(there, number):
            path = store / f"20261120T000000-r{seed}"
            if seed < DISTINCT:
                sealed(path, 2, seed)
            else:
                copy(store / f"20261120T000000-r{seed % DISTINCT}", path)
        there = number
        cost("query", SQL, "--runs", str(store), cache=cache)
        shutil.rmtree(cache / LISTS, ignore_errors=True)
        costs["list"].append(cost("list", "--runs", str(store), cache=cache))
        costs[REMEMBERED].append(cost("list", "--runs", str(store), cache=cache))
        costs["query"].append(cost("query", SQL, "--runs", str(store), cache=cache))
    for command, of_command in costs.items():
        yield Growth(command, "runs", tuple(numbers), tuple(of_command))


def figures(growth: Growth, far: int, judged: bool) -> Iterator[Figure]:
    """What it cost at the most, one more, whether that grows, and what so many would."""
    name = f"{growth.command}, {growth.sizes[-1]:,} {growth.unit}"
    most, slope, first = growth.costs[-1], growth.one_more(last=True), growth.one_more(last=False)
    limit_s = LIMITS_S.get(growth.command) if growth.sizes[-1] == RUNS[-1] else None
    yield Figure(
        f"{name}: CPU time",
        most.cpu_s,
        "s",
        reach="" if limit_s is None else f"at most {limit_s:g} s",
        holds=None if limit_s is None else most.cpu_s <= limit_s,
    )
    yield Figure(f"{name}: memory", most.memory_bytes, "B")
    ratio = slope.cpu_s / first.cpu_s if first.cpu_s > 0 else float("nan")
    yield Figure(
        f"{growth.command}: CPU time of one of many {growth.unit} ÷ of one of few",
        ratio,
        "×",
        peer=f"{growth.sizes[0]:,} to {growth.sizes[1]:,}",
        peer_value=1.0,
        reach=f"at most {MOST_GROWTH:g}",
        holds=ratio <= MOST_GROWTH if judged else None,
        note=f"{1e6 * slope.cpu_s:.0f} µs and {slope.memory_bytes / 1e3:.1f} kB for each more",
    )
    drawn = growth.at(far)
    yield Figure(
        f"{growth.command}, {far:,} {growth.unit}, drawn on: CPU time",
        drawn.cpu_s,
        "s",
        note=f"not measured; memory {drawn.memory_bytes / 1e9:.1f} GB by the same line",
    )


def measure(quick: bool) -> Iterator[Figure]:
    with TemporaryDirectory(prefix="ullage-bench-", dir="/var/tmp") as directory:
        work = Path(directory)
        for growth in _of_trials(work, BLOCKS_QUICK if quick else BLOCKS):
            yield from figures(growth, 10**6, not quick)
        largest = max(work.glob(f"*/{JOURNAL}"), key=lambda file: file.stat().st_size)
        trials = TRIALS_PER_BLOCK * (BLOCKS_QUICK if quick else BLOCKS)[-1]
        yield Figure(
            "trials in a journal that is read back",
            RECORDS / (largest.stat().st_size / trials),
            "1",
            note=f"{largest.stat().st_size / trials:.0f} B for each of these, {RECORDS:,} B in all;"
            " one with all meters takes twice as much, and more with many instances",
        )
        for growth in _of_runs(work, RUNS_QUICK if quick else RUNS):
            yield from figures(growth, 10**5, not quick)


if __name__ == "__main__":
    main(measure, __doc__ or "")
