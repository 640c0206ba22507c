"""The NAS kernels MG, FT and LU, with threads, under both MPIs, and with both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mpi.naskit import altered, program, run, verified
from tests.mpi.oceankit import needs_mpi
from ullage.host import binaries
from ullage.workloads.mpi.nas import ITERATIONS, NasKernel, operations

pytestmark = [pytest.mark.lab, needs_mpi]
KERNELS: tuple[NasKernel, ...] = ("mg", "ft", "lu")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", KERNELS)
def test_with_threads(kernel: NasKernel, threads: int) -> None:
    report = verified(run(program(kernel), threads=threads))
    assert (report.kernel, report.size_class) == (kernel.upper(), "S")
    assert (report.threads, report.processes) == (threads, None)
    assert report.iterations == ITERATIONS[kernel]["S"]
    assert report.did(operations(kernel, "S"))


# MPICH's ranks spin: with more of them than processors, short messages take seconds.
@pytest.mark.parametrize(
    ("mpi", "ranks", "kernel"),
    [
        (mpi, ranks, kernel)
        for mpi in ("openmpi", "mpich")
        for ranks in (1, 2, 4)
        for kernel in KERNELS
        if ranks < 4 or mpi == "openmpi" or kernel == "ft"
    ],
)
def test_with_mpi(mpi: binaries.Mpi, ranks: int, kernel: NasKernel) -> None:
    report = verified(run(program(kernel, mpi), mpi=mpi, ranks=ranks))
    assert (report.kernel, report.processes, report.threads) == (kernel.upper(), ranks, ranks)
    assert report.did(operations(kernel, "S"))


@pytest.mark.parametrize(
    ("kernel", "ranks", "threads"),
    [
        ("mg", 8, 1),  # all three axes are divided
        ("lu", 3, 1),
        ("mg", 2, 2),
        ("ft", 2, 2),
        ("lu", 2, 3),  # both sweeps wait for ranks and for threads
    ],
)
def test_other_divisions(kernel: NasKernel, ranks: int, threads: int) -> None:
    done = run(program(kernel, "openmpi"), mpi="openmpi", ranks=ranks, threads=threads)
    report = verified(done)
    assert (report.processes, report.threads) == (ranks, ranks * threads)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("mg", "the number of ranks must be a power of 2"),
        ("ft", "the number of ranks must divide the planes"),
        ("lu", "too few points for each rank"),
    ],
)
def test_ranks_that_do_not_fit_are_refused(kernel: NasKernel, message: str) -> None:
    done = run(program(kernel, "openmpi"), mpi="openmpi", ranks=5)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("kernel", "source", "was", "now"),
    [
        ("mg", "mg_stencil.c", "a3 = 1.0 / 12.0", "a3 = 1.0 / 12.0001"),
        ("ft", "ft.c", "ALPHA 1e-6", "ALPHA 1.0001e-6"),
        ("lu", "lu.h", "LU_C5 1.4", "LU_C5 1.4001"),
    ],
)
def test_what_is_wrong_fails_the_verification(
    tmp_path: Path, kernel: str, source: str, was: str, now: str
) -> None:
    done = run(altered(tmp_path, kernel, source, was, now))
    assert done.returncode == 1
    assert " Verification    =             UNSUCCESSFUL\n" in done.stdout
