"""How the overhead of a parallel program grows with what it communicates (S3.4).

A kernel of P ranks that needed no messages would take T(1)/P, T(1) being its time on one rank. What
it takes longer is waiting for others and for messages, so

    share = 1 − T(1) / (P · T(P))

is the part of its time that communication and uneven work take (one minus parallel efficiency). It
is taken from the baseline, where nothing virtual is in it. Where a rank's half of the data fits in
a cache that the whole does not fit in, T(P) is too small and the share may come out below 0.

A program in a VM is slower for two reasons: its arithmetic is, and its messages are. The ratio on
one rank is the first alone. What messages add is the ratio of the ratios,

    [T(P) / T_native(P)] / [T(1) / T_native(1)]

block by block. Where arithmetic is slowed too, as in emulation, this understates what messages
would add to arithmetic at full speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.analysis.comparison.rounding import share
from ullage.experiments.studies.base import Column, DerivedRow, DerivedTable, StudyFigure
from ullage.experiments.studies.measured import StudiedRun
from ullage.experiments.studies.within import Term, environments, label, product, workloads
from ullage.runs.records import WorkloadRecord

NAS: Final = "nas"
QUEENS: Final = "n-queens"
SECONDS: Final = "seconds"
"""The metric: both programs tell it of their slowest rank."""


@dataclass(frozen=True)
class KernelByRanks:
    """A program, on one rank and on several."""

    name: str
    alone: str
    """Key of its workload on one rank."""
    together: str
    ranks: int


def kernels(run: StudiedRun) -> list[KernelByRanks]:
    """Those of a run that it has in both forms."""
    keys: dict[str, dict[int, str]] = {}
    for record in (*workloads(run.folder, NAS), *workloads(run.folder, QUEENS)):
        if record.parameters.get("parallel", "mpi") == "mpi":
            keys.setdefault(_name(record), {})[int(record.parameters["ranks"])] = record.key
    return [
        KernelByRanks(name, of[1], of[ranks], ranks)
        for name, of in keys.items()
        if 1 in of
        for ranks in sorted(set(of) - {1})
    ]


def _name(record: WorkloadRecord) -> str:
    parameters = record.parameters
    if record.workload == QUEENS:
        return f"{parameters['queens']} queens, depth {parameters['depth']}"
    return f"{str(parameters['kernel']).upper()} {parameters['class']}"


def tables(run: StudiedRun) -> list[DerivedTable]:
    """A row for each kernel, the one that communicates least first; none where there are none.

    The first table has what each environment is slower by, the second what messages add to that.
    """
    shares = [(communicated(run, kernel), kernel) for kernel in kernels(run)]
    if not shares:
        return []
    shares.sort(key=lambda pair: (pair[0].value is None, pair[0].value))
    baseline = run.analysis.baseline_label
    confidence = share(run.analysis.confidence)
    single = f"Intervals are {confidence} of one cell each, not corrected for their number."
    return [
        DerivedTable(
            key="communication-fresh",
            caption="How much slower programs are, by the share of time that they communicate",
            of="program",
            columns=_columns(run),
            rows=_rows(run, shares, together=True),
            notes=(
                f"Share: 1 − T(1)/(P · T(P)) in {baseline}, what communication and uneven work "
                f"take of its time. Then each environment's time over that of {baseline}, on as "
                "many ranks: arithmetic and messages together.",
                single,
            ),
        ),
        DerivedTable(
            key="added-by-messages-fresh",
            caption="What messages add to that: the same over what it is slower by on one rank",
            of="program",
            columns=_columns(run),
            rows=_rows(run, shares, together=False),
            notes=(
                "[T(P) / T_native(P)] / [T(1) / T_native(1)], block by block: above 1 is what "
                "messages cost more, beside slower arithmetic. It should grow with the share.",
                single,
            ),
        ),
    ]


def _others(run: StudiedRun) -> list[str]:
    return [key for key in environments(run.folder) if key != run.analysis.baseline]


def _columns(run: StudiedRun) -> tuple[Column, ...]:
    first = Column(title=f"share in {run.analysis.baseline_label}", unit="%", decimals=1)
    others = (Column(title=label(run.folder, key), decimals=3) for key in _others(run))
    return (first, *others)


def _rows(
    run: StudiedRun, shares: list[tuple[StudyFigure, KernelByRanks]], *, together: bool
) -> tuple[DerivedRow, ...]:
    return tuple(
        DerivedRow(
            label=_label(kernel),
            cells=(of, *(_slower(run, kernel, key, together=together) for key in _others(run))),
        )
        for of, kernel in shares
    )


def _label(kernel: KernelByRanks) -> str:
    return f"{kernel.name}, {kernel.ranks} ranks"


def communicated(run: StudiedRun, kernel: KernelByRanks) -> StudyFigure:
    """The share of a kernel's time that is communication, in the baseline; in per cent."""
    baseline = run.analysis.baseline
    efficiency = product(
        run,
        (
            Term(1, baseline, kernel.alone, SECONDS),
            Term(-1, baseline, kernel.together, SECONDS),
        ),
        scale=1 / kernel.ranks,
    )
    if efficiency.value is None:
        return efficiency
    low = None if efficiency.high is None else 100 * (1 - efficiency.high)
    high = None if efficiency.low is None else 100 * (1 - efficiency.low)
    return StudyFigure(value=100 * (1 - efficiency.value), low=low, high=high, why=efficiency.why)


def _slower(run: StudiedRun, kernel: KernelByRanks, key: str, *, together: bool) -> StudyFigure:
    """An environment's time over the baseline's; or that over the same on one rank."""
    baseline = run.analysis.baseline
    terms = [
        Term(1, key, kernel.together, SECONDS),
        Term(-1, baseline, kernel.together, SECONDS),
    ]
    if not together:
        terms += [Term(-1, key, kernel.alone, SECONDS), Term(1, baseline, kernel.alone, SECONDS)]
    return product(run, terms)
