"""What goes wrong around trials: nothing is lost, nothing is left, no figure is made of it."""

from __future__ import annotations

import asyncio
import errno
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import enginekit
from tests.support.enginekit import cut, frozen, resumed, run
from tests.support.peer import FLOOD
from ullage.analysis.overhead import analyse
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine import program
from ullage.engine.engine import Engine
from ullage.engine.fleet import Fleet
from ullage.engine.team import Team, perform
from ullage.environments import placement
from ullage.environments.agent import process
from ullage.environments.agent.client import AgentClient
from ullage.environments.agent.frames import Message
from ullage.environments.base import Instance, InstanceSpec
from ullage.environments.native import Native, NativeInstance
from ullage.host import leftovers
from ullage.plan.matrix import Case
from ullage.runs.events import Reason, Usage
from ullage.runs.reader import RunFolder
from ullage.workloads import command

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]

TRUE = 'name: command, argv: ["true"]'
Edit = Callable[[str], str]


def engine(root: Path, *loads: str, **more: Any) -> Engine:
    return enginekit.engine(root, loads or [TRUE], **more)


def test_environments_that_cannot_be_made_give_one_plain_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Native.create

    async def create(self: Native, spec: InstanceSpec) -> Instance:
        if spec.name.startswith("native"):
            return await real(self, spec)
        raise UllageError(errors.LIMIT_NOT_APPLIED, instance=spec.name, asked="1 CPU", seen="2")

    monkeypatch.setattr(Native, "create", create)
    with pytest.raises(UllageError) as caught:
        asyncio.run(engine(tmp_path).run())
    assert caught.value.kind is errors.LIMIT_NOT_APPLIED


# --- resuming -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("edit", "change"),
    [
        (lambda text: text.replace('"true"', '"false"'), "workload command"),
        (lambda text: text.replace("268435456", "536870912"), "resources"),
        (lambda text: text.replace('"margin": 0.05', '"margin": 0.1'), "margin"),
        (
            lambda text: text.replace('"other": {', '"third": {"provider": "native"}, "other": {'),
            "environment third",
        ),
        (lambda text: text.replace('"iterations": 2', '"iterations": 3'), "the levels"),
        (lambda text: text.replace('"seed"', '"design": "duet", "seed"'), "the design"),
        (
            lambda text: text.replace('"seed"', '"correction": "benjamini-hochberg", "seed"'),
            "the correction",
        ),
    ],
)
def test_a_changed_plan_is_no_resumption(edit: Edit, change: str, tmp_path: Path) -> None:
    first = engine(tmp_path, blocks=3, extra="margin: 5%\nrepeat: {iterations: 2}\n")
    cut(first, 5)
    before = RunFolder.open(first.folder)
    with pytest.raises(UllageError) as caught:
        asyncio.run(resumed(first, edit).run())
    assert caught.value.kind is errors.RUN_CHANGED
    assert change in caught.value.message
    after = RunFolder.open(first.folder)
    assert after.trials == before.trials
    assert after.resolved == before.resolved
    asyncio.run(resumed(first).run())
    assert len(RunFolder.open(first.folder).trials) == 9


def test_more_blocks_are_a_resumption(tmp_path: Path) -> None:
    first = engine(tmp_path, blocks=2)
    asyncio.run(first.run())
    more = resumed(first, lambda text: text.replace('"max": 2', '"max": 3'))
    assert asyncio.run(more.run()).blocks == 3


def test_a_resumption_that_fails_takes_nothing_from_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ", resources: {cpus: 1, memory: 512MiB}"
    first = engine(tmp_path, other=more, extra="allow: [memory]\n")
    cut(first, 2)
    before = RunFolder.open(first.folder).resolved
    assert [row.nuisance for row in before.parity if row.allowed] == ["memory"]

    async def no(self: Fleet) -> None:
        raise UllageError(errors.HOST_TOO_SMALL, asked="more", has="less")

    monkeypatch.setattr(Fleet, "start", no)
    with pytest.raises(UllageError):
        asyncio.run(resumed(first).run())
    assert RunFolder.open(first.folder).resolved == before


def test_a_run_that_is_over_is_left_alone(tmp_path: Path) -> None:
    first = engine(tmp_path)
    asyncio.run(first.run())
    before = (first.folder / "journal.jsonl").read_bytes()
    outcome = asyncio.run(resumed(first).run())
    assert (outcome.reason, outcome.trials) == ("blocks", 6)
    assert (first.folder / "journal.jsonl").read_bytes() == before


def test_a_run_that_is_over_is_not_of_another_plan(tmp_path: Path) -> None:
    first = engine(tmp_path, extra="margin: 5%\n")
    asyncio.run(first.run())
    changes: tuple[Edit, ...] = (
        lambda text: text.replace('"margin": 0.05', '"margin": 0.1'),
        lambda text: text.replace('"seed"', '"repeat": {"iterations": 2}, "seed"'),
        lambda text: text.replace("268435456", "536870912"),
    )
    for change in changes:
        with pytest.raises(UllageError) as caught:
            asyncio.run(resumed(first, change).run())
        assert caught.value.kind is errors.RUN_CHANGED


def test_a_run_without_its_description_is_not_begun_again(tmp_path: Path) -> None:
    first = engine(tmp_path)
    asyncio.run(first.run())
    (first.folder / "resolved.json").unlink()
    before = (first.folder / "journal.jsonl").read_bytes()
    with pytest.raises(UllageError) as caught:
        asyncio.run(resumed(first).run())
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    assert (first.folder / "journal.jsonl").read_bytes() == before


CLAIM = """
import sys
from ullage.host import claims
claims.claim('u1234567', '/other')
print(flush=True)
sys.stdin.read()
"""


def test_two_runs_at_once_doubt_each_other(tmp_path: Path) -> None:
    own_run = engine(tmp_path, 'name: command, argv: ["sleep", "0.2"]', blocks=3)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", CLAIM], stdin=pipe, stdout=pipe) as other_run:
        assert other_run.stdout is not None
        other_run.stdout.readline()
        asyncio.run(own_run.run())
    folder = RunFolder.open(own_run.folder)
    assert [warned.code for warned in folder.warnings] == ["host-shared"]
    assert "host-shared" in {doubt.code for doubt in analyse(folder).doubts}


# --- tearing down ---------------------------------------------------------------------------------
def test_ctrl_c_during_the_tear_down_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun = NativeInstance.destroy, asyncio.Event()

    async def slow(self: NativeInstance) -> None:
        begun.set()
        await asyncio.sleep(0.3)
        await real(self)

    monkeypatch.setattr(NativeInstance, "destroy", slow)
    interrupted = engine(tmp_path)

    async def scenario() -> None:
        task = asyncio.create_task(interrupted.run())
        await begun.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.05)
        await task

    asyncio.run(scenario())
    folder = RunFolder.open(interrupted.folder)
    assert folder.finished is not None
    assert folder.finished.reason == "blocks"
    assert leftovers.find(interrupted.tag, own=True) == []


def test_a_destroy_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no(self: NativeInstance) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(NativeInstance, "destroy", no)
    broken = engine(tmp_path)
    asyncio.run(broken.run())
    folder = RunFolder.open(broken.folder)
    assert folder.finished is not None
    assert "not-removed" in {warned.code for warned in folder.warnings}
    assert leftovers.find(broken.tag, own=True) == []


def test_a_program_that_stops_its_agent_and_floods_its_pipe_holds_nobody(tmp_path: Path) -> None:
    """As root inside can; it was there for ever, and so was the controller."""
    flood = tmp_path / "flood.sh"
    flood.write_text(FLOOD)
    load = f'name: command, argv: ["sh", "{flood}"]'
    hostile = engine(tmp_path, load, blocks=1)
    outcome = asyncio.run(asyncio.wait_for(hostile.run(), 300))
    folder = RunFolder.open(hostile.folder)
    assert (outcome.reason, outcome.failed, len(folder.trials)) == ("blocks", 3, 3)
    codes = {trial.reason.code for trial in folder.trials if trial.reason}
    assert codes == {errors.AGENT_LOST.code}
    assert leftovers.find(hostile.tag, own=True) == []


# --- instances ------------------------------------------------------------------------------------
def test_one_that_cannot_be_frozen_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck: list[str] = []
    real = NativeInstance.freeze

    async def freeze(self: NativeInstance) -> None:
        if self.name.startswith("other") and "trial" in self.__dict__ and not stuck:
            stuck.append(self.name)
            raise UllageError(errors.CGROUP_STUCK, path="/x", state="FROZEN", seconds=10.0)
        self.__dict__["trial"] = True  # the first freeze is after its preparation
        await real(self)

    monkeypatch.setattr(NativeInstance, "freeze", freeze)
    _, folder = run(tmp_path, [TRUE], blocks=3)
    assert stuck
    assert [trial.status for trial in folder.trials] == ["ok"] * 9
    provisioned = [e.environment for e in folder.events if e.event == "provisioned"]
    assert sorted(provisioned) == ["native", "native~again", "other", "other"]
    assert "not-frozen" in {warned.code for warned in folder.warnings}


def test_one_that_does_not_wake_leaves_no_other_awake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[str] = []
    real = NativeInstance.thaw

    async def thaw(self: NativeInstance) -> None:
        await real(self)
        woken.append(self.name)
        if self.name == "other-1" and woken.count("other-1") == 1:
            raise UllageError(errors.CGROUP_STUCK, path="/x", state="THAWED", seconds=10.0)

    states: list[dict[str, bool]] = []
    freeze = Fleet.freeze

    async def then_look(self: Fleet, teams: Any) -> None:
        await freeze(self, teams)
        states.append(
            {i.name: frozen(i) for instances in self._instances.values() for i in instances}
        )

    monkeypatch.setattr(NativeInstance, "thaw", thaw)
    monkeypatch.setattr(Fleet, "freeze", then_look)
    _, folder = run(tmp_path, [TRUE], other=", instances: 2", extra="allow: [instances]\n")
    failed = [trial for trial in folder.trials if trial.status != "ok"]
    assert [trial.reason.code for trial in failed if trial.reason] == ["cgroup-stuck"]
    assert states and all(all(state.values()) for state in states), states


def test_a_cleanup_that_cannot_be_done_takes_nothing_from_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def performed(
        team: Team, case: Case, seed: int, make: Callable[..., Any]
    ) -> Reason | None:
        if make.__name__ == "cleanup":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "freezer.state")
        return await perform(team, case, seed, make)

    monkeypatch.setattr("ullage.engine.fleet.perform", performed)
    outcome, folder = run(tmp_path, [TRUE])
    assert (outcome.reason, outcome.failed, len(folder.trials)) == ("blocks", 0, 6)
    messages = [warned.message for warned in folder.warnings if warned.code == "no-cleanup"]
    assert len(messages) == 3, "once for each environment"


def test_idle_instances_stand_still(tmp_path: Path) -> None:
    """Each trial looks at the freezer itself: only its own instance is thawed."""
    mine = "{ grep freezer /proc/self/cgroup || cat /proc/self/cgroup; } | cut -d: -f3"
    states = "freezer${d%/*}/*/freezer.state .${d%/*}/*/cgroup.freeze"
    look = f"cd /sys/fs/cgroup; d=$({mine}); cat {states}"
    _, folder = run(tmp_path, [f'name: command, argv: ["sh", "-c", "{look} 2>/dev/null; true"]'])
    for trial in folder.trials:
        printed = (folder.path / str(trial.roles[0].stdout)).read_text().split()
        assert sorted(printed) in (["FROZEN", "FROZEN", "THAWED"], ["0", "1", "1"]), printed


def test_what_a_trial_leaves_running_is_ended(tmp_path: Path) -> None:
    marker = f"{time.time_ns() % 10**9}.25"  # tells our sleeps from everybody else's
    look = f"ps -C sleep -o args | grep {marker}"
    leave = f"setsid sleep {marker} & until {look} -q; do sleep 0.01; done; {look} -c"
    _, folder = run(tmp_path, [f'name: command, argv: ["sh", "-c", "{leave}"]'], blocks=3)
    printed = [(folder.path / str(t.roles[0].stdout)).read_text() for t in folder.trials]
    assert printed == ["1\n"] * 9
    messages = [warned.message for warned in folder.warnings if warned.code == "left-running"]
    assert len(messages) == 3, "once for each instance"


@pytest.mark.parametrize(
    ("lie", "word"),
    [
        ({"user_s": 18e9}, "1.8e\\+10 s of CPU time in"),
        ({"max_rss_bytes": 2**62}, "4.61e\\+18 bytes"),
    ],
)
def test_what_no_program_can_have_used_is_not_believed(
    lie: dict[str, Any], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one that took no time: 18 billion CPU seconds in a microsecond."""
    real = process._usage

    def lying(rusage: Message) -> Usage:
        usage = real(rusage)
        assert usage is not None
        return usage.model_copy(update=lie)

    monkeypatch.setattr(process, "_usage", lying)
    _, folder = run(tmp_path, [TRUE], blocks=1)
    reasons = [trial.reason for trial in folder.trials]
    assert [reason.code for reason in reasons if reason] == ["limit-not-held"] * 3
    assert all(reason and re.search(word, reason.message) for reason in reasons)
    assert all(not trial.metrics for trial in folder.trials)


def test_a_child_that_holds_the_output_takes_nothing_from_the_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ullage.engine.program.LAG_NS", 250_000_000)  # as it is
    _, folder = run(tmp_path, ['name: command, argv: ["sh", "-c", "sleep 5 & exit 0"]'], blocks=1)
    assert [trial.reason for trial in folder.trials] == [None] * 3
    assert all(float(str(trial.metrics["seconds"])) < 0.9 for trial in folder.trials)
    held = [warned.message for warned in folder.warnings if warned.code == "output-held"]
    assert len(held) == 3, "once for each instance"


# --- certain failures -----------------------------------------------------------------------------
def test_a_cell_that_only_fails_alike_is_skipped_and_named(tmp_path: Path) -> None:
    """Its trials are all in the journal, without a figure; those of the others go on."""
    counter = tmp_path / "tried"
    fails = f'name: command, argv: ["sh", "-c", "echo >>{counter}; exit 7"]'
    fine = 'name: command, argv: ["sleep", "0.01"]'
    _, folder = run(tmp_path, [fails + ", as: fails", fine + ", as: fine"], blocks=8)
    cells = {cell: [t for t in folder.trials if t.workload == cell] for cell in ("fails", "fine")}
    assert [trial.status for trial in cells["fine"]] == ["ok"] * 24
    assert len(counter.read_text()) == 3 * 5, "five times in each environment"
    for environment in ("native", "native~again", "other"):
        codes = [
            trial.reason.code
            for trial in cells["fails"]
            if trial.environment == environment and trial.reason
        ]
        assert codes == ["not-valid"] * 5 + ["skipped"] * 3
    assert all(not trial.metrics for trial in cells["fails"])
    skipped = [w.message for w in folder.warnings if w.code == "cell-skipped"]
    assert len(skipped) == 3, "once for each environment"
    assert all("5 trials in a row failed alike, not-valid: " in message for message in skipped)


def test_failures_that_are_not_alike_are_tried_to_the_end(tmp_path: Path) -> None:
    counter = tmp_path / "tried"
    script = f"echo >>{counter}; exit $(($(wc -l <{counter}) % 4))"
    _, folder = run(tmp_path, [f'name: command, argv: ["sh", "-c", "{script}"]'], blocks=8)
    codes = [trial.reason.code for trial in folder.trials if trial.reason]
    assert codes == ["not-valid"] * 18
    assert "cell-skipped" not in {warned.code for warned in folder.warnings}


@pytest.mark.parametrize("program", ["no-such-program", "/etc/passwd", "./nothing"])
def test_a_program_that_is_not_there_is_not_tried(program: str, tmp_path: Path) -> None:
    _, folder = run(tmp_path, [f'name: command, argv: ["{program}"]'], blocks=2)
    reasons = [trial.reason for trial in folder.trials]
    assert [reason.code for reason in reasons if reason] == ["not-there"] * 6
    assert all(not trial.roles for trial in folder.trials)
    assert [w.code for w in folder.warnings].count("not-there") == 3


# --- figures --------------------------------------------------------------------------------------
def test_the_news_of_many_ends_may_be_as_old_as_it_takes_to_hear_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "LAG_NS", 250_000_000)  # as it is
    few, many = (program.most_lag_ns(10_000_000, programs) for programs in (1, 1000))
    assert many - few == 999 * program.NEWS_NS
    assert program.most_lag_ns(100_000_000_000, 1) == 10_000_000_000 + program.NEWS_NS


@pytest.mark.parametrize("factor", [0.5, 2.0, 1e9])
def test_a_guests_clock_is_not_believed(
    factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ullage.engine.program.LAG_NS", 250_000_000
    )  # as it is: half of it is 0.3 s
    real = process._finished

    def lying(*arguments: Any) -> process.ProgramEnd:
        finished = real(*arguments)
        end = finished.start_ns + round((finished.end_ns - finished.start_ns) * factor)
        return process.ProgramEnd(**{**finished.__dict__, "end_ns": end, "end_local_ns": end})

    monkeypatch.setattr(process, "_finished", lying)
    _, folder = run(tmp_path, ['name: command, argv: ["sleep", "0.6"]'], blocks=1)
    assert {trial.reason.code for trial in folder.trials if trial.reason} == {"clock-broken"}
    assert all(not trial.metrics for trial in folder.trials)


def test_a_check_that_falls_fails_its_trial_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(*_: object) -> None:
        raise OverflowError("int too large to convert to float")

    monkeypatch.setattr(command.OwnCommand, "check", check)
    outcome, folder = run(tmp_path, [TRUE])
    assert (outcome.reason, outcome.failed) == ("blocks", 6)
    assert {trial.status for trial in folder.trials} == {"invalid"}
    assert all("OverflowError in the check" in str(trial.reason) for trial in folder.trials)


def test_output_that_was_cut_gives_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = AgentClient.spawn.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "keep_bytes", 1000)
    _, folder = run(tmp_path, ['name: command, argv: ["seq", "5000"]'], blocks=1)
    assert {trial.reason.code for trial in folder.trials if trial.reason} == {"output-cut"}
    assert all("print less, or into a file" in str(trial.reason) for trial in folder.trials)
    raw = folder.path / str(folder.trials[0].roles[0].stdout)
    assert raw.read_text().endswith("5000\n")


def test_a_guests_words_in_a_reason_are_harmless(tmp_path: Path) -> None:
    evil = r"printf '\\033]0;pwned\\007\\033[2J' >&2; kill -9 $$"
    _, folder = run(tmp_path, [f'name: command, argv: ["sh", "-c", "{evil}"]'], blocks=1)
    for trial in folder.trials:
        assert trial.reason is not None and trial.reason.code == "killed"
        assert trial.reason.message.isprintable() and "pwned" in trial.reason.message


# --- before the first trial -----------------------------------------------------------------------
def test_the_hosts_programs_are_looked_for_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UllageError) as caught:
        asyncio.run(engine(tmp_path, "name: sysbench-cpu", "name: wrk, server: apache2").run())
    assert caught.value.kind is errors.HOST_MISSING
    assert "apache2, sysbench, wrk" in caught.value.message
    assert "apt-get install apache2 sysbench wrk" in caught.value.hint
    assert "nginx" not in str(caught.value), "the plan asks for Apache"


def test_memory_that_all_share_twice_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Native, "keeps_memory", True)
    monkeypatch.setattr(placement, "memory_bytes", lambda: 700 << 20)
    crowded = engine(tmp_path, blocks=1)
    asyncio.run(crowded.run())
    assert "memory-overcommitted" in {w.code for w in RunFolder.open(crowded.folder).warnings}
