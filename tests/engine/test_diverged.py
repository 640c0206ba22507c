"""What is not what it was when a run goes on is told, whatever the run is of."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.enginekit import Quiet, cut, engine, resumed
from ullage.engine.resolved import diverged, programs
from ullage.environments.agent.client import binary
from ullage.runs.reader import RunFolder


@dataclass(frozen=True)
class Resolution:
    ullage: str = "1"
    programs: dict[str, str] = field(default_factory=lambda: {"agent": "a", "front": "f"})
    host: dict[str, Any] = field(default_factory=lambda: {"kernel": "6.1", "load": 1.0})


def test_host_version_and_programs() -> None:
    begun = Resolution()
    assert diverged(begun, begun) == []
    assert diverged(begun, replace(begun, host={"kernel": "6.1", "load": 2.0})) == []
    now = Resolution("2", {"agent": "b", "viewers": "v"}, {"kernel": "6.2"})
    assert diverged(begun, now) == [
        "the host's kernel",
        "the version of ullage",
        "the program agent",
    ]


def test_runs_of_before_knew_no_programs() -> None:
    assert diverged(Resolution(programs={}), Resolution()) == []


def test_programs_are_told_by_their_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"")
    empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert programs([tmp_path / "one", tmp_path / "two"]) == {"one": empty, "two": empty}


def test_a_run_with_figures_of_its_own_goes_on(places_of_its_own: None, tmp_path: Path) -> None:
    """Fields of a plan with another name in the code are recorded by the plan's."""
    figure = "{took: {unit: s, better: lower, from: stdout, json: $.took}}"
    work = f"name: command, argv: [echo, '{{\"took\": 1.0}}'], metrics: {figure}"
    first = engine(tmp_path, [work], blocks=3)
    cut(first, 2)
    asyncio.run(resumed(first).run())
    assert len(RunFolder.open(first.folder).complete_blocks) == 3


def test_a_run_goes_on_with_another_agent_and_says_so(
    places_of_its_own: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = engine(tmp_path, ['name: command, argv: ["true"]'], blocks=3)
    cut(first, 2)
    begun = RunFolder.open(first.folder).resolved.programs
    assert begun == programs([binary()])
    another_agent = shutil.copy(binary(), tmp_path / "ullage-agent")
    with Path(another_agent).open("ab") as file:
        file.write(b"\0")
    monkeypatch.setenv("ULLAGE_AGENT", str(another_agent))
    again = resumed(first)
    asyncio.run(again.run())
    assert isinstance(again.progress, Quiet)
    assert again.progress.warnings == [
        "the program ullage-agent is not what it was when the run began"
    ]
    assert RunFolder.open(first.folder).resolved.programs != begun
