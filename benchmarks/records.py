"""What benchmarks printed, kept: a file for each recording, with the machine that it was made on.

The first line says when, of which build and where; each other line is a row, written as soon as it
is measured, so a recording that is cut short holds what it came to.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

from pydantic import TypeAdapter

from benchmarks.figures import Figure, as_row
from ullage.host import build, facts

PLACE: Final = Path(__file__).parent / "records"


@dataclass(frozen=True)
class Machine:
    """Where a recording was made."""

    cpu: str
    cpus: int
    virtual: bool
    kernel: str
    os: str
    memory_bytes: int

    @property
    def kind(self) -> str:
        """What may be set side by side."""
        return f"{self.cpu}, {self.cpus} CPUs, {'virtual' if self.virtual else 'bare'}"


@dataclass(frozen=True)
class Recording:
    """What the rows of one file share."""

    at: datetime
    build: str
    quick: bool
    load: float
    """Load average of the minute before it began."""
    machine: Machine


@dataclass(frozen=True)
class Row:
    """One figure of one recording."""

    benchmark: str
    """`engine.startup`."""
    figure: Figure
    recording: Recording


def here() -> Machine:
    """This machine."""
    known = facts.facts()
    return Machine(
        cpu=known.get("cpu_model", known["machine"]),
        cpus=len(known["cpus"]),
        virtual=known["virtualised"],
        kernel=known["kernel"],
        os=known.get("os", "unknown"),
        memory_bytes=known["memory_bytes"],
    )


def kept(
    rows: Iterable[tuple[str, Figure]], *, quick: bool, place: Path = PLACE
) -> Iterator[tuple[str, Figure]]:
    """The same rows, each written to a new file below `place` before it is passed on."""
    at = datetime.now(UTC).replace(microsecond=0)
    state = build.build() or "unknown"
    recording = Recording(at, state, quick, os.getloadavg()[0], here())
    place.mkdir(exist_ok=True)
    name = f"{at:%Y%m%dT%H%M%S}-{state.rstrip('+')}.jsonl"
    with (place / name).open("x", encoding="utf-8") as file:
        _write(file, asdict(recording) | {"at": at.isoformat()})
        for benchmark, figure in rows:
            _write(file, {"benchmark": benchmark} | as_row(figure))
            yield benchmark, figure


def _write(file: TextIO, line: dict[str, Any]) -> None:
    file.write(json.dumps(line, ensure_ascii=False) + "\n")
    file.flush()


def read(place: Path = PLACE) -> list[Row]:
    """All rows of all recordings there, oldest first."""
    return [row for file in sorted(place.glob("*.jsonl")) for row in _of_file(file)]


def _of_file(file: Path) -> Sequence[Row]:
    first, *lines = file.read_text(encoding="utf-8").splitlines()
    recording = TypeAdapter(Recording).validate_json(first)
    return [_row(json.loads(line), recording) for line in lines]


def _row(fields: dict[str, Any], recording: Recording) -> Row:
    benchmark = fields.pop("benchmark")
    without = fields["value"] is None
    figure = TypeAdapter(Figure).validate_python(fields | ({"value": 0.0} if without else {}))
    return Row(benchmark, replace(figure, value=math.nan) if without else figure, recording)
