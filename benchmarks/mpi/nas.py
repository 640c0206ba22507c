"""Mop/s of our NAS kernels by class, beside the original Fortran (and C, for IS) where it is there.

The original is not part of this project: build the OpenMP version of NPB 3.3 or later (gfortran 12
needs `-fallow-argument-mismatch -fallow-invalid-boz`) and name the folder of its `cg.A.x` and so on
in `NPB_BIN`. Both run with as many threads, in turn, and which goes first is drawn at random; a run
that is not verified gives no figure. The aim is class A within 1.5 times of the original's time.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, main, median_interval
from ullage.host import binaries
from ullage.workloads.mpi import npb_report
from ullage.workloads.mpi.nas import ITERATIONS, NasKernel, SizeClass, operations, program

WITHIN: Final = 1.5
PEER: Final = "NPB's own"
QUICK: Final[dict[SizeClass, int]] = {"S": 7, "W": 7}
FULL: Final[dict[SizeClass, int]] = {"S": 21, "W": 21, "A": 9, "B": 3}
"""Class → runs of each program."""


@dataclass(frozen=True)
class Case:
    """One kernel, of one class."""

    kernel: NasKernel
    size_class: SizeClass
    threads: int

    def mine(self) -> npb_report.Npb:
        """A run of ours."""
        path = binaries.program(program(self.kernel))
        return self._run([str(path), "--class", self.size_class, "--threads", str(self.threads)])

    def original(self) -> npb_report.Npb | None:
        """A run of NPB's own, where it is; of class S it prints too few digits of the time."""
        folder = os.environ.get("NPB_BIN")
        path = Path(folder or "", f"{self.kernel}.{self.size_class}.x")
        return (
            self._run([str(path)]) if folder and self.size_class != "S" and path.is_file() else None
        )

    def _run(self, argv: list[str]) -> npb_report.Npb:
        env = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
        done = subprocess.run(argv, capture_output=True, text=True, env=env, check=True)
        report = npb_report.read(done.stdout)
        expected = (self.kernel.upper(), self.size_class, self.threads)
        if not report.verified or (report.kernel, report.size_class, report.threads) != expected:
            raise RuntimeError(f"{argv[0]}: not verified, or not what was asked for")
        if not report.did(operations(self.kernel, self.size_class)):
            raise RuntimeError(f"{argv[0]}: counts other operations")
        return report


def case_figure(case: Case, runs: int) -> Figure:
    """Medians of both, in turn."""
    chance = random.Random(7)
    rates: dict[str, list[float]] = {"ours": [], PEER: []}
    report = case.mine()
    for _ in range(runs):
        for name in chance.sample(["ours", PEER], 2):
            run = case.mine() if name == "ours" else case.original()
            if run is not None:
                rates[name].append(run.mops.value)
    middle = median_interval(rates["ours"])
    peer = median_interval(rates[PEER]).estimate if rates[PEER] else None
    ratio = middle.estimate / peer if peer else None
    options = ", ".join(report.options[name] for name in ("CC", "CFLAGS"))
    aimed = case.size_class == "A" and ratio is not None
    return Figure(
        f"NAS {report.kernel} class {case.size_class}, {case.threads} threads",
        middle.estimate,
        "Mop/s",
        middle.low,
        middle.high,
        peer=PEER if peer else "",
        peer_value=peer,
        reach=f"at least 1/{WITHIN} of it" if aimed else "",
        holds=ratio >= 1 / WITHIN if aimed and ratio is not None else None,
        note=f"{options}; {runs} runs" + (f"; ours / its = {ratio:.2f}" if ratio else ""),
    )


def cases(quick: bool) -> Iterator[tuple[Case, int]]:
    """Each kernel and class, on one thread and on all processors."""
    cpus = len(os.sched_getaffinity(0))
    for kernel in ITERATIONS:
        for size_class, runs in (QUICK if quick else FULL).items():
            for threads in sorted({1} if quick else {1, cpus}):
                yield Case(kernel, size_class, threads), runs


def measure(quick: bool) -> Iterator[Figure]:
    """All kernels; quick: the two small classes."""
    return (case_figure(case, runs) for case, runs in cases(quick))


if __name__ == "__main__":
    main(measure, __doc__ or "")
