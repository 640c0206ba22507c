"""Run folders of a study's own plans, that no machine has run: their cells, with a known truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.synthetic import make_run
from ullage.engine import resolved
from ullage.experiments.studies.base import DerivedTable, Figure, Study, StudyPlan
from ullage.plan import matrix
from ullage.plan import schema as plan
from ullage.runs.records import EnvironmentRecord

Cell = tuple[str, str]


def make(
    root: Path,
    study: Study,
    wanted: StudyPlan,
    truth: Mapping[Cell, float] | None = None,
    failures: Sequence[tuple[int, str, str]] = (),
    blocks: int = 8,
) -> Path:
    """A run of that plan under `root`.

    All figures are 1,000 but for noise of 1 % and `truth`: (environment, workload) → how many times
    worse. The second copy of an environment has the truth of the first.
    """
    cells = matrix.resolve(*plan.load(study.folder / wanted.file))
    found = dict(truth or {})
    environments = []
    for each in cells.environments:
        # The provider's own label needs this host; a key is enough here.
        environments.append(
            EnvironmentRecord(
                key=each.key,
                label=each.key,
                provider=each.provider.name,
                factors=dict(each.factors),
                again_of=each.again_of,
                nuisances={"cpus": "1", "instances": str(each.instances)},
            )
        )
        if each.again_of is not None:
            of = {cell: x for cell, x in found.items() if cell[0] == each.again_of}
            found |= {(each.key, workload): x for (_, workload), x in of.items()}
    return make_run(
        root / f"20260101T000000-{wanted.name}",
        blocks=blocks,
        environments=environments,
        workloads=[resolved.workload(load) for load in cells.loads],
        truth=found,
        noise_sd=0.01,
        failures=failures,
        raw=False,
        name=wanted.name,
    )


def fresh(study: Study, *runs: tuple[StudyPlan, Path]) -> dict[str, DerivedTable]:
    """The study's own tables from these runs, by key."""
    return {table.key: table for table in study.fresh({plan.name: path for plan, path in runs})}


def figure(table: DerivedTable, row: str, column: str) -> Figure:
    """That at a place."""
    for at, of, found in table.figures():
        if (at.label, of.title) == (row, column):
            return found
    raise KeyError((row, column))


def holds(found: Figure, truth: float) -> bool:
    """Is the truth near the figure, within a few times its interval?"""
    assert found.value is not None and found.low is not None and found.high is not None
    assert found.low <= found.value <= found.high
    return abs(found.value - truth) < 3 * (found.high - found.low)


def printed(table: DerivedTable, column: str, decimals: int) -> dict[str, str]:
    """A column as text with so many decimals, by row; rows without a value are left out."""
    return {
        row.label: f"{found.value:.{decimals}f}"
        for row, of, found in table.figures()
        if of.title == column and found.value is not None
    }
