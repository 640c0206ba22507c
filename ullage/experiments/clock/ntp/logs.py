"""What chrony 4 tells of itself: its logs (without banners) and `chronyc -c`, parsed strictly.

Columns: chrony.conf(5), `log`, and chronyc(1), `tracking`. Offsets keep chrony's sign there:
positive when the local clock is fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final, TypeVar

from ullage.common.clock_model import FrozenModel

_NOT_YET: Final = "0.0.0.0"  # noqa: S104 - how chrony writes that it has no source
_OCTAL: Final = frozenset("01234567")
_TRACKING_FIELDS: Final = 14
_TRACKING_LOG: Final = 14
_MEASUREMENT_LOG: Final = 20

_DIGITS: Final = re.compile(r"-?[0-9]{1,15}")
_FIGURE: Final = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?(e[+-][0-9]{1,3})?", re.ASCII)
_LARGEST: Final = 1e9
"""Seconds or parts per million: chrony knows none so large."""

T = TypeVar("T")


class LogError(ValueError):
    """A line that chrony does not write."""


class Update(FrozenModel):
    """One update of the clock that chrony decided on: a line of tracking.log."""

    epoch_s: int
    """When, on the guest's own clock; chrony logs whole seconds."""
    frequency_ppb: float
    """What chrony takes the oscillator's error to be; positive: it runs fast."""
    skew_ppb: float
    """How wrong chrony takes that to be."""
    offset_ns: int
    """What chrony wants to correct with this update; positive: the clock is fast."""
    remaining_ns: int
    """What was left of the update before it."""


class Measurement(FrozenModel):
    """One answer of the server that chrony used: a line of measurements.log."""

    epoch_s: int
    poll: int
    """The polling interval is 2^poll seconds."""
    delay_ns: int
    """Round trip to the server."""


class Tracking(FrozenModel):
    """`chronyc -c tracking`."""

    server: str
    """Empty while chrony has no source."""
    stratum: int
    rms_offset_ns: int
    """chrony's own long-term average of the offset."""
    frequency_ppb: float
    skew_ppb: float
    update_interval_s: float


def updates(log: str) -> list[Update]:
    """Every update from tracking.log, without what it writes before it has a source."""
    return [update for update in _parsed(log, _TRACKING_LOG, _update) if update is not None]


def measurements(log: str) -> list[Measurement]:
    return list(_parsed(log, _MEASUREMENT_LOG, _measurement))


def tracking(line: str) -> Tracking:
    """The one line of `chronyc -c tracking`; LogError when it is none."""
    words = line.rstrip("\n").split(",")
    if len(words) != _TRACKING_FIELDS:
        raise LogError(f"not what `chronyc -c tracking` prints: {line[:200]!r}")
    try:
        return Tracking(
            server=words[1],
            stratum=_whole(words[2]),
            rms_offset_ns=_ns(words[6]),
            frequency_ppb=_number(words[7]) * 1e3,
            skew_ppb=_number(words[9]) * 1e3,
            update_interval_s=_number(words[12]),
        )
    except ValueError as error:
        raise LogError(f"`chronyc -c tracking`: {error}") from error


def reached(lines: str) -> bool:
    """Has a server answered? From `chronyc -c sources`, whose sixth field is the reach, octal."""
    rows = [line.split(",") for line in lines.split("\n")]
    return any(len(row) > 5 and set(row[5]) <= _OCTAL and set(row[5]) - {"0"} for row in rows)


def _update(words: list[str]) -> Update | None:
    if words[2] == _NOT_YET:
        return None
    return Update(
        epoch_s=_epoch(words),
        frequency_ppb=_number(words[4]) * 1e3,
        skew_ppb=_number(words[5]) * 1e3,
        offset_ns=_ns(words[6]),
        remaining_ns=_ns(words[10]),
    )


def _measurement(words: list[str]) -> Measurement:
    return Measurement(epoch_s=_epoch(words), poll=_whole(words[8]), delay_ns=_ns(words[12]))


def _parsed(log: str, columns: int, parse: Callable[[list[str]], T]) -> Iterator[T]:
    for number, line in enumerate(log.removesuffix("\n").split("\n"), start=1):
        words = [word for word in line.split(" ") if word]
        if len(words) != columns:
            raise LogError(f"line {number}: {len(words)} columns, not {columns}: {line[:200]!r}")
        try:
            yield parse(words)
        except ValueError as error:
            raise LogError(f"line {number}: {error}") from error


def _epoch(words: list[str]) -> int:
    moment = datetime.strptime(f"{words[0]} {words[1]}", "%Y-%m-%d %H:%M:%S")
    return int(moment.replace(tzinfo=UTC).timestamp())


def _ns(seconds: str) -> int:
    return round(_number(seconds) * 1e9)


def _whole(text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


def _number(text: str) -> float:
    if not _FIGURE.fullmatch(text) or abs(value := float(text)) > _LARGEST:
        raise ValueError(f"{text!r} is no number that chrony writes")
    return value
