"""CPU time of commands that should answer at once, each beside what its libraries cost to import.

`ullage --help` beside `import typer, rich`; `ullage show` of a run of the demo's size and `ullage
compare` of a table of 90 rows beside `import numpy, scipy.stats, pyarrow.parquet`. The figure is
the median of ratios of user and system time, of processes that are started one after the other: on
a shared machine both are slowed, and their ratio stays.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.figures import Figure, main, median_interval
from testing.synthetic import make_run

MOST: Final = 2.0
PAIRS: Final = 31
QUICK_PAIRS: Final = 11
TERMINAL: Final = "import typer, rich"
ANALYSIS: Final = "import numpy, scipy.stats, pyarrow.parquet"


def measure(quick: bool) -> Iterator[Figure]:
    """A row for each command: its CPU time as a multiple of its peer's."""
    pairs = QUICK_PAIRS if quick else PAIRS
    yield _figure(("--help",), TERMINAL, pairs)
    with TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", failures=(), blocks=20)
        yield _figure(("show", str(run)), ANALYSIS, pairs)
        table = Path(folder) / "times.csv"
        write(table)
        options = ("--baseline", "native", "--better", "lower")
        yield _figure(("compare", str(table), *options), ANALYSIS, pairs)


def write(file: Path) -> None:
    """Ten blocks of three workloads in three environments: 90 rows."""
    rng = np.random.default_rng(18)
    with file.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(("environment", "workload", "block", "value"))
        for workload in ("cpu", "disk", "network"):
            for block in range(10):
                for environment, slowness in (("native", 1.0), ("container", 1.01), ("vm", 1.2)):
                    value = slowness * rng.lognormal(0, 0.05)
                    rows.writerow((environment, workload, block, value))


def _figure(arguments: Sequence[str], imports: str, pairs: int) -> Figure:
    command = (sys.executable, "-m", "ullage", *arguments)
    peer = (sys.executable, "-c", imports)
    for argv in (command, peer):  # writes the bytecode, and warms the page cache
        cpu_seconds(argv)
    times = [(cpu_seconds(command), cpu_seconds(peer)) for _ in range(pairs)]
    ratio = median_interval([ours / theirs for ours, theirs in times])
    ours_s, theirs_s = (statistics.median(column) for column in zip(*times, strict=True))
    return Figure(
        name=f"CPU time of `ullage {arguments[0]}`",
        value=ratio.estimate,
        unit="×",
        low=ratio.low,
        high=ratio.high,
        peer=imports,
        peer_value=1.0,
        reach=f"at most {MOST:g} times the imports",
        holds=ratio.estimate <= MOST,
        note=f"{ours_s:.3f} s beside {theirs_s:.3f} s, medians of {pairs} pairs in turn",
    )


def cpu_seconds(argv: Sequence[str]) -> float:
    """User and system time of a process and its children; what it prints is thrown away."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(argv[:4])} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(measure, __doc__ or "")
