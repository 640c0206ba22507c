"""Runs with a scripted meter beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.meters.energy.scripted import Scripted, scripted
from tests.support import enginekit
from tests.support.enginekit import Quiet
from ullage.analysis.energy import series
from ullage.engine.engine import Engine
from ullage.meters import energy
from ullage.runs.reader import RunFolder

SLEEP = 'name: command, argv: ["sleep", "0.1"]'
FEW_S = 0.01

PLAN = """\
name: killed
baseline: native
image: host
resources: {cpus: 1, memory: 256MiB}
environments: {native: {provider: native}}
workloads: [{name: command, argv: ["sleep", "0.2"]}]
blocks: {min: 3, max: 3}
meters: {load: {meter: model, idle_watts: 10, core_watts: 5, every: 0.02}}
idle: 0.2
"""


def engine(
    root: Path, *, load: str = SLEEP, options: str = "", idle: str = "0.1", **more: Any
) -> Engine:
    plan = f"meters: {{wall: {{meter: scripted, every: {FEW_S}{options}}}}}\nidle: {idle}\n"
    more["extra"] = plan + more.get("extra", "")
    return enginekit.engine(root, [load], **more)


def go(run_engine: Engine) -> RunFolder:
    asyncio.run(run_engine.run())
    return RunFolder.open(run_engine.folder)


def warned(run_engine: Engine) -> list[str]:
    assert isinstance(run_engine.progress, Quiet)
    return run_engine.progress.warnings


def file_of(run_engine: Engine) -> Path:
    return run_engine.folder / "meters/wall.jsonl"


def namable(monkeypatch: pytest.MonkeyPatch) -> Callable[..., type[Scripted]]:
    """A scripted meter that plans may name."""

    def add(*script: Any, **more: Any) -> type[Scripted]:
        kind = scripted(*script, **more)
        monkeypatch.setattr(energy, "ENERGY_METERS", (kind,))
        return kind

    return add


def no_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a reading may come late: not what these tests are about."""
    monkeypatch.setattr(series, "MOST_INTERVALS", 1e9)
