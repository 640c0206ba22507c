"""Duets: two environments at the same time, each on its own CPUs."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.enginekit import cut, engine, printed, resumed, run
from tests.support.pairskit import log_ratios_so_far
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import Bytes
from ullage.engine import turn as trial_module
from ullage.environments import placement
from ullage.environments.agent.client import AgentClient, Process
from ullage.environments.placement import Resources
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import JOURNAL
from ullage.workloads import command
from ullage.workloads.base import Context, Task

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("places_of_its_own"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a duet needs two CPUs"),
]
DUET = "design: duet\n"
SLEEP = 'name: command, argv: ["sleep", "0.2"]'


@pytest.fixture(autouse=True)
def any_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may start one of two a while after the other; these trials are short."""
    monkeypatch.setattr(trial_module, "LEAST_OVERLAP", 0.01)


def in_other(then: str, otherwise: str = "true") -> str:
    """A workload that does one thing in `other`, and another elsewhere; both take 0.2 s."""
    script = f"sleep 0.2; case $PWD in */other-*) {then};; *) {otherwise};; esac"
    return f'name: command, argv: ["sh", "-c", "{script}"]'


def duets(folder: RunFolder) -> list[tuple[Trial, Trial]]:
    """The pairs in the order in which they ran: first the environment, then its baseline."""
    ordered = sorted(folder.trials, key=lambda trial: (trial.block, trial.order))
    return list(zip(ordered[::2], ordered[1::2], strict=True))


def codes(folder: RunFolder, environment: str, partner: str) -> list[str]:
    return [
        trial.reason.code if trial.reason else ""
        for trial in folder.trials
        if (trial.environment, trial.partner) == (environment, partner)
    ]


def log_ratios(folder: RunFolder) -> dict[str, int]:
    """Environment → how many pairs it makes."""
    metrics = {load.key: load.metrics for load in folder.resolved.workloads}
    ratios = log_ratios_so_far(folder.trials, "native", ["other", "native~again"], metrics)
    return {key.partition("/")[0]: len(values) for key, values in ratios.items()}


def test_every_environment_runs_beside_a_baseline_of_its_own(tmp_path: Path) -> None:
    status = 'name: command, argv: ["sh", "-c", "sleep 0.2; cat /proc/self/status"]'
    outcome, folder = run(tmp_path, [status], blocks=4, extra=DUET)
    assert (outcome.blocks, outcome.trials, outcome.failed) == (4, 16, 0)
    assert folder.complete_blocks == (0, 1, 2, 3)
    assert folder.resolved.design == "duet"
    assert log_ratios(folder) == {"other": 4, "native~again": 4}
    sides: Counter[tuple[str, int, int | None]] = Counter()
    for tested, baseline in duets(folder):
        assert tested.environment in ("other", "native~again")
        assert (tested.partner, baseline.partner) == ("native", tested.environment)
        assert {tested.side, baseline.side} == {0, 1}
        assert max(tested.start_ns, baseline.start_ns) < min(tested.end_ns, baseline.end_ns)
        sides[tested.environment, tested.block // 2, tested.side] += 1
        for trial in (tested, baseline):
            assert trial.side is not None
            cpus, _ = placement.side(Resources(cpus=1), trial.side)
            (line,) = [
                x for x in printed(folder, trial)[0].splitlines() if "Cpus_allowed_list" in x
            ]
            assert line.split()[1] == ",".join(map(str, cpus))
    assert set(sides.values()) == {1}, "once on each side, in every two blocks"
    assert len(sides) == 8
    for before, after in itertools.pairwise(duets(folder)):
        assert max(t.end_ns for t in before) < min(t.start_ns for t in after)


def test_only_the_two_are_awake(tmp_path: Path) -> None:
    mine = "{ grep freezer /proc/self/cgroup || cat /proc/self/cgroup; } | cut -d: -f3"
    states = "freezer${d%/*}/*/freezer.state .${d%/*}/*/cgroup.freeze"
    look = f"sleep 0.1; cd /sys/fs/cgroup; d=$({mine}); cat {states} 2>/dev/null; sleep 0.1"
    _, folder = run(tmp_path, [f'name: command, argv: ["sh", "-c", "{look}"]'], extra=DUET)
    for trial in folder.trials:
        awake = sorted(printed(folder, trial)[0].split())
        assert awake in (["FROZEN"] * 4 + ["THAWED"] * 2, ["0"] * 2 + ["1"] * 4), awake


def test_the_one_that_ends_first_waits(tmp_path: Path) -> None:
    _, folder = run(tmp_path, [in_other("sleep 0.3")], extra=f"{DUET}repeat: {{iterations: 2}}\n")
    assert {trial.status for trial in folder.trials} == {"ok"}
    for pair in duets(folder):
        first = [trial.roles[0] for trial in pair]
        second = [trial.roles[1] for trial in pair]
        assert max(role.start_ns for role in first) < min(role.end_ns for role in first)
        assert max(role.end_ns for role in first) < min(role.start_ns for role in second)
        assert max(role.start_ns for role in second) < min(role.end_ns for role in second)


# --- failures -------------------------------------------------------------------------------------
def test_one_half_that_fails_leaves_the_other_its_figures(tmp_path: Path) -> None:
    _, folder = run(tmp_path, [in_other("exit 1")], extra=DUET)
    assert codes(folder, "other", "native") == ["not-valid"] * 2
    assert codes(folder, "native", "other") == [""] * 2
    assert codes(folder, "native~again", "native") == [""] * 2
    assert log_ratios(folder) == {"other": 0, "native~again": 2}


def test_nothing_runs_beside_one_that_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(_: object, __: object, context: Context) -> Sequence[Task]:
        return (Task("main", ("false",)),) if "/other-" in context.workspace else ()

    monkeypatch.setattr(command.OwnCommand, "prepare", prepare)
    _, folder = run(tmp_path, [SLEEP], extra=DUET)
    assert codes(folder, "other", "native") == ["prepare-failed"] * 2
    assert codes(folder, "native", "other") == ["partner-failed"] * 2
    idle = [t for t in folder.trials if "other" in (t.environment, t.partner)]
    assert len(idle) == 4 and not any(trial.roles for trial in idle)
    assert log_ratios(folder) == {"other": 0, "native~again": 2}


def test_a_half_that_fails_between_iterations_ends_the_pair(tmp_path: Path) -> None:
    once = in_other("echo >> log; test $(wc -l < log) -lt 2")
    _, folder = run(tmp_path, [once], blocks=1, extra=f"{DUET}repeat: {{iterations: 3}}\n")
    assert codes(folder, "other", "native") == ["not-valid"]
    assert codes(folder, "native", "other") == ["partner-failed"]
    (alone,) = [t for t in folder.trials if (t.environment, t.partner) == ("native", "other")]
    assert (len(alone.roles), alone.metrics, alone.iterations) == (2, {}, ())


def test_what_ran_alone_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is held up for longer than the other takes."""
    real = AgentClient.spawn

    async def spawn(self: AgentClient, command: Any, **more: Any) -> Process:
        if more.get("at_ns") and "/other-" in command.cwd:
            more["at_ns"] += 2_000_000_000
        return await real(self, command, **more)

    monkeypatch.setattr(AgentClient, "spawn", spawn)
    _, folder = run(tmp_path, [SLEEP], blocks=1, extra=DUET)
    assert codes(folder, "other", "native") == ["not-beside"]
    assert codes(folder, "native", "other") == ["not-beside"]
    assert codes(folder, "native~again", "native") == [""]
    for trial in folder.trials:
        assert (trial.status == "ok") == bool(trial.metrics)
        if trial.environment == "other":
            assert trial.reason and trial.reason.message.startswith("0% of the shorter")


def test_a_program_that_does_not_start_leaves_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = AgentClient.spawn

    async def spawn(self: AgentClient, command: Any, **more: Any) -> Process:
        if more.get("at_ns") and "/other-" in command.cwd:
            raise UllageError(
                errors.AGENT_REFUSED, agent="other", op="spawn", reason="no", error="x"
            )
        return await real(self, command, **more)

    monkeypatch.setattr(AgentClient, "spawn", spawn)
    _, folder = run(tmp_path, [SLEEP], extra=DUET)
    assert codes(folder, "other", "native") == ["agent-refused"] * 2
    assert codes(folder, "native", "other") == ["not-beside"] * 2


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [
        ((0, 100), (0, 100), 1.0),
        ((0, 100), (10, 500), 0.9),
        ((0, 100), (50, 150), 0.5),
        ((0, 1000), (20, 30), 1.0),
        ((0, 10), (20, 30), 0.0),
        ((5, 5), (0, 10), 0.0),
        (None, (0, 10), 0.0),
    ],
)
def test_overlap_is_of_the_shorter(
    first: tuple[int, int] | None, second: tuple[int, int], share: float
) -> None:
    assert trial_module._overlap(first, second) == trial_module._overlap(second, first) == share


def test_an_instance_that_dies_is_made_again_on_both_sides(tmp_path: Path) -> None:
    died = f"{tmp_path}/died"
    kill = in_other(f"test -e {died} || {{ touch {died}; kill -9 $PPID; sleep 5; }}")
    _, folder = run(tmp_path, [kill], blocks=3, extra=DUET)
    assert sorted(codes(folder, "other", "native")) == ["", "", "agent-lost"]
    provisioned = Counter(event.instance for event in folder.provisioned)
    assert provisioned["other-0"] == provisioned["other-1"] == 2
    assert provisioned["native-0"] == provisioned["native-1"] == 1


# --- resuming -------------------------------------------------------------------------------------
def test_half_a_pair_is_run_again_as_a_whole(tmp_path: Path) -> None:
    """A power cut may leave the first half of what was written at once."""
    first_run = engine(tmp_path, [SLEEP], blocks=2, extra=DUET)
    asyncio.run(first_run.run())
    file = first_run.folder / JOURNAL
    lines = file.read_bytes().splitlines(keepends=True)
    trials = [i for i, line in enumerate(lines) if b'"event":"trial"' in line]
    file.write_bytes(b"".join(lines[: trials[-1]]))
    before = RunFolder.open(first_run.folder)
    assert len(before.trials) == 7 and before.complete_blocks == (0,)
    assert sum(log_ratios(before).values()) == 3
    asyncio.run(resumed(first_run).run())
    after = RunFolder.open(first_run.folder)
    assert len(after.trials) == 8 and after.complete_blocks == (0, 1)
    assert after.trials[:6] == before.trials[:6]
    lost, again = before.trials[6], after.trials[6]
    assert (again.trial, again.side) == (lost.trial, lost.side)
    assert again.start_ns > lost.end_ns
    assert log_ratios(after) == {"other": 2, "native~again": 2}


def test_interrupted_and_resumed(tmp_path: Path) -> None:
    first_run = engine(tmp_path, [SLEEP], blocks=3, extra=DUET)
    cut(first_run, 7)
    before = RunFolder.open(first_run.folder)
    assert len(before.trials) % 2 == 0 and before.finished is not None
    asyncio.run(resumed(first_run).run())
    after = RunFolder.open(first_run.folder)
    assert after.trials[: len(before.trials)] == before.trials
    assert log_ratios(after) == {"other": 3, "native~again": 3}


# --- levels ---------------------------------------------------------------------------------------
def test_generations_of_both_sides(tmp_path: Path) -> None:
    count = 'name: command, argv: ["sh", "-c", "echo >> log; wc -l < log; sleep 0.2"]'
    _, folder = run(tmp_path, [count], blocks=4, extra=f"{DUET}repeat: {{instances: 2}}\n")
    assert {trial.generation for trial in folder.trials} == {0, 1}
    assert len(folder.provisioned) == 2 * 6
    others = [trial for trial in folder.trials if trial.environment == "other"]
    assert [printed(folder, trial) for trial in others] == [["1\n"]] * 4, (
        "each side, each making, once"
    )
    assert log_ratios(folder) == {"other": 2, "native~again": 2}, "means of generations"


# --- this host ------------------------------------------------------------------------------------
def test_too_few_cpus_are_refused_before_anything_runs(tmp_path: Path) -> None:
    cpus = len(os.sched_getaffinity(0)) // 2 + 1
    refused = engine(tmp_path, [SLEEP], extra=DUET, cpus=cpus)
    with pytest.raises(UllageError) as caught:
        asyncio.run(refused.run())
    assert caught.value.kind is errors.HOST_TOO_SMALL
    assert f"{2 * cpus} CPUs, {cpus} for each side of a duet" in caught.value.message
    assert not RunFolder.open(refused.folder).provisioned


def host_with(monkeypatch: pytest.MonkeyPatch, root: Path, siblings: dict[int, str]) -> None:
    for cpu, text in siblings.items():
        place = root / f"cpu{cpu}/topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(f"{text}\n")
    monkeypatch.setattr(placement, "CPUS", root)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(siblings))


def resources(cpus: float) -> Resources:
    return Resources(cpus=cpus, memory=Bytes(1 << 30))


@pytest.mark.parametrize(
    ("siblings", "cpus", "sides", "shared"),
    [
        ({0: "0", 1: "1"}, 1, ((0,), (1,)), False),
        ({0: "0-1", 1: "0-1"}, 1, ((0,), (1,)), True),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, 1, ((0,), (3,)), False),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, 2, ((0, 2), (1, 3)), False),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, 2, ((0, 1), (2, 3)), False),
        ({n: f"{n // 2 * 2}-{n // 2 * 2 + 1}" for n in range(6)}, 3, ((0, 1, 2), (3, 4, 5)), True),
        ({0: "nonsense", 1: ""}, 0.5, ((0,), (1,)), False),
    ],
)
def test_sides_share_no_core_where_they_need_not(
    siblings: dict[int, str],
    cpus: float,
    sides: tuple[tuple[int, ...], tuple[int, ...]],
    shared: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host_with(monkeypatch, tmp_path, siblings)
    quota = None if cpus == int(cpus) else cpus
    assert placement.side(resources(cpus), 0) == (sides[0], quota)
    assert placement.side(resources(cpus), 1) == (sides[1], quota)
    doubt = placement.shared_core(resources(cpus))
    assert (doubt is not None) == shared
    assert doubt is None or "share a core" in doubt


def test_a_shared_core_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_core", lambda _: 0)
    _, folder = run(tmp_path, [SLEEP], blocks=1, extra=DUET)
    assert [warned.code for warned in folder.warnings] == ["core-shared"]
