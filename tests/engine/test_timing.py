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
    assert all(each.clock is not None and each.clock.shared for each in folder.provisioned)
    for trial in folder.trials:
        (found,) = trial.clocks.values()
        assert found.shared and found.messages == 2 and len(found.looks) == 1
        assert (found.drifted_ns, found.residual_ns) == (None, None)
        (role,) = trial.roles
        assert role.start_ns == role.start_local_ns
        assert found.hard_ns == role.clock_bound_ns <= 1_000_000
    looks = [event for event in folder.events if isinstance(event, Synchronised)]
    assert {look.why for look in looks} == {"connect", "thaw"}
    named = {(look.instance, look.number) for look in looks}
    assert len(named) == len(looks)
    for trial in folder.trials:
        for instance, found in trial.clocks.items():
            assert {(instance, number) for number in found.looks} <= named


@pytest.mark.usefixtures("false_clocks")
def test_another_time_is_found_and_corrected(tmp_path: Path) -> None:
    _, folder = run(tmp_path, [SLEEP])
    assert not any(each.clock is None or each.clock.shared for each in folder.provisioned)
    assert {trial.status for trial in folder.trials} == {"ok"}
    looks = {
        (event.instance, event.number): event
        for event in folder.events
        if isinstance(event, Synchronised)
    }
    for trial in folder.trials:
        ((instance, found),) = trial.clocks.items()
        (role,) = trial.roles
        before, after = (looks[instance, number] for number in found.looks)
        assert (before.why, after.why) == ("thaw", "after")
        assert before.at_ns < role.start_ns < role.end_ns < after.at_ns
        assert found.drifted_ns == after.offset_ns - before.offset_ns
        assert found.drift_unsure_ns == after.hard_ns + before.hard_ns
        assert abs(found.drifted_ns - 11_250e-9 * (found.between_ns or 0)) <= found.drift_unsure_ns
        ahead = role.start_local_ns - role.start_ns
        assert abs(ahead - before.offset_ns) <= found.hard_ns + before.hard_ns
        assert found.reasons and "distorted" in found.reasons
        assert 0 < found.sure_ns <= found.hard_ns
    last = [t for t in folder.trials if t.environment == "native"][-1]
    assert all(found.residual_ns is not None for found in last.clocks.values())
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
        found = await real(client, why)
        if why != "after":
            return found
        fix = found.first.fix
        late = clock.Fix(
            local_ns=fix.local_ns,
            offset_ns=fix.offset_ns - 30_000_000,
            half_ns=fix.half_ns,
            sure_ns=fix.sure_ns,
            noise_ns=fix.noise_ns,
            rtt_ns=fix.rtt_ns,
        )
        return ClockMap(type(found.first)(**{**found.first.__dict__, "fix": late}))

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

    def suspended(*arguments: Any) -> process.Finished:
        told = real(*arguments)
        if told.end_ns - told.start_ns < 40_000_000:
            return told  # not the trial's program
        return process.Finished(**{**told.__dict__, "reasons": (*told.reasons, "suspended")})

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
