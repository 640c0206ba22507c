"""A tiny real run: the engine, the tools, exact work, and nothing left behind."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.statistics.injection import hindrances, plausibility, session
from benchmarks.statistics.injection.recording import Recording
from benchmarks.statistics.injection.sizes import Size
from benchmarks.statistics.injection.workloads import LOADS, PERCENTS, scaled
from ullage.common.commands import run
from ullage.host import cgroups

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]

TINY = Size("tiny", rounds=1, blocks=1, stretches=1, stretch=2, trial_s=0.01, hindered=1)


def test_a_tiny_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PILOT_BLOCKS", 1)
    hindrance_commands = commands(monkeypatch)
    keep = tmp_path / "keep"
    trials = session.begin(TINY, tmp_path / "runs", lambda recording: recording.save(keep))
    assert set(trials.recording.about.works) == set(trials.recording.about.fixed)
    trials.rounds()
    plausibility.run(trials)
    recording = Recording.load(keep)
    assert recording.rows == trials.recording.rows
    exact_and_complete(recording)
    hindered_and_removed(recording, hindrance_commands)


def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every command that a hindrance is made with."""
    lines: list[str] = []

    async def heard(argv: Sequence[str]) -> str:
        lines.append(" ".join(argv))
        return await run(argv)

    monkeypatch.setattr(hindrances, "run", heard)
    return lines


def exact_and_complete(recording: Recording) -> None:
    ok = [row for row in recording.rows if row.status == "ok"]
    assert {(row.part, row.workload, row.percent) for row in ok if row.part != "plausible"} == {
        *(("blocks", load.name, percent) for load in LOADS for percent in PERCENTS),
        *(("sequence", load.name, 100) for load in LOADS),
    }
    for row in ok:
        assert row.work == scaled(row.nominal, row.percent)
        assert row.seconds is not None and row.seconds > 0


def hindered_and_removed(recording: Recording, hindrance_commands: list[str]) -> None:
    about = recording.about
    done = {row.environment for row in recording.rows if row.status == "ok"}
    assert {expected.environment for expected in about.expected} <= done
    assert about.left_out.keys() <= {"CPU quota", "I/O throttle"}
    assert any("tbf rate" in line for line in hindrance_commands)
    tree = hindrances.Throttled.tree()
    for resolved in about.resolved.values():
        assert not cgroups.Group.find(resolved.tag).directories
        assert tree is None or not (tree.path / cgroups.ROOT / resolved.tag).exists()
        assert not spinning(resolved.tag)


def spinning(tag: str) -> list[str]:
    pids = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            try:
                if f"ULLAGE_TAG={tag}".encode() in (directory / "environ").read_bytes():
                    pids.append(directory.name)
            except OSError:
                continue
    return pids
