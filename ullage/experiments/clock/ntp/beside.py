"""chrony and our clock in one guest, over the same time, held against the same exchanges.

Both had the same time to learn: chrony until it had settled, ours by the exchanges until then.
What comes after judges them, and neither has seen it: an exchange says where host and guest were,
within half its round trip. chrony goes on polling meanwhile, ours exchanges nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from ullage.common.text import printable
from ullage.environments.agent.clock import WORST_PPB
from ullage.experiments.clock.ntp.outcome import (
    ClockErrors,
    ClocksBeside,
    HeldClock,
    IntervalOutcome,
    Sizes,
)
from ullage.experiments.clock.ntp.series import ClockExchange, ClockReadings
from ullage.host import clock


class _Judge(NamedTuple):
    """An exchange within the readings."""

    at_ns: int
    """In true time since the first reading."""
    chrony_off_ns: int
    """The guest's CLOCK_REALTIME against the host's."""
    bound_ns: int
    """Of that."""
    fix: clock.Fix
    """Where our clock in the guest was to that of the host."""


UNSETTLED: Final = "chrony had not settled long enough before the end"


def joined(
    outcome: IntervalOutcome,
    series: ClockReadings,
    exchanges: Sequence[ClockExchange],
    apart_ns: int,
) -> IntervalOutcome:
    """The outcome with the comparison, or with why there is none: chrony's figures stay."""
    try:
        held = compare(outcome, series, exchanges, apart_ns)
    except clock.ContradictionError as error:
        return outcome.model_copy(update={"beside_why": printable(str(error), 300)})
    return outcome.model_copy(
        update={"beside": held, "beside_why": UNSETTLED if held is None else None}
    )


def compare(
    outcome: IntervalOutcome,
    series: ClockReadings,
    exchanges: Sequence[ClockExchange],
    apart_ns: int,
) -> ClocksBeside | None:
    """How far each clock was off once chrony had settled; None without two exchanges then.

    `apart_ns`: what the host's CLOCK_REALTIME is ahead of its CLOCK_MONOTONIC. ContradictionError
    where the exchanges cannot all be true of two clocks.
    """
    if outcome.settled_ns is None:
        return None
    judges = _judges(outcome, series, exchanges, apart_ns)
    learned = [judge.fix for judge in judges if judge.at_ns < outcome.settled_ns]
    late = [judge for judge in judges if judge.at_ns >= outcome.settled_ns]
    if len(learned) < 2 or len(late) < 2:
        return None
    fixes = [judge.fix for judge in late]
    drift = clock.Drift(worst_ppb=WORST_PPB)
    off = Sizes.of([judge.chrony_off_ns for judge in late])
    assert off is not None
    return ClocksBeside(
        learned=len(learned),
        from_ns=late[0].at_ns,
        until_ns=late[-1].at_ns,
        errors=(
            ClockErrors(
                clock="chrony", off=off, judge_ns=_median([judge.bound_ns for judge in late])
            ),
            _errors("once", clock.Global.once(learned[0], drift).at, fixes),
            _errors("learned", clock.Global.fit(learned, drift).at, fixes),
            _errors("corrected", clock.Correction(learned[0], fixes[-1], drift).at, fixes[:-1]),
        ),
    )


def _judges(
    outcome: IntervalOutcome,
    series: ClockReadings,
    exchanges: Iterable[ClockExchange],
    apart_ns: int,
) -> list[_Judge]:
    mono = series.mono - series.mono[0]
    judges = []
    for exchange in exchanges:
        if exchange.fix is None or not series.mono[0] <= exchange.guest_mono_ns <= series.mono[-1]:
            continue
        since = exchange.guest_mono_ns - series.mono[0]
        # Differences first: a double does not hold nanoseconds since the epoch.
        raw = since + np.interp(since, mono, series.raw - series.mono - _first(series.raw, series))
        ahead = np.interp(since, mono, series.real - series.mono - _first(series.real, series))
        guest_ns = exchange.guest_mono_ns + _first(series.real, series) + round(float(ahead))
        judges.append(
            _Judge(
                at_ns=round(float(raw) / (1 + outcome.error_ppb / 1e9)),
                chrony_off_ns=guest_ns - (exchange.host_ns + apart_ns),
                bound_ns=exchange.bound_ns,
                fix=exchange.fix,
            )
        )
    return judges


def _errors(
    name: HeldClock,
    at: Callable[[int], clock.Reading],
    fixes: Sequence[clock.Fix],
) -> ClockErrors:
    readings = [at(fix.local_ns) for fix in fixes]
    pairs = zip(readings, fixes, strict=True)
    off = Sizes.of([reading.ns - fix.local_ns - fix.offset_ns for reading, fix in pairs])
    assert off is not None
    bounds = [reading.bound_ns for reading in readings if reading.bound_ns is not None]
    return ClockErrors(
        clock=name,
        off=off,
        judge_ns=_median([fix.half_ns for fix in fixes]),
        bound_ns=_median(bounds) if len(bounds) == len(readings) else None,
    )


def _median(values: Sequence[int]) -> float:
    return float(np.median(values))


def _first(of: np.ndarray, series: ClockReadings) -> int:
    """What a clock is ahead of CLOCK_MONOTONIC at the first reading."""
    return int(of[0] - series.mono[0])
