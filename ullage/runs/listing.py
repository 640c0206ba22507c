"""Ordinary runs in a list of runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ullage.common.errors import UllageError
from ullage.runs.reader import RunFolder, find_runs
from ullage.runs.records import Record


class RunSummary(Record):
    """A run in a list of runs."""

    kind: Literal["ordinary"] = "ordinary"
    run: str
    path: str
    name: str
    started: str
    """Of the first session, UTC, ISO 8601; empty when it never started."""
    blocks: int
    trials: int
    ok: int
    failed: int
    """Trials without figures: failed or invalid."""
    finished: str | None
    """The reason of the end; None: interrupted without an end, or still running."""
    problem: str | None = None
    """Why the folder cannot be read."""


def list_runs(root: Path) -> list[RunSummary]:
    """A line for each run under `root`, newest first; one that cannot be read says why."""
    return [_summary(path) for path in find_runs(root)]


def _summary(path: Path) -> RunSummary:
    try:
        folder = RunFolder.open(path)
    except UllageError as error:
        return RunSummary(
            run=path.name,
            path=str(path),
            name="",
            started="",
            blocks=0,
            trials=0,
            ok=0,
            failed=0,
            finished=None,
            problem=error.message,
        )
    ok = sum(trial.status == "ok" for trial in folder.trials)
    return RunSummary(
        run=path.name,
        path=str(path),
        name=folder.resolved.name,
        started=iso(folder.sessions[0].epoch_ns) if folder.sessions else "",
        blocks=len(folder.complete_blocks),
        trials=len(folder.trials),
        ok=ok,
        failed=len(folder.trials) - ok,
        finished=folder.finished.reason if folder.finished else None,
    )


def iso(epoch_ns: int) -> str:
    """An instant as lists have it: UTC, to the second."""
    return datetime.fromtimestamp(epoch_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
