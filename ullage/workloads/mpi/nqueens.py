"""Workload `n-queens`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import Field, model_validator

from ullage.host import binaries
from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, InvalidTrialError, Outputs, Task, counted
from ullage.workloads.mpi import mpi
from ullage.workloads.output import line, read_lines

SOLUTIONS: Final = {
    4: 2,
    5: 10,
    6: 4,
    7: 40,
    8: 92,
    9: 352,
    10: 724,
    11: 2_680,
    12: 14_200,
    13: 73_712,
    14: 365_596,
    15: 2_279_184,
    16: 14_772_512,
    17: 95_815_104,
    18: 666_090_624,
    19: 4_968_057_848,
    20: 39_029_188_884,
}
"""Queens → ways to place them: OEIS A000170, <https://oeis.org/A000170>."""


class NQueensParameters(mpi.MpiParameters):
    """How large the board is, and how the work is cut."""

    queens: int = Field(
        14, ge=min(SOLUTIONS), le=max(SOLUTIONS), strict=True, description="queens, and rows"
    )
    ranks: int = Field(
        2, ge=1, le=mpi.MOST_RANKS, strict=True, description="MPI ranks, over all instances"
    )
    depth: int = Field(
        3,
        ge=1,
        le=5,
        strict=True,
        description="rows that are filled before the work is dealt: one more makes about ten times "
        "as many pieces, and messages",
    )

    @model_validator(mode="after")
    def _possible(self) -> NQueensParameters:
        if self.depth >= self.queens:
            raise ValueError("depth must be less than queens")
        if self.peer != "none" and self.ranks < 2:
            raise ValueError("one rank has no peer: ranks must be at least 2")
        return self


class NQueens(mpi.MpiWorkload[NQueensParameters]):
    """The N queens puzzle by backtracking, over MPI ranks: computing with few, small messages.

    Rank 0 deals pieces of the search to whoever is free and works itself in between; the others ask
    for the next piece while they work on one. `depth` sets how many pieces there are, and so how
    much is spoken: 1,364 by default, each two messages unless rank 0 does it. The number of
    solutions must be that of the OEIS (A000170). 14 queens take about a second on one core; each
    more takes six to seven times as long, and 16 or more are usual in publications.
    """

    name = "n-queens"
    resource = "cpu"
    source = (
        "ours; the numbers of solutions: N. J. A. Sloane et al., OEIS A000170, "
        "<https://oeis.org/A000170>",
        sources.MPI_DEGRADATION,
    )
    parameters_model = NQueensParameters
    scaling = ("ranks",)
    metrics = (
        Metric(
            name="seconds",
            unit="s",
            better="lower",
            primary=True,
            description="From the barrier at the start to the sum over all ranks, by MPI_Wtime of "
            "rank 0.",
        ),
        Metric(
            name="solutions_per_second",
            unit="1/s",
            better="higher",
            description="Solutions by that time.",
        ),
    )

    def most_instances(self, parameters: NQueensParameters) -> int:
        """One for each rank."""
        return parameters.ranks

    def files(self, parameters: NQueensParameters) -> Mapping[str, Path]:
        program = binaries.program("nqueens", parameters.mpi)
        return {**super().files(parameters), "nqueens": program}

    def title(self, parameters: NQueensParameters) -> str:
        """`14 queens on 2 ranks`."""
        ranks = counted(parameters.ranks, "rank")
        where = {"none": "", "each": " in all instances"}
        with_whom = where.get(parameters.peer, f", some{mpi.peer_in_words(parameters)}")
        return f"{parameters.queens} queens on {ranks}{with_whom}"

    def duration_s(self, parameters: NQueensParameters) -> float:
        """As the number of solutions grows, from a second for 14 queens."""
        return 0.5 + SOLUTIONS[parameters.queens] / SOLUTIONS[14]

    def tasks(self, parameters: NQueensParameters, context: Context) -> Sequence[Task]:
        """All ranks. The limit allows for a VM without hardware support."""
        argv = ("./nqueens", str(parameters.queens), str(parameters.depth))
        timeout_s = 60.0 + 60 * self.duration_s(parameters)
        return (self.launch(parameters, context, parameters.ranks, argv, timeout_s),)

    def check(self, parameters: NQueensParameters, outputs: Outputs) -> None:
        """All pieces were done, each by one rank, and the sums are those that are known."""
        report = _report(parameters, outputs)
        ranks = range(parameters.ranks)
        expected = {"pieces": pieces(parameters.queens, parameters.depth)}
        expected["solutions"] = SOLUTIONS[parameters.queens]
        for kind, count in expected.items():
            by_ranks = sum(report[f"{kind}_{rank}"] for rank in ranks)
            if not report[kind] == by_ranks == count:
                raise InvalidTrialError(
                    f"{parameters.queens} queens have {count} {kind}: "
                    f"it says {report[kind]:.0f}, its ranks {by_ranks:.0f}"
                )
        if not 0 < report["seconds"] < outputs["main"].seconds:
            raise InvalidTrialError(
                f"{report['seconds']} s of {outputs['main'].seconds:.3f} s that the program ran"
            )

    def parse(self, parameters: NQueensParameters, outputs: Outputs) -> Figures:
        report = _report(parameters, outputs)
        seconds = report["seconds"]
        return {"seconds": seconds, "solutions_per_second": report["solutions"] / seconds}

    def facts(self, parameters: NQueensParameters, outputs: Outputs) -> dict[str, str]:
        library, _ = mpi.library(parameters, mpi.finished(outputs).stdout)
        return {**super().facts(parameters, outputs), "library": library}


@cache
def pieces(queens: int, depth: int) -> int:
    """Ways to place queens in the first rows so that none attacks another."""

    def count(rows: int, columns: int, diagonals_left: int, right: int) -> int:
        if rows == 0:
            return 1
        free = ~(columns | diagonals_left | right) & ((1 << queens) - 1)
        ways = 0
        while free:
            queen = free & -free
            free ^= queen
            ways += count(
                rows - 1, columns | queen, (diagonals_left | queen) << 1, (right | queen) >> 1
            )
        return ways

    return count(depth, 0, 0, 0)


def _report(parameters: NQueensParameters, outputs: Outputs) -> dict[str, float]:
    _, report = mpi.library(parameters, mpi.finished(outputs).stdout)
    ranks = [
        line(f"rank {rank} pieces ", (f"pieces_{rank}", 0), " solutions ", (f"solutions_{rank}", 0))
        for rank in range(parameters.ranks)
    ]
    head = f"queens {parameters.queens} depth {parameters.depth} ranks {parameters.ranks} pieces "
    return read_lines(
        report,
        (
            line(head, ("pieces", 0)),
            *ranks,
            line("solutions ", ("solutions", 0), " seconds ", ("seconds", 9)),
        ),
    )
