"""Run folders of a study's own plans, that no machine has run: their cells, with a known truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from testing.synthetic import make_run
from ullage.engine import resolved
from ullage.experiments.studies import plantexts
from ullage.experiments.studies.base import DerivedTable, Study, StudyFigure, StudyPlan
from ullage.plan import matrix
from ullage.plan import schema as plan
from ullage.runs.records import EnvironmentRecord

Cell = tuple[str, str]
DISKS = (Path("/"), Path("/"))
"""What `--disk` names, of plans that compare some."""
CLOUDS = plantexts.Clouds(
    {"mine": {"provider": "openstack", "flavor": "m1.small", "boot_image": "debian-12"}},
    {"cpus": 1, "memory": "512MiB"},
    Path("plan.yaml"),
)
"""What `--cloud` leads to, of plans that ask some."""


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
    text = (study.folder / wanted.file).read_text(encoding="utf-8")
    planned, document = plan.loads(
        plantexts.with_clouds(plantexts.with_disks(text, DISKS), CLOUDS), wanted.file
    )
    cells = matrix.resolve(planned, document)
    truths = dict(truth or {})
    environments = []
    for environment in cells.environments:
        # The provider's own label needs this host; a key is enough here.
        environments.append(
            EnvironmentRecord(
                key=environment.key,
                label=environment.key,
                provider=environment.provider.name,
                factors=dict(environment.factors),
                again_of=environment.again_of,
                nuisances={
                    "cpus": f"{environment.resources.cpus:g}",
                    "instances": str(environment.instances),
                },
            )
        )
        if environment.again_of is not None:
            of = {cell: x for cell, x in truths.items() if cell[0] == environment.again_of}
            truths |= {(environment.key, workload): x for (_, workload), x in of.items()}
    return make_run(
        root / f"20260101T000000-{wanted.name}",
        blocks=blocks,
        environments=environments,
        workloads=[resolved.workload(case) for case in cells.cases],
        truth=truths,
        noise_sd=0.01,
        failures=failures,
        raw=False,
        name=wanted.name,
        network=None if planned.network is None else planned.network.model_dump(),
    )


def fresh(study: Study, *runs: tuple[StudyPlan, Path]) -> dict[str, DerivedTable]:
    """The study's own tables from these runs, by key."""
    return {table.key: table for table in study.fresh({plan.name: path for plan, path in runs})}


def figure(table: DerivedTable, row: str, column: str) -> StudyFigure:
    """That at a place."""
    for at, of, cell in table.figures():
        if (at.label, of.title) == (row, column):
            return cell
    raise KeyError((row, column))


def holds(figure: StudyFigure, truth: float) -> bool:
    """Is the truth near the figure, within a few times its interval?"""
    assert figure.value is not None and figure.low is not None and figure.high is not None
    assert figure.low <= figure.value <= figure.high
    return abs(figure.value - truth) < 3 * (figure.high - figure.low)


def printed(table: DerivedTable, column: str, decimals: int) -> dict[str, str]:
    """A column as text with so many decimals, by row; rows without a value are left out."""
    return {
        row.label: f"{cell.value:.{decimals}f}"
        for row, of, cell in table.figures()
        if of.title == column and cell.value is not None
    }
