"""The clocks of trials, with real native instances: shared, false on purpose, and broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.enginekit import run
from ullage.engine import trial_clocks
from ullage.environments.agent import process
from ullage.environments.agent.client import AgentClient
from ullage.environments.agent.clock import ClockMap
from ullage.host import clock
from ullage.report import time
from ullage.report.views import Specs
from ullage.runs import parquet
from ullage.runs.events import Synchronised

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]
SLEEP = 'name: command, argv: ["sleep", "0.05"]'


@pytest.fixture
def false_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents started from here on are 11.25 ppm fast and 2 s ahead; our own clock is set."""
    clock.ordered_ns()
    monkeypatch.setenv("ULLAGE_CLOCK_DISTORT", "11250,2000000000")


def test_one_kernel_has_one_time(tmp_path: Path) -> None:
    _, folder = run(tmp_path, [SLEEP])
    assert folder.sessions[0].clock is not None
    assert all(event.clock is not None and event.clock.shared for event in folder.provisioned)
    for trial in folder.trials:
        (own_clock,) = trial.clocks.values()
        assert own_clock.shared and own_clock.messages == 2 and len(own_clock.looks) == 1
        assert (own_clock.drifted_ns, own_clock.residual_ns) == (None, None)
        (role,) = trial.roles
        assert role.start_ns == role.start_local_ns
        assert own_clock.hard_ns == role.clock_bound_ns <= 1_000_000
    looks = [event for event in folder.events if isinstance(event, Synchronised)]
    assert {look.why for look in looks} == {"connect", "thaw"}
    named = {(look.instance, look.number) for look in looks}
    assert len(named) == len(looks)
    for trial in folder.trials:
        for instance, own_clock in trial.clocks.items():
            assert {(instance, number) for number in own_clock.looks} <= named


@pytest.mark.usefixtures("false_clocks")
def test_another_time_is_found_and_corrected(tmp_path: Path) -> None:
    _, folder = run(tmp_path, [SLEEP])
    assert not any(event.clock is None or event.clock.shared for event in folder.provisioned)
    assert {trial.status for trial in folder.trials} == {"ok"}
    looks = {
        (event.instance, event.number): event
        for event in folder.events
        if isinstance(event, Synchronised)
    }
    for trial in folder.trials:
        ((instance, instance_clock),) = trial.clocks.items()
        (role,) = trial.roles
        before, after = (looks[instance, number] for number in instance_clock.looks)
        assert (before.why, after.why) == ("thaw", "after")
        assert before.at_ns < role.start_ns < role.end_ns < after.at_ns
        assert instance_clock.drifted_ns == after.offset_ns - before.offset_ns
        assert instance_clock.drift_unsure_ns == after.hard_ns + before.hard_ns
        assert (
            abs(instance_clock.drifted_ns - 11_250e-9 * (instance_clock.between_ns or 0))
            <= instance_clock.drift_unsure_ns
        )
        ahead = role.start_local_ns - role.start_ns
        assert abs(ahead - before.offset_ns) <= instance_clock.hard_ns + before.hard_ns
        assert instance_clock.reasons and "distorted" in instance_clock.reasons
        assert 0 < instance_clock.sure_ns <= instance_clock.hard_ns
    last = [t for t in folder.trials if t.environment == "native"][-1]
    assert all(instance_clock.residual_ns is not None for instance_clock in last.clocks.values())
    rows = pq.read_table(parquet.write(folder)["clocks"]).to_pylist()
    assert len(rows) == len(folder.trials)
    assert all(row["between_ns"] > 50_000_000 and row["drifted_ns"] is not None for row in rows)
    page = time.view(folder, Specs())
    shown = " ".join(cell.text for row in page.tables[-1].rows for cell in row)
    assert "ppm" in shown and "distorted" in shown


@pytest.mark.usefixtures("false_clocks")
def test_a_clock_that_contradicts_itself_gives_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a guest's that was halted during the trial."""
    real = AgentClient.sync

    async def halted(client: AgentClient, why: Any = "thaw") -> ClockMap:
        instance_clock = await real(client, why)
        if why != "after":
            return instance_clock
        fix = instance_clock.first.fix
        late = clock.Fix(
            local_ns=fix.local_ns,
            offset_ns=fix.offset_ns - 30_000_000,
            half_ns=fix.half_ns,
            sure_ns=fix.sure_ns,
            noise_ns=fix.noise_ns,
            rtt_ns=fix.rtt_ns,
        )
        return ClockMap(
            type(instance_clock.first)(**{**instance_clock.first.__dict__, "fix": late})
        )

    monkeypatch.setattr(AgentClient, "sync", halted)
    _, folder = run(tmp_path, [SLEEP], blocks=1)
    reasons = [trial.reason for trial in folder.trials]
    assert {reason.code for reason in reasons if reason} == {"clock-broken"}
    assert all(reason and "moved by -" in reason.message for reason in reasons)
    assert all(not trial.metrics for trial in folder.trials)


def test_what_happens_to_a_clock_during_a_trial_gives_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = process._finished

    def suspended(*arguments: Any) -> process.ProgramEnd:
        reply = real(*arguments)
        if reply.end_ns - reply.start_ns < 40_000_000:
            return reply  # not the trial's program
        return process.ProgramEnd(**{**reply.__dict__, "reasons": (*reply.reasons, "suspended")})

    monkeypatch.setattr(process, "_finished", suspended)
    _, folder = run(tmp_path, [SLEEP], blocks=1)
    reasons = [trial.reason for trial in folder.trials]
    assert {reason.code for reason in reasons if reason} == {"clock-broken"}
    assert all(reason and "the machine was suspended" in reason.message for reason in reasons)


def test_our_own_clock_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = trial_clocks.Own.now, iter(range(100))

    def before(_: object) -> trial_clocks.Own:
        now = real()
        return trial_clocks.Own(now.disruptions - (1 if next(calls) == 0 else 0), now.reasons)

    monkeypatch.setattr(trial_clocks.Own, "now", classmethod(before))
    _, folder = run(tmp_path, [SLEEP], blocks=1)
    codes = [trial.reason.code if trial.reason else "" for trial in folder.trials]
    assert codes == ["clock-broken", "", ""]
