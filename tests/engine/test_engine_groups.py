"""Trials over several instances: all of them, another environment's; and what is put inside."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from tests.support.enginekit import frozen, printed, run
from ullage import workloads
from ullage.engine import trial as attempt
from ullage.engine import turn
from ullage.engine.fleet import Fleet
from ullage.engine.trial import Attempt
from ullage.environments.agent.client import Process
from ullage.plan.instances import HOST
from ullage.runs.records import Metric, Scalar
from ullage.workloads.base import Context, Output, Parameters, Place, Role, Task, Workload

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]

PROGRAM = '#!/bin/sh\necho "ours: $1"\n'


class PlayedParameters(Parameters):
    """What a test asks for."""

    place: Place = "each"
    partner: str | None = None
    ready: str = Field("echo up >&2; exec sleep 60")
    stop_signal: int = 15


class Played(Workload[PlayedParameters]):
    """Every role runs a program of ours, beside a service."""

    name = "played"
    resource = "other"
    packages = ()
    source = ("[ours](none)",)
    parameters_model = PlayedParameters
    metrics = (
        Metric(name="seconds", unit="s", better="lower", primary=True, description="Elapsed."),
    )
    program: Path

    def programs(self, parameters: PlayedParameters) -> Mapping[str, str]:
        return {"sh": "dash"}

    def roles(self, parameters: PlayedParameters) -> Sequence[Role]:
        return Role("main"), Role("peer", parameters.place)

    def partner(self, parameters: PlayedParameters) -> str | None:
        return parameters.partner

    def files(self, parameters: PlayedParameters) -> Mapping[str, Path]:
        return {"ours": self.program}

    def duration_s(self, parameters: PlayedParameters) -> float:
        return 0.1

    def tasks(self, parameters: PlayedParameters, context: Context) -> Sequence[Task]:
        peers = [
            Task(role, ("./ours", f"{role} {context.addresses[role]}"))
            for role in context.members("peer")
        ]
        serve = ("sh", "-c", parameters.ready)
        stop = parameters.stop_signal
        return Task("main", serve, service=True, ready="up", stop_signal=stop, stop_s=2.0), *peers

    def check(self, parameters: PlayedParameters, outputs: Mapping[str, Output]) -> None:
        assert set(outputs) > {"main"}

    def parse(
        self, parameters: PlayedParameters, outputs: Mapping[str, Output]
    ) -> dict[str, Scalar | list[tuple[float, float]]]:
        return {"seconds": max(output.seconds for output in outputs.values())}


@pytest.fixture(autouse=True)
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Played.program = tmp_path / "ours"
    Played.program.write_text(PROGRAM)
    monkeypatch.setattr(workloads, "WORKLOADS", (*workloads.WORKLOADS, Played))


def test_every_instance_takes_part_in_one_trial(tmp_path: Path) -> None:
    _, folder = run(
        tmp_path, ["name: played"], blocks=1, other=", instances: 3", extra="allow: [instances]\n"
    )
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        count = 3 if trial.environment == "other" else 1
        ours = [line for line in printed(folder, trial) if line.startswith("ours")]
        names = [line.split()[1] for line in ours]
        assert names == [f"peer-{i}" for i in range(count)]
        assert len({line.split()[2] for line in ours}) == count, "as many addresses"
        instances = {role.instance for role in trial.roles if role.role.startswith("peer")}
        assert len(instances) == count
        assert trial.instances == {}, "one figure of all"


@pytest.mark.parametrize("place", ["second", "away", "host"])
def test_the_other_end_is_another_instance(tmp_path: Path, place: str) -> None:
    _, folder = run(tmp_path, [f"name: played, place: {place}"], blocks=1)
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        instances = {role.role: role.instance for role in trial.roles}
        assert instances["main"] != instances["peer"]
        assert instances["peer"].startswith("host") == (place == "host")


def test_what_stands_for_the_host_stands_still_between_generations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    still: list[bool] = []
    renew = Fleet.renew

    async def then_look(self: Fleet, generation: int) -> None:
        await renew(self, generation)
        still.extend(frozen(instance) for instance in self._instances[HOST])

    monkeypatch.setattr(Fleet, "renew", then_look)
    run(tmp_path, ["name: played, place: host"], blocks=2, extra="repeat: {instances: 1}\n")
    assert still == [True]


def test_the_other_end_is_of_another_environment(tmp_path: Path) -> None:
    load = "name: played, place: partner, partner: other"
    _, folder = run(tmp_path, [load], blocks=1)
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        instances = {role.role: role.instance for role in trial.roles}
        assert instances["peer"].startswith("other") and instances["main"] != instances["peer"]


def test_what_was_put_inside_is_told_by_its_digest(tmp_path: Path) -> None:
    _, folder = run(tmp_path, ["name: played, place: instance"], blocks=1)
    (workload,) = folder.resolved.workloads
    assert workload.files == {"ours": f"sha256:{hashlib.sha256(PROGRAM.encode()).hexdigest()}"}


def test_a_service_is_told_to_end_as_it_wants(tmp_path: Path) -> None:
    ready = "trap 'echo by INT; exit 0' INT; echo up; while :; do sleep 0.05; done"
    load = f'name: played, place: instance, stop_signal: 2, ready: "{ready}"'
    _, folder = run(tmp_path, [load], blocks=1)
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        (main,) = [text for text in printed(folder, trial) if text.startswith("up")]
        assert main == "up\nby INT\n"


def test_a_service_that_not_even_sigkill_ends_fails_its_trial_and_its_instance_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a disk which does not answer: here its signals do not reach it."""
    kill, deaf = Process.kill, list[Process]()

    async def not_the_first(self: Process, signal: int = 15) -> None:
        if not deaf:
            deaf.append(self)
        if self is not deaf[0]:
            await kill(self, signal)

    monkeypatch.setattr(Process, "kill", not_the_first)
    monkeypatch.setattr(attempt, "KILLED_S", 0.2)
    _, folder = run(tmp_path, ["name: played, place: instance"], blocks=2)
    bad, *good = folder.trials
    assert bad.status == "failed" and not bad.metrics and bad.reason is not None
    assert bad.reason.code == "not-ended"
    name = bad.roles[0].instance
    assert bad.reason.message.startswith(f"main (sh) has not ended in {name}, although")
    assert {trial.status for trial in good} == {"ok"} and len(good) == 5
    assert [warning.code for warning in folder.warnings if name in warning.message] == ["not-ended"]
    assert Counter(event.instance for event in folder.provisioned)[name] == 2


def test_a_service_that_never_comes_up_fails_the_trial(tmp_path: Path) -> None:
    _, folder = run(tmp_path, ['name: played, place: instance, ready: "exit 3"'], blocks=1)
    for trial in folder.trials:
        assert trial.status == "failed"
        assert trial.reason is not None and trial.reason.code == "agent-not-ready"
        assert "status 3" in trial.reason.message


def test_who_does_not_answer_is_asked_for_before_it_may_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards its provider could only say that it is gone."""
    calls, rest, blame = list[str](), turn._rest, turn._blame_node

    async def rested(*parts: Any) -> None:
        calls.append("rest")
        await rest(*parts)

    async def blamed(part: Attempt) -> None:
        calls.append("blame")
        await blame(part)

    monkeypatch.setattr(turn, "_rest", rested)
    monkeypatch.setattr(turn, "_blame_node", blamed)
    run(tmp_path, ["name: played, place: instance"], blocks=1)
    assert calls and calls == ["blame", "rest"] * (len(calls) // 2)
