"""A made-up run as it is written today: with checksums and digests."""

from __future__ import annotations

from pathlib import Path

from testing.synthetic import make_run
from ullage.runs.events import Started, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import JOURNAL
from ullage.runs.writer import Journal


def sealed_run(root: Path, blocks: int = 2) -> Path:
    run = make_run(root / "20261120T000000-a", blocks=blocks)
    folder = RunFolder.open(run)
    (run / JOURNAL).unlink()
    with Journal(run) as journal:
        journal.resolve(folder.resolved)
        for event in folder.events:
            if isinstance(event, Trial):
                place = run / "trials" / event.trial
                place.mkdir(parents=True, exist_ok=True)
                (place / "main.stdout").write_text(f"printed by {event.trial}")
                journal.append(event.model_copy(update={"files": journal.digests(place)}))
            elif isinstance(event, Started):
                journal.append(event.model_copy(update={"files": journal.given()}))
            else:
                journal.append(event)
    return run
