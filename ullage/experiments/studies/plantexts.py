"""The text of a study's plan as it is run here: with what was not known when it was written."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ullage.experiments.studies.base import Study, StudyPlan

DISK_NUMBER: Final = "NUMBER"
DISK_PATH: Final = "PATH"
"""In a plan with `disks`: a line with both stands once for each of them, counted from 1."""
CLOUD_NAME: Final = "CLOUD"
CLOUD_FIELDS: Final = "INSTANCE"
"""In a plan with `cloud`: a line with both stands once for each of the user's clouds."""
CLOUD_SIZE: Final = "resources: SIZE"
"""In the same: what an instance has."""
_HERE: Final = "here"
"""What those plans call their own environment."""
_UNKNOWN_ROOM: Final = "1"
"""Of a node, while the run that says it has not been made."""


@dataclass(frozen=True)
class Clouds:
    """Instances of clouds, as a plan of the user's has them."""

    environments: Mapping[str, Mapping[str, Any]]
    """Its environments in clouds, field by field, by name."""
    resources: Mapping[str, Any]
    """What it says that all its environments have."""
    file: Path
    """That plan."""


@dataclass(frozen=True)
class Choices:
    """What the user names for those plans of a study that leave something open."""

    disks: tuple[Path, ...] = ()
    """A directory on each disk that is to be compared, absolute."""
    clouds: Clouds | None = None


NO_CHOICES: Final = Choices()


def text(
    study: Study, plan: StudyPlan, choices: Choices = NO_CHOICES, room: Path | None = None
) -> bytes:
    """Of that plan, as chosen; room: the run of `plan.room_of`, None: it is not there yet."""
    written = (study.folder / plan.file).read_text(encoding="utf-8")
    if plan.disks:
        written = with_disks(written, choices.disks)
    if plan.cloud and choices.clouds is not None:
        written = with_clouds(written, choices.clouds)
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


def with_clouds(written: str, clouds: Clouds) -> str:
    """The text of a plan with `cloud`, for these: each has a name of its own beside the plan's."""
    lines: list[str] = []
    for line in written.splitlines():
        of_each = CLOUD_NAME in line and CLOUD_FIELDS in line
        for name, fields in clouds.environments.items() if of_each else ():
            key = f"{name}-cloud" if name == _HERE else name
            lines.append(_of_a_cloud(line, {CLOUD_NAME: key, CLOUD_FIELDS: _flow(fields)}))
        if not of_each:
            lines.append(line.replace(CLOUD_SIZE, f"resources: {_flow(clouds.resources)}"))
    return "".join(f"{line}\n" for line in lines)


def _of_a_cloud(line: str, words: Mapping[str, str]) -> str:
    """With these words in their places, at once: one may have the other's name in it."""
    return re.sub(f"{CLOUD_NAME}|{CLOUD_FIELDS}", lambda place: words[place[0]], line)


def _flow(fields: Mapping[str, Any]) -> str:
    """As it stands in one line of a plan."""
    dumped = yaml.safe_dump(
        dict(fields), default_flow_style=True, sort_keys=False, width=sys.maxsize
    )
    return dumped.rstrip("\n")


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
