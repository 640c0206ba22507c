"""What the file of an energy meter says between two instants, for scripts: `ullage meter`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from ullage import clock
from ullage.analysis.energy import series
from ullage.analysis.energy.integrate import Integral, Missing, integrate
from ullage.analysis.energy.series import Series, Stretch
from ullage.channels import Channel
from ullage.errors import ENERGY_BAD_INSTANT, ENERGY_READINGS_NONE, UllageError
from ullage.journal import now_ns
from ullage.quantities import Delay

CHANGED_S: Final = 1.0
"""The wall clock was set when it is so far from where it should be."""

SET_S: Final = 60.0
"""Two sessions of one boot differ by no more in how far the two clocks are apart."""

_DELAY: TypeAdapter[float] = TypeAdapter(Delay)
_NUMBER: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


@dataclass(frozen=True)
class Window:
    """A time between two instants of the clock of the readings, ns."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True)
class Measured:
    """One channel over one window."""

    channel: Channel
    window: Window
    energy: Integral | Missing


def instant(text: str, stretches: Sequence[Stretch]) -> int:
    """`+90s` after the first start, seconds since 1970, or ISO 8601; ENERGY_BAD_INSTANT.

    What is said by the wall clock is taken by what it showed when the meter was started: setting
    it later changes nothing.
    """
    first = stretches[0].opened
    if text.startswith("+"):
        try:
            return first.at_ns + round(_DELAY.validate_python(_plain(text[1:])) * 1e9)
        except ValidationError:
            reason = "after the plus stands a duration such as 500ms, 90s, 10m or 1h30m"
            raise UllageError(ENERGY_BAD_INSTANT, found=repr(text), reason=reason) from None
    epoch_ns = _epoch_ns(text)
    before = [s.opened for s in stretches if s.opened.epoch_ns <= epoch_ns]
    opened = before[-1] if before else first
    return max(0, opened.at_ns + epoch_ns - opened.epoch_ns)


def covered(stretches: Sequence[Stretch]) -> Window | None:
    """From the first reading to the last; None: there are not two."""
    instants = [reading.at_ns for stretch in stretches for reading in stretch.readings]
    if not instants or instants[0] >= instants[-1]:
        return None
    return Window(instants[0], instants[-1])


def seconds(stretches: Sequence[Stretch]) -> float:
    """How long was measured: from the first reading of each stretch to its last."""
    found = [covered([stretch]) for stretch in stretches]
    return sum(window.seconds for window in found if window is not None)


def measured(stretches: Sequence[Stretch], window: Window) -> list[Measured]:
    """Each channel over all of the window."""
    return [
        Measured(each, window, _over(stretches, each.name, window)) for each in _channels(stretches)
    ]


def parts(stretches: Sequence[Stretch], window: Window) -> list[Measured]:
    """Each channel over the parts of the window in which it is known."""
    found = []
    for each in _channels(stretches):
        for stretch in stretches:
            if any(each.name == channel.name for channel in stretch.opened.channels):
                known = series.series(stretch, each.name)
                found += [Measured(each, w, _integral(known, w)) for w in _known(known, window)]
    return [part for part in found if isinstance(part.energy, Integral)]


def clock_set_by(stretches: Sequence[Stretch]) -> float:
    """Seconds by which the wall clock was set since the meter was started, on this same boot."""
    opened = stretches[-1].opened
    passed, shown = clock.ordered_ns() - opened.at_ns, now_ns() - opened.epoch_ns
    found = (shown - passed) / 1e9
    return found if passed >= 0 and abs(found) >= CHANGED_S else 0.0


def read(file: Path) -> tuple[Stretch, ...]:
    """The stretches of a file, one at least. ENERGY_READINGS_NONE, ENERGY_READINGS_BAD."""
    stretches = series.read(file)
    if not stretches:
        reason = "it holds no readings" if file.exists() else "there is no such file"
        raise UllageError(ENERGY_READINGS_NONE, file=file, reason=reason)
    return stretches


def of_last_boot(stretches: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """Those whose instants are of one clock: it begins anew when the machine does.

    It did when it stood lower than before, or when it and the wall clock are no longer as far apart
    as they were: somebody may also have set the wall clock, and then what came before is left out
    though it need not be.
    """
    if not stretches:
        return ()
    last = stretches[-1].opened
    kept: list[Stretch] = []
    for stretch in reversed(stretches):
        opened = stretch.opened
        apart = (last.epoch_ns - last.at_ns) - (opened.epoch_ns - opened.at_ns)
        if abs(apart) > SET_S * 1e9 or (kept and opened.at_ns > kept[-1].opened.at_ns):
            break
        kept.append(stretch)
    return tuple(reversed(kept))


def _over(stretches: Sequence[Stretch], name: str, window: Window) -> Integral | Missing:
    having = [s for s in stretches if any(c.name == name for c in s.opened.channels)]
    within = [s for s in having if (w := covered([s])) and w.start_ns <= window.start_ns]
    if not within:
        return Missing("before", f"{name} has no reading before its start")
    found = _integral(series.series(within[-1], name), window)
    later = having.index(within[-1]) + 1 < len(having)
    if isinstance(found, Missing) and found.code == "after" and later:
        return Missing("gap", f"{name} was opened anew meanwhile")
    return found


def _integral(known: Series, window: Window) -> Integral | Missing:
    return integrate(known, window.start_ns, window.end_ns)


def _known(known: Series, window: Window) -> list[Window]:
    """The window without what is cut out, and not beyond the readings."""
    if known.at_ns.size == 0:
        return []
    start = max(window.start_ns, int(known.at_ns[0]))
    end = min(window.end_ns, int(known.at_ns[-1]))
    found = []
    for cut in known.cuts:
        if start < min(cut.start_ns, end):
            found.append(Window(start, min(cut.start_ns, end)))
        start = max(start, cut.end_ns)
    return [*found, Window(start, end)] if start < end else found


def _channels(stretches: Sequence[Stretch]) -> list[Channel]:
    """Every channel of the file, as it was last."""
    found = {channel.name: channel for s in stretches for channel in s.opened.channels}
    return list(found.values())


def _epoch_ns(text: str) -> int:
    if _NUMBER.fullmatch(text):
        return int(Decimal(text).scaleb(9))
    try:
        return int(Decimal(datetime.fromisoformat(text).timestamp()) * 10**9)
    except (ValueError, OverflowError, OSError) as error:
        raise UllageError(ENERGY_BAD_INSTANT, found=repr(text), reason=error) from None


def _plain(text: str) -> str | float:
    return float(text) if _NUMBER.fullmatch(text) else text
