"""Time and memory of `ullage compare` over ten million samples, reading the Parquet file included.

Three shapes of the same size: one comparison of many pairs, a hundred, a thousand; and a thousand
environments of five hundred pairs, where the answer is long. Beside it DuckDB, which reads the same
file, pairs it and computes mean and standard deviation of the log-ratios and nothing else: the
least that any analysis must do. CPU time, of all processes together, is what a busy machine does
not stretch.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import Figure, lacks, main, median_interval

SAMPLES = 10_000_000


@dataclass(frozen=True)
class Shape:
    """Of a table: so many environments beside the baseline, in each of the workloads."""

    workloads: int
    environments: int
    pairs: int
    """Of each environment and workload."""
    whole: bool = True
    """As large as the aims are of."""

    @property
    def name(self) -> str:
        """`100 × 50,000 pairs`."""
        if self.environments > 1:
            return f"{self.environments:,} environments × {self.pairs:,} pairs"
        return f"{self.workloads} × {self.pairs:,} pairs"

    def shortened(self, factor: int) -> Shape:
        """With so many times fewer pairs."""
        return replace(self, pairs=self.pairs // factor, whole=False)

    def holds(self, within: bool) -> bool | None:
        """What a figure within its limit, or beyond it, says of the aim."""
        return within if self.whole else None if within else False


SHAPES = (
    *(Shape(workloads, 1, SAMPLES // 2 // workloads) for workloads in (1, 100, 1000)),
    Shape(1, 1000, 500),
)
MOST_S = 5.0
MOST_BYTES = 1e9

_PEER = """
import sys, duckdb
duckdb.sql(f'''
    select e.environment, e.workload, avg(e.x - b.x), stddev_samp(e.x - b.x), count(*)
    from (select environment, workload, block, ln(value) as x from '{sys.argv[1]}'
          where environment <> 'native') e
    join (select workload, block, ln(value) as x from '{sys.argv[1]}'
          where environment = 'native') b using (workload, block)
    group by e.environment, e.workload
''').fetchall()
"""


def measure(quick: bool) -> Iterator[Figure]:
    """Seconds and peak memory of each shape, in turn with the peer."""
    repeats = 2 if quick else 6
    with TemporaryDirectory() as folder:
        for whole in SHAPES:
            shape = whole.shortened(10) if quick else whole
            file = Path(folder) / "table.parquet"
            write(file, shape)
            ours, theirs = [*_OURS, str(file), *_OPTIONS], [sys.executable, "-c", _PEER, str(file)]
            both = [ours] if lacks("duckdb") else [ours, theirs]
            times: list[list[Times]] = [[] for _ in both]
            for _ in range(repeats):
                for argv, of in zip(both, times, strict=True):
                    of.append(times_of(argv))
            yield from rows(shape, times, [peak_of(argv) for argv in both])


_OURS = (sys.executable, "-m", "ullage", "compare")
_OPTIONS = ("--baseline", "native", "--better", "lower")


def write(file: Path, table: Shape) -> None:
    """A row for each environment and block, in the order of measuring, 5 % noise and 2 % slower."""
    rng = np.random.default_rng(table.workloads)
    shape = (table.pairs, table.workloads, 1 + table.environments)
    with_block = np.broadcast_to(np.arange(table.pairs)[:, None, None], shape)
    workload = np.broadcast_to(np.arange(table.workloads)[None, :, None], shape)
    environment = np.broadcast_to(np.arange(1 + table.environments)[None, None, :], shape)
    value = rng.lognormal(0, 0.05, shape)
    value[..., 1:] *= 1.02
    names = pa.array([f"work-{number}" for number in range(table.workloads)])
    environments = pa.array(["native", *(f"vm-{n}" for n in range(table.environments))])
    pq.write_table(
        pa.table(
            {
                "environment": _named(environment, environments),
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


@dataclass(frozen=True)
class Times:
    """Of a process, with the children that it waited for."""

    elapsed_s: float
    cpu_s: float


def times_of(argv: list[str]) -> Times:
    """From its start to its end; what it prints is thrown away."""
    begin = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed_s = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    _require(argv, process.returncode)
    return Times(elapsed_s, usage.ru_utime + usage.ru_stime)


def _require(argv: list[str], returncode: int) -> None:
    if returncode != 0:
        raise RuntimeError(f"{' '.join(argv[:4])} ended with {returncode}")


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
    _require(argv, process.returncode)
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


def rows(shape: Shape, times: Sequence[Sequence[Times]], peaks: Sequence[int]) -> list[Figure]:
    """Of ours and, where there is one, of the peer.

    Fewer samples than the aim is of may show that it does not hold, and never that it does.
    """
    elapsed = [median_interval([t.elapsed_s for t in of]) for of in times]
    cpu = [median_interval([t.cpu_s for t in of]) for of in times]
    seconds = Figure(
        name=f"analysis, {shape.name}",
        value=elapsed[0].estimate,
        unit="s",
        low=elapsed[0].low,
        high=elapsed[0].high,
        reach=f"at most {MOST_S:g} s",
        holds=shape.holds(elapsed[0].estimate <= MOST_S),
    )
    cpu_seconds = Figure(f"CPU time, {shape.name}", cpu[0].estimate, "s", cpu[0].low, cpu[0].high)
    memory = Figure(
        name=f"peak memory, {shape.name}",
        value=peaks[0] / 1e6,
        unit="MB",
        reach=f"at most {MOST_BYTES / 1e6:g} MB",
        holds=shape.holds(peaks[0] <= MOST_BYTES),
    )
    figures = [seconds, cpu_seconds, memory]
    if len(times) == 1:
        return [replace(figure, note=lacks("duckdb")) for figure in figures]
    theirs = (elapsed[1].estimate, cpu[1].estimate, peaks[1] / 1e6)
    return [
        replace(figure, peer="DuckDB: mean and sd only", peer_value=value)
        for figure, value in zip(figures, theirs, strict=True)
    ]


if __name__ == "__main__":
    main(measure, __doc__ or "")
