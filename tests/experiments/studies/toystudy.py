"""A study of one second, with two plans that any host can run; `main` is `ullage` with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support import patient
from ullage.experiments import studies
from ullage.experiments.studies import measured
from ullage.experiments.studies.base import (
    Column,
    DerivedRow,
    DerivedTable,
    Study,
    StudyFigure,
    StudyPlan,
)

PLACE: Final = "TOY_STUDY"
"""Variable of the environment: the folder of the toy."""

PLAN: Final = """\
name: {name}
baseline: native
image: host
resources: {{cpus: {cpus}, memory: 256MiB}}
environments:
  native: {{provider: native}}
  other: {{provider: native}}
workloads:
  - {{name: command, argv: [{argv}]}}
blocks: {{min: 2, max: 2}}
"""

DISKS: Final = """\
name: toy-disks-full
baseline: disk-1
image: host
resources: {cpus: 1, memory: 256MiB}
environments:
  disk-NUMBER: {provider: native, disk: {path: PATH}}
workloads:
  - {name: command, argv: ['true']}
blocks: {min: 2, max: 2}
"""

TABLE: Final = DerivedTable(
    key="printed",
    caption="What was printed",
    of="row",
    columns=(Column(title="power", unit="W", decimals=1),),
    rows=(
        DerivedRow(label="right", cells=(StudyFigure(value=165.6986, printed="165.7"),)),
        DerivedRow(
            label="wrong", cells=(StudyFigure(value=5.28, printed="4.06", why="other weights"),)
        ),
    ),
)


class Toy(Study):
    """Stands for any study."""

    name = "toy"
    title = "A toy"
    question = "Does it run?"
    source = "nobody"
    needs = ("a host",)

    def tables(self) -> tuple[DerivedTable, ...]:
        """One, right and wrong."""
        return (TABLE,)

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """Two short ones, or a single one."""
        if not quick:
            return (
                StudyPlan(name="toy-a-full", file="a-full.yaml", minutes=120),
                StudyPlan(name="toy-disks-full", file="disks-full.yaml", minutes=90, disks=True),
            )
        return (
            StudyPlan(name="toy-a-quick", file="a-quick.yaml", minutes=0.1),
            StudyPlan(name="toy-b-quick", file="b-quick.yaml", minutes=0.1),
        )

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """The ratios of each run."""
        opened = ((name, measured.opened(path)) for name, path in runs.items())
        tables = (
            measured.ratios(o, o.analysis.primary(), name, f"Our {name}") for name, o in opened
        )
        return tuple(table for table in tables if table is not None)

    @property
    def folder(self) -> Path:
        """A test's own."""
        return Path(os.environ[PLACE])


def write(folder: Path, *, second: str = "'true'", cpus: int = 1) -> Path:
    """The toy's files; `second`: the command of its second plan, `cpus`: what that asks for."""
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# A toy\n\n## Question\n<b>Does it run?</b>\n")
    for name, argv, needs in (
        ("toy-a-quick", "sleep, '0.02'", 1),
        ("toy-b-quick", second, cpus),
        ("toy-a-full", "'true'", 1),
    ):
        text = PLAN.format(name=name, argv=argv, cpus=needs)
        (folder / f"{name.removeprefix('toy-')}.yaml").write_text(text)
    (folder / "disks-full.yaml").write_text(DISKS)
    return folder


def main() -> None:
    """`ullage` with the toy in place of the studies."""
    studies.STUDIES = (Toy,)
    patient.main()


if __name__ == "__main__":
    main()
