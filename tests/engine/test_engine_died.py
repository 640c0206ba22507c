"""Others that a trial needs, elsewhere or beside it, that died or could not be made anew."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.support.enginekit import run
from ullage import workloads
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine.fleet import Fleet
from ullage.engine.team import Team
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.native import Native
from ullage.plan.neighbours import NEIGHBOUR
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.workloads.base import Context, Role, Task
from ullage.workloads.command import CommandParameters, OwnCommand

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]

PAIRED = 'name: paired, argv: ["true"]'
TRUE = 'name: command, argv: ["true"]'
BESIDE = ", neighbour: {busy: 10%}"
ANEW = "repeat: {instances: 1}\n"


class Paired(OwnCommand):
    """Its other end stands in `other`."""

    name = "paired"

    def roles(self, parameters: CommandParameters) -> Sequence[Role]:
        return Role("main"), Role("peer", "partner")

    def partner(self, parameters: CommandParameters) -> str | None:
        return "other"

    def tasks(self, parameters: CommandParameters, context: Context) -> Sequence[Task]:
        peer = Task("peer", ("true",), cwd=context.workspaces["peer"])
        return *super().tasks(parameters, context), peer


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "WORKLOADS", (*workloads.WORKLOADS, Paired))


def reasons(folder: RunFolder) -> dict[str, list[str]]:
    """Environment → the reason of each of its trials, empty where all is well."""
    by_environment: dict[str, list[str]] = {}
    for trial in folder.trials:
        by_environment.setdefault(trial.environment, []).append(
            trial.reason.code if trial.reason else ""
        )
    return by_environment


def times_made(folder: RunFolder) -> Counter[str]:
    return Counter(event.instance for event in folder.provisioned)


def instance_of(trial: Trial, role: str) -> str:
    (instance,) = [
        role_record.instance for role_record in trial.roles if role_record.role.startswith(role)
    ]
    return instance


async def kill(instance: Instance) -> None:
    """End its agent, as a host does that runs out of memory."""
    await instance.thaw()
    assert instance.agent.pid is not None
    os.kill(instance.agent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while instance.alive and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert not instance.alive


def killed_after_first_trial(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    real, first = Fleet.freeze, itertools.count()

    async def freeze_then_kill(self: Fleet, teams: Iterable[Team]) -> None:
        await real(self, teams)
        if next(first) == 0:
            everybody = itertools.chain(*self._instances.values())
            (victim,) = [member for member in everybody if member.name == name]
            await kill(victim)

    monkeypatch.setattr(Fleet, "freeze", freeze_then_kill)


@pytest.mark.parametrize(
    ("load", "other", "name"),
    [(PAIRED, "", "other-1"), (TRUE, BESIDE, "other-neighbour-0")],
    ids=["partner", "neighbour"],
)
def test_who_died_between_two_trials_is_made_again(
    load: str, other: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_after_first_trial(monkeypatch, name)
    _, folder = run(tmp_path, [load], other=other)
    assert times_made(folder)[name] == 2, times_made(folder)
    assert {code for codes in reasons(folder).values() for code in codes} == {""}
    for trial in folder.trials:
        if load == PAIRED:
            assert instance_of(trial, "peer").startswith("other-")
        elif trial.environment == "other":
            assert instance_of(trial, "neighbour") == name


def test_a_neighbour_that_dies_in_a_trial_leaves_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, first = Fleet.teams, itertools.count()
    dying: list[asyncio.Task[None]] = []

    async def teams(self: Fleet, *arguments: object, **more: object) -> list[Team]:
        teams_: list[Team] = await real(self, *arguments, **more)  # type: ignore[arg-type]
        neighbours = [neighbour for team in teams_ for neighbour in team.neighbours]
        if neighbours and next(first) == 0:
            dying.append(asyncio.create_task(kill(neighbours[0])))
        return teams_

    monkeypatch.setattr(Fleet, "teams", teams)
    _, folder = run(tmp_path, ['name: command, argv: ["sleep", "0.5"]'], other=BESIDE)
    assert dying
    codes = reasons(folder)
    assert codes["native"] == codes["native~again"] == ["", ""]
    assert codes["other"][0] != "" and codes["other"][1] == "", codes
    assert times_made(folder)["other-neighbour-0"] == 2


@pytest.mark.parametrize(
    ("load", "other", "name", "hit"),
    [
        (PAIRED, "", "other-1", {"native", "native~again", "other"}),
        (TRUE, BESIDE, "other-neighbour-0", {"other"}),
    ],
    ids=["partner", "neighbour"],
)
def test_who_cannot_be_made_anew_fails_the_trials_that_need_it(
    load: str,
    other: str,
    name: str,
    hit: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, times = Native.create, itertools.count()

    async def create(self: Native, spec: InstanceSpec) -> Instance:
        if spec.name == name and next(times) == 1:
            raise UllageError(errors.LIMIT_NOT_APPLIED, instance=spec.name, asked="1", seen="2")
        return await real(self, spec)

    monkeypatch.setattr(Native, "create", create)
    _, folder = run(tmp_path, [load], blocks=3, other=other, extra=ANEW)
    for environment, codes in reasons(folder).items():
        assert codes == ["", "not-made" if environment in hit else "", ""], environment
    key = "other" + NEIGHBOUR if other else "other"
    for trial in folder.trials:
        if trial.reason:
            assert trial.reason.message.startswith(f"{key} could not be made anew")
            assert not trial.metrics and not trial.roles
    assert times_made(folder)[name] == 2, "not tried again before the next generation"


def test_one_that_is_made_again_is_prepared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its new self lacks would else be measured as if it were there."""
    times = itertools.count()

    def prepare(*_: object) -> Sequence[Task]:
        return (Task("main", ("true" if next(times) < 3 else "false",)),)

    monkeypatch.setattr(OwnCommand, "prepare", prepare)
    killed_after_first_trial(monkeypatch, "other-0")
    _, folder = run(tmp_path, [TRUE], blocks=3)
    codes = reasons(folder)
    assert codes["native"] == codes["native~again"] == ["", "", ""]
    well = int(folder.trials[0].environment == "other")  # it died after the first trial of all
    assert codes["other"] == [""] * well + ["prepare-failed"] * (3 - well)
