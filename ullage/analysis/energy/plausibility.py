"""What a meter tells that cannot be true, or hardly; counters that wrap are unwrapped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ullage.runs.readings import Channel
from ullage.stats import Floats

Lie = Literal["negative", "zero", "impossible", "counter-back", "counter-stuck"]
Hint = Literal["meter-stuck", "meter-jump"]

MOST_W: Final = 1e5
"""No machine that runs trials takes more."""
_OUTLANDISH: Final = 10.0
"""So many times the largest other value is no load that comes and goes."""
_JUMP_W: Final = 100.0
_WRAP_W: Final = 1e3
"""A wrap that would mean a power under this is a wrap."""
_IDLE_W: Final = 0.1
"""What is on takes more than this, however idle."""
_STUCK_S, _STUCK_READINGS = 10.0, 5
"""A counter that stands still so long does not count."""
_SAME_S, _SAME_READINGS, _FINE = 60.0, 30, 0.002
"""A power equal for so long, that could show changes of this share of it, is hardly measured."""


@dataclass(frozen=True)
class Implausible:
    """Readings `first` to `last` bound what is not known; they may be one beyond the ends."""

    first: int
    last: int
    code: Lie
    message: str


@dataclass(frozen=True)
class PlausibleValues:
    """A channel's values, made fit to be integrated where they are true."""

    values: Floats
    implausible: tuple[Implausible, ...]
    doubts: tuple[tuple[Hint, str], ...]


def look(channel: Channel, at_s: Floats, raw: Floats) -> PlausibleValues:
    """Look for lies; a counter comes back as J since its first reading."""
    if channel.kind == "power":
        return PlausibleValues(
            raw, tuple(_powers(channel, raw)), tuple(_power_doubts(channel, at_s, raw))
        )
    grown, lies = _grown(channel, at_s, raw)
    values = np.concatenate(([0.0], np.cumsum(grown))) if raw.size else raw
    lies += _stuck(channel, at_s, grown)
    means = np.divide(grown, np.diff(at_s))
    return PlausibleValues(values, tuple(lies), tuple(_jumps(channel, means)))


def _physical(channel: Channel) -> bool:
    """Measured on something that is on, so it takes power."""
    return channel.method == "measured" and channel.scope != "guest"


def _powers(channel: Channel, raw: Floats) -> Iterator[Implausible]:
    for i in np.flatnonzero((raw < 0) | (raw > MOST_W)):
        code: Lie = "negative" if raw[i] < 0 else "impossible"
        yield Implausible(int(i) - 1, int(i) + 1, code, f"{channel.name} said {raw[i]:g} W")
    if _physical(channel):
        for i in np.flatnonzero(raw == 0):
            yield Implausible(int(i) - 1, int(i) + 1, "zero", f"{channel.name} said 0 W")


def _grown(channel: Channel, at_s: Floats, raw: Floats) -> tuple[Floats, list[Implausible]]:
    """J between the readings, 0 where that is not known, and where."""
    grown, seconds = np.diff(raw), np.diff(at_s)
    rising = grown >= 0
    usual_w = float(np.max(grown[rising] / seconds[rising], initial=0.0))
    lies: list[Implausible] = []
    for i in np.flatnonzero(~rising):
        wrapped = grown[i] + (channel.wraps_at or 0.0)
        most_w = min(MOST_W, max(_WRAP_W, _OUTLANDISH * usual_w))
        if 0 <= wrapped <= most_w * seconds[i]:
            grown[i] = wrapped
            continue
        message = f"{channel.name} went from {raw[i]:.9g} J to {raw[i + 1]:.9g} J"
        lies.append(Implausible(int(i), int(i) + 1, "counter-back", message))
        grown[i] = 0.0
    for i in np.flatnonzero(grown > MOST_W * seconds):
        message = f"{channel.name} grew by {grown[i]:.6g} J in {seconds[i]:.3g} s"
        lies.append(Implausible(int(i), int(i) + 1, "impossible", message))
        grown[i] = 0.0
    return grown, lies


def _stuck(channel: Channel, at_s: Floats, grown: Floats) -> list[Implausible]:
    """Stretches in which a counter of what is on stood still, though its steps are small."""
    if not _physical(channel):
        return []
    least_s = max(_STUCK_S, 10 * channel.resolution / _IDLE_W)
    return [
        Implausible(
            first,
            last,
            "counter-stuck",
            f"{channel.name} stood still for {at_s[last] - at_s[first]:.3g} s",
        )
        for first, last in _runs(grown == 0)
        if last - first >= _STUCK_READINGS and at_s[last] - at_s[first] >= least_s
    ]


def _power_doubts(channel: Channel, at_s: Floats, raw: Floats) -> Iterator[tuple[Hint, str]]:
    yield from _jumps(channel, raw)
    if not _physical(channel) or not channel.resolution > 0:
        return
    for first, last in _runs(np.diff(raw) == 0):
        seconds = at_s[last] - at_s[first]
        enough = last - first >= _SAME_READINGS and seconds >= _SAME_S
        if enough and channel.resolution <= _FINE * raw[first]:
            yield "meter-stuck", f"{channel.name} said {raw[first]:g} W for {seconds:.0f} s"
            return


def _jumps(channel: Channel, watts: Floats) -> Iterator[tuple[Hint, str]]:
    """One value that is far above all others."""
    believed = watts[(watts >= 0) & (watts <= MOST_W)]
    if channel.method != "measured" or believed.size < 3:
        return
    second, largest = np.partition(believed, -2)[-2:]
    if largest > _OUTLANDISH * second and largest > second + _JUMP_W:
        text = f"{channel.name} said {largest:.4g} W once, and never else more than {second:.4g} W"
        yield "meter-jump", text


def _runs(true: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Bounds of the runs of True between readings: indices of their first and last reading."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], true, [False])).astype(np.int8)))
    yield from ((int(a), int(b)) for a, b in edges.reshape(-1, 2))
