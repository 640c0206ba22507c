"""Is everything in a run folder as it was written? By the checksums and digests that stand in it.

It knows nothing of what a file says, so it is the same for ordinary and elastic runs and those of
the clock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

from ullage.common import sums
from ullage.common.errors import RUN_NOT_FOUND, UllageError
from ullage.common.regular import digest, open_regular, read_document, read_lines
from ullage.common.sums import BrokenSumError, Chain
from ullage.runs.records import JOURNAL, RESOLVED, TRIALS, Record

Integrity = Literal["holds", "changed", "missing", "unverified"]
_TABLES: Final = "tables.json"


class Checked(Record):
    """A file of the folder."""

    file: str
    """Relative to the run folder."""
    state: Integrity
    """`unverified`: nothing tells what it was; so are all files of older runs."""
    detail: str = ""


def verify(run: Path) -> list[Checked]:
    """Every file of the folder, and those that are gone; RUN_NOT_FOUND when it is none."""
    if not run.is_dir():
        raise UllageError(RUN_NOT_FOUND, path=run)
    journal, known = _lines(run, JOURNAL)
    # What was measured of the clock has none.
    checked = {JOURNAL: journal} if os.path.lexists(run / RESOLVED) else {}
    tables, files = _tables(run)
    known = {**files, **known}
    for name in sorted({*known, *_files(run)} - {JOURNAL}):
        if name in known:
            checked[name] = _by_digest(run, name, known[name], derived=name in files)
        elif name == _TABLES and tables is not None:
            checked[name] = tables
        elif name.endswith(".jsonl"):
            checked[name], _ = _lines(run, name)
        else:
            checked[name] = _by_itself(run, name)
    resolved = checked.get(RESOLVED)
    if resolved is not None and resolved.state == "unverified" and journal.state == "holds":
        detail = "it has no checksum, unlike the journal"
        checked[RESOLVED] = resolved.model_copy(update={"state": "changed", "detail": detail})
    return list(checked.values())


def _files(run: Path) -> Iterator[str]:
    """All that is no folder, links to folders too."""
    for above, folders, files in os.walk(run):
        links = [name for name in folders if (Path(above) / name).is_symlink()]
        yield from (str((Path(above) / name).relative_to(run)) for name in (*files, *links))


def _by_digest(run: Path, name: str, known: object, *, derived: bool) -> Checked:
    try:
        held = digest(run / name, run) == known
    except FileNotFoundError:
        return Checked(file=name, state="missing")
    except OSError as error:
        return Checked(file=name, state="changed", detail=str(error.strerror))
    if held:
        return Checked(file=name, state="holds")
    detail = "it is made anew from the journal" if derived else "it is not what the journal has"
    return Checked(file=name, state="unverified" if derived else "changed", detail=detail)


def _by_itself(run: Path, name: str) -> Checked:
    """A document with its checksum in it, or what has none."""
    try:
        with open_regular(run / name, root=run) as file:
            if not name.endswith(".json"):
                return Checked(file=name, state="unverified", detail=_why(name))
            document = file.read()
        sums.opened(document)
    except BrokenSumError as error:
        return Checked(file=name, state="changed", detail=str(error))
    except OSError as error:
        return Checked(file=name, state="unverified", detail=str(error.strerror))
    if sums.has_sum(document):
        return Checked(file=name, state="holds")
    return Checked(file=name, state="unverified", detail=_why(name))


def _why(name: str) -> str:
    if name.startswith(f"{TRIALS}/"):
        return "no line of the journal has its digest"
    return "it has no checksum"


def _lines(run: Path, name: str) -> tuple[Checked, dict[str, object]]:
    """A file of lines; and the digests of other files that stand in those that hold."""
    chain = Chain()
    known: dict[str, object] = {}
    bare, torn, number = 0, False, 0
    try:
        for line in read_lines(run / name, root=run):
            number += 1
            if line.endswith(b"\n"):
                record = chain.opened(line[:-1])
                bare += not chain.before
                known |= _digests(record)
            elif chain.is_damaged_end(line):
                raise BrokenSumError("there is more after its end")
            else:
                torn = True
    except FileNotFoundError:
        return Checked(file=name, state="missing"), known
    except OSError as error:
        return Checked(file=name, state="changed", detail=str(error.strerror)), known
    except BrokenSumError as error:
        return Checked(file=name, state="changed", detail=f"line {number}: {error}"), known
    if not number:
        return Checked(file=name, state="unverified", detail="it has no lines"), known
    details = []
    if bare:
        details.append(f"{bare:,} of {number:,} lines have no checksum")
    if torn:
        details.append("the last line was cut off while it was written")
    state: Integrity = "unverified" if bare else "holds"
    return Checked(file=name, state=state, detail="; ".join(details)), known


def _digests(record: bytes) -> dict[str, object]:
    try:
        event: Any = json.loads(record)
    except (ValueError, RecursionError):
        return {}
    files = event.get("files") if isinstance(event, dict) else None
    return files if isinstance(files, dict) else {}


def _tables(run: Path) -> tuple[Checked | None, dict[str, object]]:
    """What `tables.json` says of the tables beside it."""
    try:
        document = sums.opened(read_document(run / _TABLES, root=run))
        files = _digests(document)
    except BrokenSumError as error:
        return Checked(file=_TABLES, state="changed", detail=str(error)), {}
    except OSError:
        return None, {}
    return Checked(file=_TABLES, state="holds"), files
