"""The readings of a meter's file, printed as they are; and those that still come."""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final, Literal

from pydantic import TypeAdapter, ValidationError

from ullage.energy.background import Logger
from ullage.errors import ENERGY_FILE_REPLACED, ENERGY_READINGS_BAD, UllageError
from ullage.printable import clean
from ullage.readings import Closed, Fault, Line, Opened, Reading

Form = Literal["text", "csv", "json"]
COLUMNS: Final = ("time", "at_ns", "within_ns", "channel", "value", "unit", "fault", "message")
_UNITS: Final = {"power": "W", "energy": "J"}
_POLL_S: Final = 0.2
_LINE: TypeAdapter[Line] = TypeAdapter(Line)


def show(file: Path, form: Form, logger: Logger | None, *, follow: bool) -> None:
    """Print it; with `follow` also what comes, until it is closed or its logger has died."""
    writer = csv.writer(sys.stdout)
    if form == "csv":
        writer.writerow(COLUMNS)
    opened: Opened | None = None
    for number, text in enumerate(_lines(file, logger, follow=follow), start=1):
        if form == "json":
            sys.stdout.write(f"{text.decode(errors='replace')}\n")
            line = None
        else:
            line = _parse(file, number, text)
        if isinstance(line, Opened):
            opened = line
        if line is not None and opened is not None:
            if form == "csv":
                writer.writerows(_rows(line, opened))
            elif words := _words(line, opened):
                sys.stdout.write(f"{words}\n")
        if follow:
            sys.stdout.flush()


def _lines(file: Path, logger: Logger | None, *, follow: bool) -> Iterator[bytes]:
    rest = b""
    with file.open("rb") as stream:
        while True:
            # Looked at before it is read: what is the file's was written until now.
            _same(file, stream)
            ending = not follow or (logger is not None and not logger.alive)
            *whole, rest = (rest + stream.read()).split(b"\n")
            yield from whole
            if ending or (logger is None and _closed(whole)):
                return
            time.sleep(_POLL_S)


def _same(file: Path, stream: IO[bytes]) -> None:
    """ENERGY_FILE_REPLACED: another has the name now, or what was read is no longer in it."""
    read = os.fstat(stream.fileno())
    with suppress(FileNotFoundError):  # a file without its name is still the same
        if not os.path.samestat(file.stat(), read) or read.st_size < stream.tell():
            raise UllageError(ENERGY_FILE_REPLACED, file=file)


def _closed(lines: list[bytes]) -> bool:
    return bool(lines) and b'"event":"closed"' in lines[-1]


def _parse(file: Path, number: int, text: bytes) -> Line:
    try:
        return _LINE.validate_json(text)
    except ValidationError as error:
        raise UllageError(
            ENERGY_READINGS_BAD, path=file, line=number, reason="it is no line of a meter"
        ) from error


def _rows(line: Line, opened: Opened) -> Iterator[tuple[object, ...]]:
    kinds = {channel.name: channel.kind for channel in opened.channels}
    if isinstance(line, Reading):
        for name, value in line.values.items():
            unit = _UNITS[kinds[name]] if name in kinds else ""
            when = _time(line.at_ns, opened)
            yield when, line.at_ns, line.within_ns, name, repr(value), unit, "", ""
    elif isinstance(line, Fault):
        when, message = _time(line.at_ns, opened), clean(line.message)
        yield when, line.at_ns, "", "", "", "", clean(line.code), message


def _words(line: Line, opened: Opened) -> str | None:
    when = _time(line.at_ns, opened)
    match line:
        case Opened():
            names = ", ".join(channel.name for channel in line.channels)
            return f"{when}  {clean(line.meter)} opened: {names}"
        case Reading():
            kinds = {channel.name: channel.kind for channel in opened.channels}
            values = (f"{n} {v:.10g} {_UNITS[kinds[n]]}" for n, v in line.values.items())
            return f"{when}  {'  '.join(values)}"
        case Fault():
            return f"{when}  fault: {clean(line.code)}: {clean(line.message)}"
        case Closed():
            return f"{when}  closed"


def _time(at_ns: int, opened: Opened) -> str:
    """UTC, by the wall clock as it stood when the meter was opened."""
    epoch_ns = opened.epoch_ns + at_ns - opened.at_ns
    return f"{datetime.fromtimestamp(epoch_ns / 1e9, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
