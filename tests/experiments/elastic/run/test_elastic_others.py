"""Two runs at once on a host: an elastic run says so, and is seen by others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import RepetitionOutcome
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.run import run as runs
from ullage.experiments.elastic.run.run import ElasticExecution, task_of
from ullage.host import claims
from ullage.runs.events import HOST_SHARED, Warned
from ullage.runs.room import Room
from ullage.runs.writer import Journal

pytestmark = pytest.mark.root

PLAN = """\
name: film
room: 4
environments: {box: {provider: lxc}, late: {provider: lxc, boot_delay: 40s}}
arrivals: {kind: poisson, rate: 0.01, viewers: 20}
repetitions: 2
seed: 1
"""
OTHER = """
import sys
from ullage.host import claims
claims.claim('u7654321', '/other')
print(flush=True)
sys.stdin.read()
"""


class Another:
    """A run of somebody else."""

    process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", OTHER], stdin=pipe, stdout=pipe)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def end(self) -> None:
        if self.process is not None:
            self.process.communicate()
            self.process = None

    def __enter__(self) -> Another:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is claimed here is no run of this host."""
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ULLAGE_DATA_DIR", str(tmp_path / "data"))


def played(
    folder: Path, monkeypatch: pytest.MonkeyPatch, during: Callable[[int], None]
) -> tuple[list[str], list[str]]:
    """Run all repetitions; `during` one of them, by number, something happens. What was said on the
    terminal, and what the journal has.
    """
    folder.mkdir()
    plan, document = schema.loads(PLAN)
    warnings: list[str] = []
    numbers = iter(range(4))

    class Sham:
        def __init__(
            self, _: Any, environment: schema.NodeEnvironment, number: int, order: int
        ) -> None:
            self.outcome = RepetitionOutcome(
                environment=environment.key,
                repetition=number,
                order=order,
                seed=1,
                status="ok",
                epoch_ns=1,
                start_ns=1,
                end_ns=2,
            )

        async def run(self) -> RepetitionOutcome:
            during(next(numbers))
            return self.outcome

    async def whole() -> None:
        progress: Any = SimpleNamespace(
            warning=warnings.append, step=lambda _: None, repetition=lambda *_: None
        )
        run = ElasticExecution(task_of(plan, document), folder, progress)
        setting: Any = None
        run.room = Room(folder, plan.budgets.outputs)
        with Journal(folder) as run.journal:
            await run._begin((), resumed=False)
            # Whoever else looks, sees it: so an ordinary run notices an elastic one.
            assert str(folder) in claims.living("u0000000")
            await run._repetitions(setting)

    monkeypatch.setattr(runs, "RunningRepetition", Sham)
    asyncio.run(whole())
    warned = [event for event in folders.read_events(folder) if isinstance(event, Warned)]
    assert [event.message for event in warned] == warnings
    return warnings, [event.code for event in warned]


def test_who_is_alone_is_told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert played(tmp_path / "run", monkeypatch, lambda _: None) == ([], [])


def test_another_run_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Another() as other:

        def comes_and_stays(number: int) -> None:
            if number == 1:
                other.begin()

        warnings, codes = played(tmp_path / "run", monkeypatch, comes_and_stays)
    assert warnings == ["another run works on this host at the same time: /other"]
    assert codes == [HOST_SHARED]


def test_one_that_ends_during_a_repetition_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(number: int) -> None:
        if number == 0:
            other.end()

    with Another() as other:
        other.begin()
        _, codes = played(tmp_path / "run", monkeypatch, ends)
    assert codes == [HOST_SHARED]
