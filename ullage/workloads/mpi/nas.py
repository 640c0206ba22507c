"""Workload `nas`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import ConfigDict, Field, model_validator

from ullage.host import binaries
from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, InvalidTrialError, Outputs, Task, counted
from ullage.workloads.mpi import npb_report
from ullage.workloads.mpi.mpi import MOST_RANKS, MpiParameters, MpiWorkload, finished, peer_in_words
from ullage.workloads.output import check_echoes, output_of

NasKernel = Literal["ep", "is", "cg", "mg", "ft", "lu"]
SizeClass = Literal["S", "W", "A", "B"]
NOMINAL: Final[Mapping[NasKernel, float]] = {
    "ep": 1e8,
    "is": 3e8,
    "cg": 1e9,
    "mg": 2e9,
    "ft": 1.5e9,
    "lu": 1.5e9,
}
"""Operations per second of one thread, roughly, for the estimate of a run's length."""


class NasParameters(MpiParameters):
    """Which kernel, of which size, and how it is shared out."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    kernel: NasKernel = Field("cg", description="the kernel")
    size_class: SizeClass = Field(
        "A", alias="class", description="NPB's problem class: sample, workstation, A, B"
    )
    parallel: Literal["threads", "mpi"] = Field(
        "threads", description="`threads`: one process, OpenMP; `mpi`: ranks"
    )
    threads: int = Field(
        1, ge=1, le=1024, strict=True, description="threads; with `mpi`, of each rank"
    )
    ranks: int = Field(1, ge=1, le=MOST_RANKS, strict=True, description="ranks of `mpi`")

    @model_validator(mode="after")
    def _possible(self) -> NasParameters:
        if self.parallel == "threads" and self.ranks > 1:
            raise ValueError("ranks: give `parallel: mpi` for more than one")
        if self.parallel == "threads" and self.peer != "none":
            raise ValueError(f"peer: {self.peer} needs `parallel: mpi`")
        if self.peer != "none" and self.ranks < 2:
            raise ValueError("one rank has no peer: ranks must be at least 2")
        refused = refusal(self.kernel, self.size_class, self.ranks)
        if refused is not None:
            raise ValueError(f"ranks: {self.ranks}, but {refused}")
        return self


class Nas(MpiWorkload[NasParameters]):
    """NAS Parallel Benchmark kernels: EP, IS, CG, MG, FT and LU, with threads or with MPI.

    The programs are our own, in C with OpenMP and MPI, from the public specification (D. Bailey et
    al., The NAS Parallel Benchmarks, RNR-94-007, 1994, and the problem classes of NPB 2 and 3,
    https://www.nas.nasa.gov/software/npb.html), with its random numbers, its classes and its
    verification values; operations are counted by NPB's own formulas. A figure may stand beside
    published ones only with the compiler and flags, which are kept with each trial.

    EP makes Gaussian pairs and communicates next to nothing; IS ranks integers and sends all keys
    to all ranks; CG multiplies a random sparse matrix (rows over ranks, so each step makes one
    vector known to all: NPB's own MPI program divides in two dimensions and sends less); MG solves
    a Poisson problem on ever coarser grids; FT transforms a cube, and transposes it between ranks;
    LU sweeps through a grid, with small messages from neighbour to neighbour. What is timed is what
    the specification times, by the program itself: its start and the making of the problem are not
    in it. Where ranks × threads are more than the CPUs, that is measured as it is: MPICH's ranks
    and OpenMP's threads wait by spinning, which then costs up to a thousandfold.

    A trial counts only when the kernel's result is verified against the specified values, when the
    class, iterations, ranks and threads are those asked for, and when rate × time is the number of
    operations of that class.
    """

    name = "nas"
    resource = "cpu"
    source = (
        "D. H. Bailey et al.: The NAS Parallel Benchmarks, RNR-94-007, 1994, and Int. J. of "
        "Supercomputer Applications 5(3), 1991, <https://doi.org/10.1177/109434209100500306>",
        "problem classes of NPB 2 and 3: <https://www.nas.nasa.gov/software/npb.html>",
        sources.MPI_DEGRADATION,
    )
    parameters_model = NasParameters
    scaling = ("threads", "ranks")
    metrics = (
        Metric(
            name="operation_rate",
            unit="1/s",
            better="higher",
            primary=True,
            description="Operations as NPB counts them (floating point; random numbers for EP, "
            "keys for IS) in a second, over all ranks and threads: Mop/s × 10⁶.",
        ),
        Metric(
            name="seconds",
            unit="s",
            better="lower",
            description="The timed part of the kernel, on the slowest rank.",
        ),
    )

    def programs(self, parameters: NasParameters) -> Mapping[str, str]:
        """Threads need none but our own."""
        return super().programs(parameters) if parameters.parallel == "mpi" else {}

    def title(self, parameters: NasParameters) -> str:
        """`NAS CG class A, 2 threads`; `NAS IS class S, 4 ranks to the host`."""
        name = f"NAS {parameters.kernel.upper()} class {parameters.size_class}"
        threads = counted(parameters.threads, "thread")
        if parameters.parallel == "threads":
            return f"{name}, {threads}"
        ranks = counted(parameters.ranks, "rank")
        per_rank = f" of {threads}" if parameters.threads > 1 else ""
        return f"{name}, {ranks}{per_rank}{peer_in_words(parameters)}"

    def duration_s(self, parameters: NasParameters) -> float:
        """At the nominal rate of a thread."""
        rate = NOMINAL[parameters.kernel] * parameters.ranks * parameters.threads
        return operations(parameters.kernel, parameters.size_class) / rate

    def most_instances(self, parameters: NasParameters) -> int:
        """One for each rank."""
        return parameters.ranks

    def files(self, parameters: NasParameters) -> Mapping[str, Path]:
        name = program(parameters.kernel)
        mpi = parameters.mpi if parameters.parallel == "mpi" else None
        return {**super().files(parameters), name: binaries.program(name, mpi)}

    def tasks(self, parameters: NasParameters, context: Context) -> Sequence[Task]:
        argv = [f"{context.workspace}/{program(parameters.kernel)}"]
        argv += ["--class", parameters.size_class, "--threads", str(parameters.threads)]
        timeout_s = 600.0 + 50 * self.duration_s(parameters)
        if parameters.parallel == "mpi":
            return (self.launch(parameters, context, parameters.ranks, argv, timeout_s),)
        return (Task("main", tuple(argv), timeout_s=timeout_s),)

    def check(self, parameters: NasParameters, outputs: Outputs) -> None:
        """The result is verified, and it is the problem that was asked for."""
        if "main" in outputs and _UNVERIFIED in outputs["main"].stdout:
            raise InvalidTrialError("the kernel's result is not verified")
        output = finished(outputs) if parameters.parallel == "mpi" else output_of(outputs, "main")
        report = npb_report.read(output.stdout)
        if not report.verified:
            raise InvalidTrialError("the kernel's result is not verified")
        workers = parameters.ranks * parameters.threads
        check_echoes(
            ("kernel", parameters.kernel.upper(), report.kernel),
            ("class", parameters.size_class, report.size_class),
            ("iterations", ITERATIONS[parameters.kernel][parameters.size_class], report.iterations),
            ("ranks", parameters.ranks, report.processes or 1),
            ("threads", workers, report.threads),
        )
        expected = operations(parameters.kernel, parameters.size_class)
        if not report.did(expected):
            raise InvalidTrialError(
                f"{report.mops.value} Mop/s for {report.seconds.value} s are not the "
                f"{expected:.0f} operations of the class"
            )

    def parse(self, parameters: NasParameters, outputs: Outputs) -> Figures:
        report = npb_report.read(outputs["main"].stdout)
        return {"operation_rate": report.rate, "seconds": report.seconds.value}

    def facts(self, parameters: NasParameters, outputs: Outputs) -> dict[str, str]:
        options = npb_report.read(outputs["main"].stdout).options
        names = {"CC": "compiler", "CFLAGS": "flags", "MPI": "library"}
        facts = {names[key]: value for key, value in options.items() if key in names}
        return facts | (super().facts(parameters, outputs) if parameters.parallel == "mpi" else {})


_UNVERIFIED: Final = "= " + "UNSUCCESSFUL".rjust(24)


def program(kernel: NasKernel) -> str:
    """What `mpi/programs/nas/Makefile` calls it."""
    return f"nas-{kernel}"


ITERATIONS: Final[Mapping[NasKernel, Mapping[SizeClass, int]]] = {
    "ep": {"S": 0, "W": 0, "A": 0, "B": 0},
    "is": {"S": 10, "W": 10, "A": 10, "B": 10},
    "cg": {"S": 15, "W": 15, "A": 15, "B": 75},
    "mg": {"S": 4, "W": 4, "A": 4, "B": 20},
    "ft": {"S": 6, "W": 6, "A": 6, "B": 20},
    "lu": {"S": 50, "W": 300, "A": 250, "B": 250},
}
"""As NPB prints them."""
_EP: Final[Mapping[SizeClass, int]] = {"S": 24, "W": 25, "A": 28, "B": 30}
_IS: Final[Mapping[SizeClass, int]] = {"S": 16, "W": 20, "A": 23, "B": 25}
_CG: Final[Mapping[SizeClass, tuple[int, int]]] = {
    "S": (1400, 7),
    "W": (7000, 8),
    "A": (14_000, 11),
    "B": (75_000, 13),
}
_MG: Final[Mapping[SizeClass, int]] = {"S": 32, "W": 128, "A": 256, "B": 256}
_FT: Final[Mapping[SizeClass, tuple[int, int, int]]] = {
    "S": (64, 64, 64),
    "W": (128, 128, 32),
    "A": (256, 256, 128),
    "B": (512, 256, 256),
}
_LU: Final[Mapping[SizeClass, int]] = {"S": 12, "W": 33, "A": 64, "B": 102}
_LU_LEAST: Final = 3
"""Points of a rank along an axis."""


def refusal(kernel: NasKernel, size_class: SizeClass, ranks: int) -> str | None:
    """Why a kernel cannot run with so many ranks, or None: the rules of the programs themselves."""
    if kernel == "mg" and ranks & (ranks - 1):
        return "MG halves its grid: a power of two"
    if kernel == "ft":
        _, y, z = _FT[size_class]
        if y % ranks or z % ranks:
            return f"FT shares out whole planes: a divisor of {math.gcd(y, z)}"
    if kernel == "lu":
        across = max(i for i in range(1, math.isqrt(ranks) + 1) if ranks % i == 0)
        along = ranks // across
        if _LU[size_class] // along < _LU_LEAST:
            return f"LU's grid of {_LU[size_class]} points has no room for {along} ranks in a row"
    return None


def operations(kernel: NasKernel, size_class: SizeClass) -> float:
    """Operations of a run, by the formulas with which NPB 3 computes Mop/s."""
    return _OPERATIONS[kernel](size_class, ITERATIONS[kernel][size_class])


def _ep(size_class: SizeClass, _: int) -> float:
    """The random numbers: two for each pair."""
    return 2.0 ** (_EP[size_class] + 1)


def _is(size_class: SizeClass, iterations: int) -> float:
    """The keys, in each iteration."""
    return float(iterations << _IS[size_class])


def _cg(size_class: SizeClass, iterations: int) -> float:
    n, nonzeros = _CG[size_class]
    vectors = nonzeros * (nonzeros + 1)
    return 2.0 * iterations * n * (3 + vectors + 25 * (5 + vectors) + 3)


def _mg(size_class: SizeClass, iterations: int) -> float:
    return 58.0 * iterations * _MG[size_class] ** 3


def _ft(size_class: SizeClass, iterations: int) -> float:
    n = math.prod(_FT[size_class])
    log = math.log(n)
    return n * (14.8157 + 7.19641 * log + (5.23518 + 7.21113 * log) * iterations)


def _lu(size_class: SizeClass, iterations: int) -> float:
    """As `lu.f` of NPB 3.4 computes it, whatever is really done: ours does fewer, and says so."""
    n = _LU[size_class]
    return iterations * (1984.77 * n**3 - 10923.3 * n**2 + 27770.9 * n - 144010.0)


_OPERATIONS: Final[Mapping[NasKernel, Callable[[SizeClass, int], float]]] = {
    "ep": _ep,
    "is": _is,
    "cg": _cg,
    "mg": _mg,
    "ft": _ft,
    "lu": _lu,
}
