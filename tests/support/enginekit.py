"""Runs plans on real native instances, in places of the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support import patient
from ullage.engine.engine import Engine
from ullage.engine.progress import RunOutcome
from ullage.environments.base import Instance
from ullage.host import leftovers
from ullage.host.cgroups import Group
from ullage.plan import matrix, schema
from ullage.runs import writer
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder, sessions
from ullage.runs.records import JOURNAL

PLAN = """\
name: engine
baseline: native
image: host
resources: {{cpus: {cpus}, memory: 256MiB}}
environments:
  native: {{provider: native}}
  other: {{provider: native{other}}}
workloads:
{workloads}
blocks: {blocks}
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
    monkeypatch.setattr(*patient.LAG)
    yield
    for file in tmp_path.rglob(JOURNAL):
        for session in sessions(file.parent):
            assert leftovers.find(session.tag, own=True) == []


def prepare(
    root: Path,
    workloads: Sequence[str],
    blocks: int | str = 2,
    other: str = "",
    extra: str = "",
    cpus: int = 1,
) -> tuple[schema.Plan, matrix.Matrix, Path]:
    """blocks: how many, or the plan's field as it stands there."""
    text = PLAN.format(
        workloads="\n".join(f"  - {{{workload}}}" for workload in workloads),
        blocks=f"{{min: {blocks}, max: {blocks}}}" if isinstance(blocks, int) else blocks,
        other=other,
        cpus=cpus,
    )
    checked, document = schema.loads(text + extra)
    folder = writer.new_folder(root, checked.name)
    return checked, matrix.resolve(checked, document), folder


def run(root: Path, workloads: Sequence[str], **more: object) -> tuple[RunOutcome, RunFolder]:
    checked, cells, folder = prepare(root, workloads, **more)  # type: ignore[arg-type]
    outcome = asyncio.run(Engine(checked, cells, folder, Quiet()).run())
    return outcome, RunFolder.open(folder)


def engine(root: Path, workloads: Sequence[str], **more: object) -> Engine:
    checked, cells, folder = prepare(root, workloads, **more)  # type: ignore[arg-type]
    return Engine(checked, cells, folder, Quiet())


def resumed(earlier: Engine, edit: Callable[[str], str] = lambda text: text) -> Engine:
    """The same run again, by the same plan or an edited one."""
    text = edit(json.dumps(earlier.plan.model_dump(mode="json", exclude_defaults=True)))
    checked, document = schema.loads(text)
    return Engine(checked, matrix.resolve(checked, document), earlier.folder, Quiet(), resume=True)


def cut(running: Engine, after_trials: int) -> None:
    """Run it until so many trials have begun, then interrupt it."""

    async def interrupted() -> None:
        task = asyncio.create_task(running.run())
        while len(list(running.folder.glob("trials/*"))) < after_trials and not task.done():
            await asyncio.sleep(0.002)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())


def printed(folder: RunFolder, trial: Trial) -> list[str]:
    """What each program of a trial printed, in order."""
    return [(folder.path / str(role.stdout)).read_text() for role in trial.roles]


def frozen(instance: Instance) -> bool:
    """As the kernel says; one that is gone loads nobody either."""
    group = Group.find(instance.spec.tag, instance.spec.name)
    if not instance.alive:
        return True
    states = [
        text.read_text().split()[0]
        for directory in group.directories
        for text in (directory / "freezer.state", directory / "cgroup.freeze")
        if text.exists()
    ]
    return "FROZEN" in states or "1" in states
