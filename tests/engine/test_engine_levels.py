"""Instances made anew between generations of blocks, and work repeated within a trial."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.enginekit import cut, engine, printed, resumed, run
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine.fleet import Fleet
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.native import Native
from ullage.host import clock, leftovers
from ullage.meters import Scene, metered
from ullage.nodes import local
from ullage.runs.events import Provisioned, Synchronised, Trial
from ullage.runs.pairs import Cells, pair
from ullage.runs.reader import RunFolder
from ullage.runs.records import Metered
from ullage.stats.stop import Decision, StopRule
from ullage.workloads import command
from ullage.workloads.base import Role, Task

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]

COUNT = 'name: command, argv: ["sh", "-c", "echo >> log; wc -l < log"]'
"""How often it has run in this instance, this time included."""
TRUE = 'name: command, argv: ["true"]'
TWO = "repeat: {instances: 2}\n"


def provisioned(folder: RunFolder) -> list[tuple[str, int]]:
    return sorted((event.instance, event.generation) for event in folder.provisioned)


# --- generations ----------------------------------------------------------------------------------
def test_every_generation_has_new_instances_in_the_same_places(tmp_path: Path) -> None:
    outcome, folder = run(tmp_path, [COUNT], blocks=6, extra=TWO)
    assert (outcome.reason, outcome.blocks, outcome.failed) == ("blocks", 6, 0)
    for trial in folder.trials:
        assert trial.generation == trial.block // 2
        assert printed(folder, trial) == [f"{trial.block % 2 + 1}\n"], (
            "an old instance, or its data"
        )
    names = ["native-0", "native-again-0", "other-0"]
    assert provisioned(folder) == sorted(itertools.product(names, range(3)))
    places = {(event.instance, str(event.facts["cpus_allowed"])) for event in folder.provisioned}
    assert len(places) == 3, "an instance changed its CPUs"


def test_the_order_is_that_of_the_seed(tmp_path: Path) -> None:
    def order(folder: RunFolder) -> list[tuple[str, str, str]]:
        return [(trial.trial, trial.environment, trial.workload) for trial in folder.trials]

    loads = [TRUE, f"{TRUE}, as: again"]
    _, plain = run(tmp_path / "plain", loads, blocks=4)
    _, anew = run(tmp_path / "anew", loads, blocks=4, extra=TWO)
    assert order(plain) == order(anew)


def test_one_that_cannot_be_made_anew_fails_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, times = Native.create, itertools.count()

    async def create(self: Native, spec: InstanceSpec) -> Instance:
        if spec.name.startswith("other") and next(times) == 1:
            raise UllageError(errors.LIMIT_NOT_APPLIED, instance=spec.name, asked="1", seen="2")
        return await real(self, spec)

    monkeypatch.setattr(Native, "create", create)
    _, folder = run(tmp_path, [COUNT], blocks=6, extra=TWO)
    failed = [trial for trial in folder.trials if trial.status != "ok"]
    assert {(trial.environment, trial.generation) for trial in failed} == {("other", 1)}
    assert len(failed) == 2
    for trial in failed:
        assert trial.reason and trial.reason.code == "not-made"
        assert "asked for 1" in trial.reason.message
        assert not trial.metrics and not trial.roles
    assert ("other-0", 1) not in provisioned(folder) and ("other-0", 2) in provisioned(folder)
    assert [warned.code for warned in folder.warnings] == ["not-made"]


def test_a_preparation_that_failed_once_is_no_sentence_for_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = itertools.count()

    def prepare(*_: object) -> Sequence[Task]:
        return (Task("main", ("false",)),) if next(times) < 3 else ()

    monkeypatch.setattr(command.OwnCommand, "prepare", prepare)
    _, folder = run(tmp_path, [TRUE], blocks=2, extra="repeat: {instances: 1}\n")
    outcomes = [
        (trial.generation, trial.reason.code if trial.reason else "") for trial in folder.trials
    ]
    assert outcomes == [(0, "prepare-failed")] * 3 + [(1, "")] * 3


def test_the_rule_looks_between_generations_and_sees_their_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[tuple[int, list[float]]] = []

    def decide(self: StopRule, series: Mapping[str, Sequence[float]], done: int) -> Decision:
        assert (self.min_blocks, self.max_blocks, self.half_width) == (1, 6, 0.1)
        looks.append((done, list(series["other/command/seconds"])))
        return Decision(done == 3, "precision" if done == 3 else None, 0.1, None, 0.1)

    monkeypatch.setattr(StopRule, "decide", decide)
    blocks = "{min: 3, max: 18, until: {half_width: 10%}}"
    outcome, folder = run(tmp_path, [TRUE], blocks=blocks, extra="repeat: {instances: 3}\n")
    assert (outcome.reason, outcome.blocks) == ("precision", 9)
    assert [(done, len(series)) for done, series in looks] == [(0, 0), (1, 3), (2, 2), (3, 3)]
    cells = Cells(folder.trials)
    paired = pair(
        cells.series("other", "command"),
        cells.series("native", "command"),
        folder.resolved.workloads[0].metrics[0],
    )
    means = [sum(paired.log_ratios[i : i + 3]) / 3 for i in (0, 3, 6)]
    assert looks[-1][1] == pytest.approx(means)


def test_a_budget_ends_with_a_generation(tmp_path: Path) -> None:
    outcome, folder = run(tmp_path, [TRUE], blocks="{min: 2, max: 40, budget: 0.001s}", extra=TWO)
    assert (outcome.reason, outcome.blocks) == ("budget", 2)
    assert {trial.generation for trial in folder.trials} == {0}


def test_cut_in_the_middle_of_a_generation_and_resumed(tmp_path: Path) -> None:
    first = engine(tmp_path, [COUNT], blocks=6, extra=TWO)
    cut(first, 3 * 3 + 1)
    before = RunFolder.open(first.folder)
    block = max(trial.block for trial in before.trials) + 1
    todo = {0, 1, 2} if block == 6 else set(range(min(3, block) // 2, 3))
    asyncio.run(resumed(first).run())
    after = RunFolder.open(first.folder)
    assert len(after.trials) == 18
    assert after.trials[: len(before.trials)] == before.trials
    assert all(trial.generation == trial.block // 2 for trial in after.trials)
    second = after.provisioned[len(before.provisioned) :]
    assert {event.generation for event in second} <= todo
    assert len(second) == 3 * len({event.generation for event in second}), "made once each"


def test_interrupted_while_instances_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = engine(tmp_path, [TRUE], blocks=4, extra=TWO)
    real, begun = Fleet.renew, asyncio.Event()

    async def renew(self: Fleet, generation: int) -> None:
        begun.set()
        await real(self, generation)

    monkeypatch.setattr(Fleet, "renew", renew)

    async def scenario() -> None:
        task = asyncio.create_task(interrupted.run())
        await begun.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scenario())
    assert leftovers.find(interrupted.tag, own=True) == []
    asyncio.run(resumed(interrupted).run())
    assert {trial.status for trial in RunFolder.open(interrupted.folder).trials} == {"ok"}


def test_looks_at_a_clock_are_of_the_instance_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new instance's looks are numbered anew: a number belongs to the making before it."""
    monkeypatch.setenv("ULLAGE_CLOCK_DISTORT", "11250,2000000000")
    sleep = 'name: command, argv: ["sleep", "0.05"]'
    _, folder = run(tmp_path, [sleep], blocks=4, extra=TWO)
    looks: dict[str, dict[int, Synchronised]] = {}
    for event in folder.events:
        if isinstance(event, Provisioned):
            looks[event.instance] = {}
        elif isinstance(event, Synchronised):
            assert event.number not in looks[event.instance], "told twice"
            looks[event.instance][event.number] = event
        elif isinstance(event, Trial):
            assert event.status == "ok"
            ((instance, clock),) = event.clocks.items()
            before, after = (looks[instance][number] for number in clock.looks)
            assert (before.why, after.why) == ("thaw", "after")
            assert before.at_ns < event.start_ns < event.end_ns < after.at_ns


# --- iterations -----------------------------------------------------------------------------------
THREE = "repeat: {iterations: 3}\n"


def test_iterations_follow_each_other_in_the_same_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: list[tuple[int, int]] = []

    @contextmanager
    def watched(scene: Scene) -> Iterator[Metered]:
        began = clock.ordered_ns()
        with metered(scene=scene) as readings:
            yield readings
        spans.append((began, clock.ordered_ns()))

    monkeypatch.setattr(local, "metered", watched)
    outcome, folder = run(tmp_path, [COUNT], blocks=2, extra=THREE)
    assert (outcome.trials, outcome.failed) == (6, 0)
    for trial in folder.trials:
        assert [role.role for role in trial.roles] == ["main-i00", "main-i01", "main-i02"]
        assert printed(folder, trial) == [f"{3 * trial.block + i}\n" for i in (1, 2, 3)]
        for earlier, following in itertools.pairwise(trial.roles):
            assert earlier.end_ns < following.start_ns
        assert trial.start_ns == trial.roles[0].start_ns
        assert trial.end_ns == trial.roles[-1].end_ns
        times = [(role.end_ns - role.start_ns) / 1e9 for role in trial.roles]
        assert [figures["seconds"] for figures in trial.iterations] == pytest.approx(times)
        assert trial.metrics["seconds"] == pytest.approx(sum(times) / 3)
        assert trial.meters["host"]
    for (began, ended), trial in zip(spans, folder.trials, strict=True):
        assert began < trial.start_ns < trial.end_ns < ended, "metered once, over all of it"


def test_the_finest_last_digit_of_all_iterations_is_kept(tmp_path: Path) -> None:
    """It prints 1.5, 2.5 and 3.50."""
    figure = "{took: {unit: ms, better: lower, line: last}}"
    script = "echo >> n; i=$(wc -l < n); [ $((i % 3)) = 0 ] && echo $i.50 || echo $i.5"
    work = f"name: command, argv: [sh, -c, '{script}'], metrics: {figure}"
    outcome, folder = run(tmp_path, [work], blocks=1, extra=THREE)
    assert (outcome.trials, outcome.failed) == (3, 0)
    for trial in folder.trials:
        assert trial.metrics["took"] == pytest.approx(2.5e-3)
        assert trial.steps == {"took": pytest.approx(1e-5)}


def test_one_bad_iteration_is_a_bad_trial(tmp_path: Path) -> None:
    second = 'name: command, argv: ["sh", "-c", "echo >> log; test $(wc -l < log) -ne 2"]'
    _, folder = run(tmp_path, [second], blocks=1, extra=THREE)
    for trial in folder.trials:
        assert trial.status == "invalid"
        assert trial.reason and trial.reason.code == "not-valid"
        assert (trial.metrics, trial.iterations) == ({}, ())
        assert [role.status for role in trial.roles] == [0, 1], "it stops there"


def test_services_are_there_for_each_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = ("sh", "-c", "echo up >> served; echo ready; sleep 60")
    real = command.OwnCommand.tasks

    def tasks(self: command.OwnCommand, *arguments: Any) -> Sequence[Task]:
        return Task("server", serve, service=True, ready="ready"), *real(self, *arguments)

    monkeypatch.setattr(command.OwnCommand, "roles", lambda *_: (Role("main"), Role("server")))
    monkeypatch.setattr(command.OwnCommand, "tasks", tasks)
    _, folder = run(tmp_path, ['name: command, argv: ["cat", "served"]'], blocks=1, extra=THREE)
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        role_by_name = {role.role: role for role in trial.roles}
        assert list(role_by_name) == [
            f"{name}-i{i:02d}" for i in range(3) for name in ("server", "main")
        ]
        for i in range(3):
            server, main = role_by_name[f"server-i{i:02d}"], role_by_name[f"main-i{i:02d}"]
            assert server.start_ns < main.start_ns < main.end_ns < server.end_ns
        assert printed(folder, trial)[1::2] == ["up\n" * i for i in (1, 2, 3)]


def test_a_clock_is_followed_through_all_iterations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULLAGE_CLOCK_DISTORT", "11250,2000000000")
    _, folder = run(tmp_path, ['name: command, argv: ["sleep", "0.05"]'], blocks=1, extra=THREE)
    looks = {
        (event.instance, event.number): event
        for event in folder.events
        if isinstance(event, Synchronised)
    }
    for trial in folder.trials:
        ((instance, clock),) = trial.clocks.items()
        own_looks = [looks[instance, number] for number in clock.looks]
        assert [look.why for look in own_looks] == ["thaw", "after", "after", "after"]
        for role, (before, after) in zip(trial.roles, itertools.pairwise(own_looks), strict=True):
            assert before.at_ns < role.start_ns < role.end_ns < after.at_ns
        assert clock.between_ns == own_looks[-1].at_ns - own_looks[0].at_ns
        assert clock.drifted_ns == own_looks[-1].offset_ns - own_looks[0].offset_ns
        assert clock.messages == sum(look.messages for look in own_looks)
        assert clock.drift_unsure_ns is not None
        assert abs(clock.drifted_ns - 11_250e-9 * clock.between_ns) <= clock.drift_unsure_ns


def test_several_instances_and_iterations(tmp_path: Path) -> None:
    _, folder = run(
        tmp_path,
        [COUNT],
        blocks=1,
        other=", instances: 2",
        extra=f"{THREE}allow: [instances]\n",
    )
    (trial,) = [done for done in folder.trials if done.environment == "other"]
    assert [role.role for role in trial.roles][:3] == ["main-0-i00", "main-1-i00", "main-0-i01"]
    assert (len(trial.instances), len(trial.iterations)) == (2, 3)
    own = [figures["seconds"] for figures in trial.instances.values()]
    assert trial.metrics["seconds"] == pytest.approx(sum(own) / 2)  # type: ignore[arg-type]


def test_both_levels_at_once(tmp_path: Path) -> None:
    _, folder = run(tmp_path, [COUNT], blocks=4, extra="repeat: {instances: 2, iterations: 2}\n")
    for trial in folder.trials:
        first = 2 * (trial.block % 2)
        assert printed(folder, trial) == [f"{first + 1}\n", f"{first + 2}\n"]
    assert len(folder.provisioned) == 6
