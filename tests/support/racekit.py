"""Makes a synthetic run into one from which comparisons left as they were decided."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from testing.synthetic import make_run
from ullage.analysis import overhead
from ullage.runs.events import BlockDone, CellLeft, Event, Finished, Judged, Trial
from ullage.runs.leaving import cells_of
from ullage.runs.reader import RunFolder
from ullage.runs.records import JOURNAL, RESOLVED


def raced(
    path: Path, looks: Sequence[int], *, verdicts: str = "all", most: int | None = None, **more: Any
) -> RunFolder:
    """The run of `make_run` with these options, looked at after these blocks."""
    whole = RunFolder.open(make_run(path, blocks=looks[-1], raw=False, **more))
    resolved = json.loads((path / RESOLVED).read_text())
    resolved["blocks"] |= {"until": {"verdicts": verdicts}, "max": most or looks[-1]}
    (path / RESOLVED).write_text(json.dumps(resolved))
    (path / JOURNAL).write_text("")
    for event in _events(path, whole, looks):
        with (path / JOURNAL).open("a") as journal:
            journal.write(event.model_dump_json() + "\n")
    return RunFolder.open(path)


def _events(path: Path, whole: RunFolder, looks: Sequence[int]) -> Iterator[Event]:
    left: set[CellLeft] = set()
    for event in whole.events:
        match event:
            case Trial() if (event.environment, event.workload) in cells_of(left):
                continue
            case Finished():
                yield event.model_copy(update={"reason": "verdicts"})
            case _:
                yield event
        if isinstance(event, BlockDone) and (done := event.block + 1) in looks:
            now = overhead.leaving(RunFolder.open(path))
            left |= set(now)
            yield Judged(epoch_ns=event.epoch_ns, blocks=done, left=now)


def until(folder: RunFolder, path: Path, block: int) -> RunFolder:
    """The same run as it was on the disk when that block ended and was judged."""
    lines = []
    for event in folder.events:
        if isinstance(event, Trial) and event.block == block:
            break
        lines.append(event.model_dump_json() + "\n")
    path.mkdir()
    (path / RESOLVED).write_bytes((folder.path / RESOLVED).read_bytes())
    (path / JOURNAL).write_text("".join(lines))
    return RunFolder.open(path)
