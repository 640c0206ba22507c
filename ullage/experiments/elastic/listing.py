"""Elastic runs in a list of runs: by their journals, without what the repetitions left."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ullage.common.errors import UllageError
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.folder import ElasticFinished, RepetitionDone
from ullage.runs.listing import first_instant
from ullage.runs.reader import last_end
from ullage.runs.records import Record


class ElasticSummary(Record):
    """An elastic run in a list of runs; what ordinary ones have too has the same name."""

    kind: Literal["elastic"] = "elastic"
    run: str
    path: str
    name: str = ""
    started: str = ""
    """Of the first session, UTC, ISO 8601; empty when it never started."""
    environments: int = 0
    repetitions: int = 0
    """Planned, of each environment."""
    ended: int = 0
    """Repetitions of all environments that came to an end, one way or the other."""
    ok: int = 0
    failed: int = 0
    """Those without figures: failed or invalid."""
    finished: str | None = None
    """The reason of the end; None: interrupted without an end, or still running."""
    problem: str | None = None
    """Why the folder cannot be read."""


def list_runs(root: Path) -> list[ElasticSummary]:
    """A line for each elastic run under `root`, newest first; one that cannot be read says why."""
    return [_summary(path) for path in folder.find(root)]


def _summary(path: Path) -> ElasticSummary:
    try:
        resolved, events = folder.read_resolved(path), folder.read_events(path)
    except UllageError as error:
        return ElasticSummary(run=path.name, path=str(path), problem=error.message)
    done = [event for event in events if isinstance(event, RepetitionDone)]
    ok = sum(event.status == "ok" for event in done)
    end = last_end(events, ElasticFinished)
    return ElasticSummary(
        run=path.name,
        path=str(path),
        name=resolved.name,
        started=first_instant(events),
        environments=len(resolved.environments),
        repetitions=resolved.repetitions,
        ended=len(done),
        ok=ok,
        failed=len(done) - ok,
        finished=end.reason if end else None,
    )
