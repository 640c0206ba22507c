"""What a meter's file holds, as series: one channel, one session, in order, counters unwrapped.

What cannot be is cut out here, so that nobody integrates over it: `cuts`. What may be is
kept, and told: `doubts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ullage.analysis.energy import plausibility, renewal
from ullage.analysis.energy.renewal import Instants
from ullage.common.errors import ENERGY_READINGS_BAD, UllageError
from ullage.common.faults import first_fault
from ullage.common.regular import read_lines
from ullage.common.sums import BrokenSumError, Chain
from ullage.runs.readings import Channel, Closed, Fault, Line, Opened, Reading
from ullage.runs.records import LATEST_NS
from ullage.stats import Floats

FOLDER: Final = "meters"
"""Where in a run folder the files of the meters lie, `LABEL.jsonl` each."""
MOST_INTERVALS: Final = 4.0
"""A longer time between two readings, in nominal intervals, is a gap."""
LAP_W: Final = 1000.0
"""No counter that wraps is of more power than that, so no lap of it is shorter."""
_LATE: Final = 1.5
"""Of the nominal interval: what is not longer is no gap, however soon the counter may wrap."""
_BodyLine = Reading | Fault | Closed
_LINE: TypeAdapter[Line] = TypeAdapter(Line)


@dataclass(frozen=True)
class Stretch:
    """What a meter said from one `Opened` to the next: one session of the recorder."""

    opened: Opened
    readings: tuple[Reading, ...]
    faults: tuple[Fault, ...]
    closed: Closed | None
    """None: the recorder was killed."""


@dataclass(frozen=True)
class Cut:
    """Between these two instants nothing is known, and why."""

    start_ns: int
    end_ns: int
    code: str
    """A `plausibility.Lie`, `gap`, or the code of a fault: `gone`, `silent`, `denied` …"""
    message: str


@dataclass(frozen=True)
class Suspicion:
    """Something that makes a series less to be trusted, and cannot be proved."""

    code: Literal["meter-stuck", "meter-jump", "meter-slow"]
    message: str


@dataclass(frozen=True)
class ChannelSeries:
    """One channel of one stretch."""

    opened: Opened
    channel: Channel
    at_ns: Instants
    """Strictly increasing."""
    within_ns: Instants
    values: Floats
    """W; or J since the first reading, not wrapping any more."""
    cuts: tuple[Cut, ...]
    """In the order of their starts."""
    doubts: tuple[Suspicion, ...]


def read(file: Path) -> tuple[Stretch, ...]:
    """The stretches in a meter's file, in order; none of a file that is not there.

    A last line without its newline is left out; so is one that a killed recorder cut and the next
    session ended. Anything else that is malformed is ENERGY_READINGS_BAD.
    """
    try:
        return tuple(_stretches(file, _parse(file, read_lines(file))))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise _bad(file, 0, str(error.strerror)) from error


def _parse(file: Path, lines: Iterable[bytes]) -> Iterator[tuple[int, Line]]:
    chain = Chain()
    cut: tuple[int, ValidationError] | None = None
    for number, text in enumerate(lines, start=1):
        try:
            if not text.endswith(b"\n"):
                if chain.is_damaged_end(text):
                    raise BrokenSumError("there is more after its end")
                continue
            line = _LINE.validate_json(chain.opened(text[:-1]))
        except BrokenSumError as error:
            raise _malformed(file, number, error) from error
        except ValidationError as error:
            if cut is not None:
                raise _malformed(file, *cut) from error
            cut = number, error
            continue
        if cut is not None and line.event != "opened":
            raise _malformed(file, *cut)
        cut = None
        yield number, line
    if cut is not None:
        raise _malformed(file, *cut)


def _stretches(file: Path, lines: Iterable[tuple[int, Line]]) -> Iterator[Stretch]:
    opened: Opened | None = None
    body: list[_BodyLine] = []
    for number, line in lines:
        if line.event == "opened":
            if opened is not None:
                yield _stretch(opened, body)
            opened, body = line, []
        elif opened is None:
            raise _bad(file, number, "it comes before the meter was opened")
        elif body and not _follows(line, body[-1]):
            raise _bad(file, number, "it is not later than the line before it")
        else:
            body.append(line)
    if opened is not None:
        yield _stretch(opened, body)


def _follows(line: _BodyLine, last: _BodyLine) -> bool:
    """Two readings are at different instants."""
    if isinstance(line, Reading) and isinstance(last, Reading):
        return line.at_ns > last.at_ns
    return line.at_ns >= last.at_ns


def _stretch(opened: Opened, body: Sequence[_BodyLine]) -> Stretch:
    closed = [line for line in body if isinstance(line, Closed)]
    return Stretch(
        opened=opened,
        readings=tuple(line for line in body if isinstance(line, Reading)),
        faults=tuple(line for line in body if isinstance(line, Fault)),
        closed=closed[-1] if closed else None,
    )


def series(stretch: Stretch, name: str) -> ChannelSeries:
    """The channel `name` of a stretch; KeyError when the stretch has none of that name."""
    channel = {channel.name: channel for channel in stretch.opened.channels}[name]
    having = [reading for reading in stretch.readings if name in reading.values]
    at_ns = np.array([reading.at_ns for reading in having], dtype=np.int64)
    raw = np.array([reading.values[name] for reading in having], dtype=np.float64)
    plausible = plausibility.look(channel, (at_ns - at_ns[:1]) / 1e9, raw)
    last = at_ns.size - 1
    cuts = [
        Cut(int(at_ns[max(0, lie.first)]), int(at_ns[min(lie.last, last)]), lie.code, lie.message)
        for lie in plausible.implausible
    ]
    cuts += _faults(at_ns, stretch.faults)
    cuts += _gaps(at_ns, stretch.opened.every_s, channel)
    within_ns = np.array([reading.within_ns for reading in having], dtype=np.int64)
    doubts = [Suspicion(code, message) for code, message in plausible.doubts]
    values = plausible.values
    if channel.kind == "power" and (period := renewal.stands(raw, stretch.opened.every_s)) > 1:
        indices = renewal.renewed(raw, period)
        message = f"{name} is new at each {period}th reading at most"
        doubts.append(Suspicion("meter-slow", message))
        values = values[indices]
        at_ns, within_ns = renewal.moved(at_ns, within_ns, indices)
    return ChannelSeries(
        opened=stretch.opened,
        channel=channel,
        at_ns=at_ns,
        within_ns=within_ns,
        values=values,
        cuts=tuple(sorted(cuts, key=lambda cut: cut.start_ns)),
        doubts=tuple(doubts),
    )


def _faults(at_ns: Instants, faults: Sequence[Fault]) -> list[Cut]:
    """A cut from the reading before each fault to the one after it, once for several in a row."""
    cuts: dict[int, Cut] = {}
    for fault in faults:
        after = int(np.searchsorted(at_ns, fault.at_ns, side="right"))
        start = int(at_ns[after - 1]) if after else 0
        end = int(at_ns[after]) if after < at_ns.size else LATEST_NS
        cuts.setdefault(start, Cut(start, end, fault.code, fault.message))
    return list(cuts.values())


def _gaps(at_ns: Instants, every_s: float, channel: Channel) -> list[Cut]:
    """Times in which nobody looked; of a counter that wraps also those that could hide a lap."""
    most = MOST_INTERVALS * every_s
    if channel.wraps_at is not None:
        most = max(_LATE * every_s, min(most, channel.wraps_at / LAP_W))
    seconds = np.diff(at_ns) / 1e9
    return [
        Cut(int(at_ns[i]), int(at_ns[i + 1]), "gap", f"no reading for {seconds[i]:.3g} s")
        for i in np.flatnonzero(seconds > most)
    ]


def _malformed(file: Path, number: int, error: ValidationError | BrokenSumError) -> UllageError:
    return _bad(file, number, first_fault(error))


def _bad(file: Path, number: int, reason: str) -> UllageError:
    return UllageError(ENERGY_READINGS_BAD, path=file, line=number, reason=reason)
