"""Runs plans on real native instances, in places of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ullage import journal, leftovers, matrix, plan
from ullage.engine import Engine, Outcome
from ullage.folder import RunFolder, sessions
from ullage.runs import Trial

PLAN = """\
name: engine
baseline: native
image: host
resources: {{cpus: 1, memory: 256MiB}}
environments:
  native: {{provider: native}}
  other: {{provider: native{other}}}
workloads:
{workloads}
blocks: {{min: {blocks}, max: {blocks}}}
seed: 3
"""


class Quiet:
    """A progress that keeps what it was told."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def step(self, text: str) -> None: ...

    def trial(self, done: Trial, number: int, of_block: int) -> None: ...

    def block(self, number: int, most: int, half_width: float | None) -> None: ...

    def warning(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def places_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent_binary: Path
) -> Iterator[None]:
    for name in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"ULLAGE_{name}_DIR", str(tmp_path / name.lower()))
    yield
    for file in tmp_path.rglob(journal.JOURNAL):
        for session in sessions(file.parent):
            assert leftovers.find(session.tag, own=True) == []


def prepare(
    root: Path, workloads: Sequence[str], blocks: int = 2, other: str = "", extra: str = ""
) -> tuple[plan.Plan, matrix.Matrix, Path]:
    text = PLAN.format(
        workloads="\n".join(f"  - {{{each}}}" for each in workloads), blocks=blocks, other=other
    )
    checked, document = plan.loads(text + extra)
    folder = journal.new_folder(root, checked.name)
    return checked, matrix.resolve(checked, document), folder


def run(root: Path, workloads: Sequence[str], **more: object) -> tuple[Outcome, RunFolder]:
    checked, cells, folder = prepare(root, workloads, **more)  # type: ignore[arg-type]
    outcome = asyncio.run(Engine(checked, cells, folder, Quiet()).run())
    return outcome, RunFolder.open(folder)
