"""Ordinary runs in a list of runs.

What was read of a run is kept in this user's cache, and believed as long as its two files are the
same ones, of the same size and with the same times: to read ten thousand journals takes a minute.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from ullage import __version__
from ullage.common.errors import UllageError
from ullage.common.files import cache_dir, put
from ullage.common.regular import read_regular
from ullage.runs.reader import RunFolder, find_runs, first_start
from ullage.runs.records import JOURNAL, RESOLVED, Count, Record

WORTH_KEEPING: Final = 20
"""Runs; fewer are read in no time."""


class RunSummary(Record):
    """A run in a list of runs."""

    kind: Literal["ordinary"] = "ordinary"
    run: str
    path: str
    name: str = ""
    started: str = ""
    """Of the first session, UTC, ISO 8601; empty when it never started."""
    blocks: Count = 0
    trials: Count = 0
    ok: Count = 0
    failed: Count = 0
    """Trials without figures: failed or invalid."""
    finished: str | None = None
    """The reason of the end; None: interrupted without an end, or still running."""
    problem: str | None = None
    """Why the folder cannot be read."""
    unverified: bool = Field(default=False, exclude=True)
    """It is from before journals had checksums."""


class _Known(Record):
    """What was read of a run, and of which files."""

    files: str
    summary: RunSummary
    unverified: bool


class _KnownRuns(Record):
    """Of one folder of runs, by this version of ullage."""

    version: str
    runs: dict[str, _Known]


def list_runs(root: Path) -> list[RunSummary]:
    """A line for each run under `root`, newest first; one that cannot be read says why."""
    place = cache_dir() / "lists" / hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]
    before = _recalled(place)
    now: dict[str, _Known] = {}
    summaries = []
    for path in find_runs(root):
        files, known = _files(path), before.get(path.name)
        if known is not None and known.files == files:
            now[path.name] = known
            update = {"path": str(path), "unverified": known.unverified}
            summaries.append(known.summary.model_copy(update=update))
            continue
        summary = _summary(path)
        if files and summary.problem is None and _is_text(path):
            now[path.name] = _Known(files=files, summary=summary, unverified=summary.unverified)
        summaries.append(summary)
    if now != before:
        _keep(place, now)
    return summaries


def _files(path: Path) -> str:
    """Which files they are, and since when as they are; empty where one is not there."""
    try:
        status = [(path / name).lstat() for name in (RESOLVED, JOURNAL)]
    except OSError:
        return ""
    return " ".join(
        f"{one.st_dev} {one.st_ino} {one.st_size} {one.st_mtime_ns} {one.st_ctime_ns}"
        for one in status
    )


def _is_text(path: Path) -> bool:
    """A name that is no UTF-8 stands in no JSON."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _recalled(place: Path) -> Mapping[str, _Known]:
    """Nothing where it cannot be read, or another version has written it."""
    try:
        known = _KnownRuns.model_validate_json(read_regular(place, root=place.parent))
    except (OSError, ValidationError):
        return {}
    return known.runs if known.version == __version__ else {}


def _keep(place: Path, runs: dict[str, _Known]) -> None:
    """A list is whole without it."""
    if len(runs) < WORTH_KEEPING:
        return
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        put(place, _KnownRuns(version=__version__, runs=runs).model_dump_json().encode())


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
