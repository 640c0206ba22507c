"""The NAS kernels EP, IS and CG, with threads and under both MPIs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mpi.naskit import altered, program, run, verified
from tests.mpi.oceankit import needs_mpi
from ullage.host import binaries
from ullage.workloads.mpi.nas import ITERATIONS, NasKernel, operations

pytestmark = needs_mpi
KERNELS: tuple[NasKernel, ...] = ("ep", "is", "cg")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", KERNELS)
def test_with_threads(kernel: NasKernel, threads: int) -> None:
    report = verified(run(program(kernel), threads=threads))
    assert (report.kernel, report.size_class) == (kernel.upper(), "S")
    assert (report.threads, report.processes) == (threads, None)
    assert report.iterations == ITERATIONS[kernel]["S"]
    assert report.did(operations(kernel, "S"))
    assert report.options["CC"].startswith("gcc ")
    assert "-O3" in report.options["CFLAGS"].split()


# MPICH's ranks spin: CG with more of them than processors takes half a minute, see the lab.
@pytest.mark.parametrize(
    ("mpi", "ranks", "kernel"),
    [
        (mpi, ranks, kernel)
        for mpi in ("openmpi", "mpich")
        for ranks in (1, 2, 4)
        for kernel in KERNELS
        if (mpi, ranks, kernel) != ("mpich", 4, "cg")
    ],
)
def test_with_mpi(mpi: binaries.Mpi, ranks: int, kernel: NasKernel) -> None:
    report = verified(run(program(kernel, mpi), mpi=mpi, ranks=ranks))
    assert (report.kernel, report.processes, report.threads) == (kernel.upper(), ranks, ranks)
    assert report.did(operations(kernel, "S"))
    assert ("Open MPI" in report.options["MPI"]) == (mpi == "openmpi")


def test_ranks_that_are_no_power_of_two_and_threads_within_ranks() -> None:
    for kernel, threads in (("ep", 2), ("is", 1), ("cg", 1)):
        done = run(program(kernel, "openmpi"), mpi="openmpi", ranks=3, threads=threads)
        report = verified(done)
        assert (report.processes, report.threads) == (3, 3 * threads)


@pytest.mark.parametrize(
    ("kernel", "source", "was", "now"),
    [
        ("ep", "ep.c", "-3.247834652034740e+3", "-3.247834752034740e+3"),
        ("is", "is.c", "{0, 18, 346, 64917, 65463}", "{0, 18, 347, 64917, 65463}"),
        ("cg", "cg.c", "8.5971775078648}", "8.5971775098648}"),
        # A wrong multiplier, a wrong sort, a wrong matrix: the constants are right.
        ("ep", "nas.h", "1220703125U", "1220703121U"),
        ("is", "is_rank.c", "rank[v] = less;", "rank[v] = less + (v == 1);"),
        ("cg", "cg_matrix.c", "value, i, 0.5)", "value, i, 0.51)"),
    ],
)
def test_what_is_wrong_fails_the_verification(
    tmp_path: Path, kernel: str, source: str, was: str, now: str
) -> None:
    done = run(altered(tmp_path, kernel, source, was, now))
    assert done.returncode == 1
    assert " Verification    =             UNSUCCESSFUL\n" in done.stdout


@pytest.mark.parametrize(
    "options", [("--class", "C"), ("--class", ""), ("--threads", "0"), ("--threads", "2x"), ("-t",)]
)
def test_what_is_not_an_option(options: tuple[str, ...]) -> None:
    done = subprocess.run([program("ep"), *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ")


@pytest.mark.parametrize("kernel", ["is", "cg"])
def test_the_workload_counts_the_operations_as_the_program_does(kernel: NasKernel) -> None:
    report = verified(run(program(kernel), "W"))
    assert report.did(operations(kernel, "W"))
    assert not report.did(1.01 * operations(kernel, "W"))
