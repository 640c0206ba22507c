"""Time and memory of `ullage compare` over ten million samples, reading the Parquet file included.

Three shapes of the same size: one comparison of many pairs, a hundred, a thousand. Beside it
DuckDB, which reads the same file, pairs it and computes mean and standard deviation of the
log-ratios and nothing else: the least that any analysis must do.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import Figure, main, median_interval

SAMPLES = 10_000_000
SHAPES = (1, 100, 1000)
MOST_S = 5.0
MOST_BYTES = 1e9

_PEER = """
import sys, duckdb
duckdb.sql(f'''
    select e.workload, avg(e.x - b.x), stddev_samp(e.x - b.x), count(*)
    from (select workload, block, ln(value) as x from '{sys.argv[1]}'
          where environment = 'vm') e
    join (select workload, block, ln(value) as x from '{sys.argv[1]}'
          where environment = 'native') b using (workload, block)
    group by e.workload
''').fetchall()
"""


def measure(quick: bool) -> Iterator[Figure]:
    """Seconds and peak memory of each shape, in turn with the peer."""
    repeats = 2 if quick else 6
    samples = SAMPLES // 10 if quick else SAMPLES
    with TemporaryDirectory() as folder:
        for comparisons in SHAPES:
            file = Path(folder) / f"{comparisons}.parquet"
            write(file, comparisons, samples)
            ours, theirs = [*_OURS, str(file), *_OPTIONS], [sys.executable, "-c", _PEER, str(file)]
            seconds: tuple[list[float], list[float]] = ([], [])
            for _ in range(repeats):
                for argv, times in zip((ours, theirs), seconds, strict=True):
                    times.append(seconds_of(argv))
            shape = f"{comparisons} × {samples // 2 // comparisons:,} pairs"
            yield from _figures(shape, seconds, (peak_of(ours), peak_of(theirs)))


_OURS = (sys.executable, "-m", "ullage", "compare")
_OPTIONS = ("--baseline", "native", "--better", "lower")


def write(file: Path, comparisons: int, samples: int) -> None:
    """A row for each environment and block, in the order of measuring, 5 % noise and 2 % slower."""
    blocks = samples // 2 // comparisons
    rng = np.random.default_rng(comparisons)
    shape = (blocks, comparisons, 2)
    with_block = np.broadcast_to(np.arange(blocks)[:, None, None], shape)
    workload = np.broadcast_to(np.arange(comparisons)[None, :, None], shape)
    environment = np.broadcast_to(np.arange(2)[None, None, :], shape)
    value = rng.lognormal(0, 0.05, shape) * np.array([1.0, 1.02])
    names = pa.array([f"work-{number}" for number in range(comparisons)])
    pq.write_table(
        pa.table(
            {
                "environment": _named(environment, pa.array(["native", "vm"])),
                "workload": _named(workload, names),
                "block": with_block.reshape(-1),
                "value": value.reshape(-1),
            }
        ),
        file,
        compression="zstd",
    )


def _named(codes: np.ndarray, names: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.reshape(-1).astype(np.int32)), names)


def seconds_of(argv: list[str]) -> float:
    """Time of a process from its start to its end; what it prints is thrown away."""
    begin = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def peak_of(argv: list[str]) -> int:
    """Largest memory in bytes, of a run of its own.

    The larger of the process's own peak, as the kernel has it, and of what it and its children have
    at any one time, where pages that they share count once; looked at every 20 ms.
    """
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    together = 0
    while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
        together = max(together, _proportional(process.pid))
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(argv[:4])} ended with {process.returncode}")
    return max(together, 1024 * ended[2].ru_maxrss)


def _proportional(pid: int) -> int:
    """Proportional set size of a process and its children, in bytes; 0 of one that has ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    line = re.search(r"^Pss: +(\d+) kB", rollup, re.MULTILINE)
    own = 1024 * int(line[1]) if line else 0
    return own + sum(_proportional(int(child)) for child in children)


def _figures(
    shape: str, seconds: tuple[list[float], list[float]], peaks: tuple[int, int]
) -> list[Figure]:
    ours, theirs = map(median_interval, seconds)
    peer = "DuckDB: mean and sd only"
    return [
        Figure(
            name=f"analysis, {shape}",
            value=ours.estimate,
            unit="s",
            low=ours.low,
            high=ours.high,
            peer=peer,
            peer_value=theirs.estimate,
            reach=f"at most {MOST_S:g} s",
            holds=ours.estimate <= MOST_S,
        ),
        Figure(
            name=f"peak memory, {shape}",
            value=peaks[0] / 1e6,
            unit="MB",
            peer=peer,
            peer_value=peaks[1] / 1e6,
            reach=f"at most {MOST_BYTES / 1e6:g} MB",
            holds=peaks[0] <= MOST_BYTES,
        ),
    ]


if __name__ == "__main__":
    main(measure, __doc__ or "")
