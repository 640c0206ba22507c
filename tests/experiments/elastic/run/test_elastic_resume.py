"""A run that goes on is the same run: what is refused then, and that it takes nothing from it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.run.run import ElasticExecution, task_of

PLAN = """\
name: film
room: 4
environments: {{lxc: {{provider: lxc}}}}
arrivals: {{kind: poisson, rate: 1, viewers: 20}}
repetitions: {repetitions}
"""


class BegunError(Exception):
    """It would have been begun."""


def resumed(folder: Path, repetitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, document = schema.loads(PLAN.format(repetitions=repetitions))
    progress: Any = SimpleNamespace(warning=lambda _: None)
    run = ElasticExecution(task_of(plan, document), folder, progress, resume=True)

    async def begun() -> None:
        raise BegunError

    monkeypatch.setattr(run, "_work_to_the_end", begun)
    asyncio.run(run.run())


@pytest.mark.parametrize("done", [2, 6])
def test_fewer_repetitions_than_are_done_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """With them the folder could not be read any more."""
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment()}, repetitions=10, done=done, finished=False
    )
    folder = make(tmp_path, plan)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(UllageError) as caught:
        resumed(folder, done - 1, monkeypatch)
    assert caught.value.kind is errors.RUN_CHANGED
    assert f"`repetitions` ({done - 1}, and it has begun no. {done})" in caught.value.message
    assert "no fewer than are done" in caught.value.hint
    assert {file: file.read_bytes() for file in before} == before
    assert len([r for r in ElasticRun.open(folder).repetitions if r.counts]) == done
    for enough in (done, 12):
        with pytest.raises(BegunError):
            resumed(folder, enough, monkeypatch)
