"""The text of a study's plan as it is run here: with what was not known when it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ullage.experiments.studies.base import Study, StudyPlan

DISK_NUMBER: Final = "NUMBER"
DISK_PATH: Final = "PATH"
"""In a plan with `disks`: a line with both stands once for each of them, counted from 1."""
_UNKNOWN_ROOM: Final = "1"
"""Of a node, while the run that says it has not been made."""


def text(study: Study, plan: StudyPlan, disks: Sequence[Path], room: Path | None = None) -> bytes:
    """Of that plan, for these disks; room: the run of `plan.room_of`, None: it is not there yet."""
    written = (study.folder / plan.file).read_text(encoding="utf-8")
    if plan.disks:
        written = with_disks(written, disks)
    if plan.room_of:
        written = with_room(written, plan.room_of, room)
    return written.encode()


def with_disks(written: str, disks: Sequence[Path]) -> str:
    """The text of a plan with `disks`, for these."""
    lines = (own for line in written.splitlines() for own in _for_each_disk(line, disks))
    return "".join(f"{line}\n" for line in lines)


def _for_each_disk(line: str, disks: Sequence[Path]) -> list[str]:
    """A line of a plan, as often as there are disks where it is of one."""
    if DISK_PATH not in line:
        return [line]
    return [
        line.replace(DISK_NUMBER, str(number)).replace(DISK_PATH, json.dumps(str(disk)))
        for number, disk in enumerate(disks, 1)
    ]


def with_room(written: str, name: str, run: Path | None) -> str:
    """The text of a plan whose rooms are those of the plan `name`: with a run of that in its place.

    The path is a whole one, so that the run is found from wherever it goes on.
    """
    room = re.compile(rf"\{{capacity: {re.escape(name)}(?P<more>(, environment: [\w-]+)?)\}}")

    def here(match: re.Match[str]) -> str:
        if run is None:
            return _UNKNOWN_ROOM
        return f"{{capacity: {json.dumps(str(run.resolve()))}{match['more']}}}"

    return room.sub(here, written)
