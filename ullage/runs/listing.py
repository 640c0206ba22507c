"""Ordinary runs in a list of runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from ullage.common.errors import UllageError
from ullage.runs.reader import RunFolder, find_runs, first_start
from ullage.runs.records import Record


class RunSummary(Record):
    """A run in a list of runs."""

    kind: Literal["ordinary"] = "ordinary"
    run: str
    path: str
    name: str = ""
    started: str = ""
    """Of the first session, UTC, ISO 8601; empty when it never started."""
    blocks: int = 0
    trials: int = 0
    ok: int = 0
    failed: int = 0
    """Trials without figures: failed or invalid."""
    finished: str | None = None
    """The reason of the end; None: interrupted without an end, or still running."""
    problem: str | None = None
    """Why the folder cannot be read."""
    unverified: bool = Field(default=False, exclude=True)
    """It is from before journals had checksums."""


def list_runs(root: Path) -> list[RunSummary]:
    """A line for each run under `root`, newest first; one that cannot be read says why."""
    return [_summary(path) for path in find_runs(root)]


def _summary(path: Path) -> RunSummary:
    try:
        folder = RunFolder.open(path)
    except UllageError as error:
        return RunSummary(run=path.name, path=str(path), problem=error.message)
    ok = sum(trial.status == "ok" for trial in folder.trials)
    return RunSummary(
        run=path.name,
        path=str(path),
        name=folder.resolved.name,
        started=first_instant(folder.events),
        blocks=len(folder.complete_blocks),
        trials=len(folder.trials),
        ok=ok,
        failed=len(folder.trials) - ok,
        finished=folder.finished.reason if folder.finished else None,
        unverified=not folder.summed,
    )


def first_instant(events: Sequence[object]) -> str:
    """When a run was first started, as lists have it: UTC, to the second; empty when never."""
    if (started := first_start(events)) is None:
        return ""
    seconds = started.epoch_ns // 1_000_000_000
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
