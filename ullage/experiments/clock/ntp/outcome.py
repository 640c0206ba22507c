"""What the NTP experiment is asked, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from ullage.common.clock_model import FrozenModel
from ullage.experiments.clock.ntp import logs
from ullage.experiments.clock.ntp.logs import LogError, Measurement, Tracking, Update
from ullage.experiments.clock.ntp.series import (
    ClockCorrection,
    ClockExchange,
    ClockReadings,
    OscillatorRate,
)

LEARNING_UPDATES: Final = 8
"""Until it has had so many, the daemon is still learning how wrong the oscillator is."""

BURST_S: Final = 16
"""So long may `iburst` measure every 2 s, whatever the polling interval: 4 to 8 times."""

_LONGEST_SUBSECOND_S: Final = 3600

PollingInterval = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


class NtpOptions(FrozenModel):
    intervals_s: tuple[PollingInterval, ...] = Field((0.0,), min_length=1, max_length=16)
    """Polling intervals; 0: the shortest that chrony has."""
    frequency_error_ppm: float = Field(-50.0, ge=-400, le=400, allow_inf_nan=False)
    """Of the guest's oscillator; positive: it runs fast. chrony can take away 500 at most."""
    observe_s: float = Field(150.0, ge=20, le=14_400, allow_inf_nan=False)
    """How long chrony is watched at each polling interval; of less than 1 s: an hour at most."""
    settle_s: float = Field(30.0, ge=0, le=86_400, allow_inf_nan=False)
    """So long after its first update, and `LEARNING_UPDATES` more, chrony counts as settled."""

    @model_validator(mode="after")
    def _not_too_much(self) -> Self:
        if self.observe_s > _LONGEST_SUBSECOND_S and min(self.intervals_s) < 1:
            raise ValueError("a polling interval of less than 1 s is watched for an hour at most")
        return self


class Sizes(FrozenModel):
    """Sizes without their sign, in nanoseconds."""

    count: int
    mean_ns: float
    sd_ns: float | None
    """None with fewer than two."""
    p50_ns: float
    p90_ns: float
    p99_ns: float
    max_ns: float

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Self | None:
        """None of nothing: that is no size."""
        if not sizes:
            return None
        absolute = np.abs(np.array(sizes, dtype=np.float64))
        p50, p90, p99 = (float(q) for q in np.quantile(absolute, (0.5, 0.9, 0.99)))
        return cls(
            count=len(sizes),
            mean_ns=float(absolute.mean()),
            sd_ns=float(absolute.std(ddof=1)) if len(sizes) > 1 else None,
            p50_ns=p50,
            p90_ns=p90,
            p99_ns=p99,
            max_ns=float(absolute.max()),
        )


HeldClock = Literal["chrony", "once", "learned", "corrected"]
"""The clock that chrony disciplines; ours after the first exchange, after all until chrony had
settled, and as it is corrected by one more at the end."""

CLOCKS: Final[Mapping[HeldClock, str]] = {
    "chrony": "disciplined by chrony",
    "once": "ours, after one exchange",
    "learned": "ours, after those until chrony had settled",
    "corrected": "ours, corrected by one more at the end",
}


class ClockErrors(FrozenModel):
    """How far one clock was off, at the exchanges that judged it."""

    clock: HeldClock
    off: Sizes
    judge_ns: float
    """The exchanges that judged it are wrong by this much at most, median."""
    bound_ns: float | None = None
    """What the clock says of itself, in 99.9 % of all cases, median; None: it says nothing."""


class ClocksBeside(FrozenModel):
    """chrony and our clock in the same guest, over the same time."""

    learned: int
    """Exchanges until chrony had settled."""
    from_ns: int
    """The first exchange that judged, in true time since the first reading."""
    until_ns: int
    errors: tuple[ClockErrors, ...]


class IntervalOutcome(FrozenModel):
    """What was seen at one polling interval."""

    asked_s: float
    poll: int
    """chrony polls every 2^poll seconds; it has no other intervals."""
    used_s: float | None
    """Between two answers that chrony used, on average, without the burst at the start; None when
    there were not two."""
    observed_s: float
    error_ppb: float
    """Of the guest's oscillator, measured: CLOCK_MONOTONIC_RAW against the host's clock."""
    error_bound_ppb: float
    """`error_ppb` is wrong by this much at most, from the round trips alone."""
    tracking: Tracking
    """What chrony says at the end: its own estimate of that error, its RMS offset …"""
    delay_ns: int
    """Median round trip to the server."""
    settled_ns: int | None
    """When chrony counted as settled, since the first reading; None: never."""
    decided: Sizes | None
    """Offsets that settled chrony decided to correct, one an update."""
    applied: Sizes | None
    """Corrections that settled chrony made, as measured."""
    decided_learning: Sizes | None
    applied_learning: Sizes | None
    rate_max_ppb: int | None
    """The fastest slew of settled chrony, against true time."""
    unexplained_ns: float
    """The most that the clock moved from one reading to the next beyond what the kernel was told;
    steps left out. Small: no correction escaped."""
    updates: list[Update]
    corrections: list[ClockCorrection]
    """Changes that follow each other faster than the readings (10 ms) are one."""
    beside: ClocksBeside | None = Field(None, exclude_if=lambda given: given is None)
    """Our clock in the same guest; None: `beside_why` says why not."""
    beside_why: str | None = Field(None, exclude_if=lambda given: given is None)
    """None where there is a comparison, and in a record of an ullage that did not say."""


class NtpOutcome(FrozenModel):
    """The whole experiment; serialisable."""

    options: NtpOptions
    counter_khz: float
    """The true frequency of the guest's counter, from a guest that was told another."""
    server: str
    versions: dict[str, str]
    intervals: list[IntervalOutcome]


class ChronyOutput(NamedTuple):
    """What chrony says of itself, as it came."""

    tracking: str
    """`chronyc -c tracking`."""
    tracking_log: str
    measurements_log: str


def evaluate(
    asked_s: float,
    options: NtpOptions,
    series: ClockReadings,
    exchanges: Sequence[ClockExchange],
    output: ChronyOutput,
) -> IntervalOutcome:
    """From what was read to what was found. SeriesError, LogError."""
    rate = series.rate(exchanges)
    corrections = series.corrections(rate)
    updates = logs.updates(output.tracking_log)
    used = logs.measurements(output.measurements_log)
    if not used or not updates:
        raise LogError("chrony logged no measurement and no update")
    settled = _settled(series, rate, updates, options.settle_s)
    after_s = len(updates) if settled is None else settled.updates
    late = [c for c in corrections if settled is not None and c.at_ns >= settled.at_ns]
    early = corrections[: len(corrections) - len(late)]
    return IntervalOutcome(
        asked_s=asked_s,
        poll=used[-1].poll,
        used_s=mean_interval_s(used),
        observed_s=float(series.raw[-1] - series.raw[0]) / 1e9 / (1 + rate.error_ppb / 1e9),
        error_ppb=rate.error_ppb,
        error_bound_ppb=rate.bound_ppb,
        tracking=logs.tracking(output.tracking),
        delay_ns=round(float(np.median([m.delay_ns for m in used]))),
        settled_ns=None if settled is None else settled.at_ns,
        decided=Sizes.of([u.offset_ns for u in updates[after_s:]]),
        applied=Sizes.of([c.size_ns for c in late]),
        decided_learning=Sizes.of([u.offset_ns for u in updates[:after_s]]),
        applied_learning=Sizes.of([c.size_ns for c in early]),
        rate_max_ppb=max((abs(c.rate_ppb) for c in late), default=None),
        unexplained_ns=series.unexplained_max_ns(),
        updates=updates,
        corrections=corrections,
    )


class _Settled(NamedTuple):
    at_ns: int
    """In true time since the first reading."""
    updates: int
    """So many came before."""


def _settled(
    series: ClockReadings, rate: OscillatorRate, updates: Sequence[Update], settle_s: float
) -> _Settled | None:
    """When chrony had had its time to learn; None when it was not watched for so long."""
    if len(updates) <= LEARNING_UPDATES:
        return None
    epoch_s = max(updates[0].epoch_s + settle_s, updates[LEARNING_UPDATES - 1].epoch_s + 1)
    before = sum(u.epoch_s < epoch_s for u in updates)
    first = int(np.searchsorted(series.real, round(epoch_s * 1e9)))
    if before == len(updates) or first == len(series.real):
        return None
    passed = float(series.raw[first] - series.raw[0]) / (1 + rate.error_ppb / 1e9)
    return _Settled(round(passed), before)


def mean_interval_s(used: Sequence[Measurement]) -> float | None:
    """Between two measurements, on average, after the burst at the start; None without two."""
    burst = sum(measurement.epoch_s <= used[0].epoch_s + BURST_S for measurement in used)
    polled = used[max(burst - 1, 0) :]
    if len(polled) < 2:
        return None
    return (polled[-1].epoch_s - polled[0].epoch_s) / (len(polled) - 1)


class PublishedCorrection(FrozenModel):
    interval_s: float
    mean_ns: float
    sd_ns: float


class PublishedNtp(FrozenModel):
    source: str
    corrections: list[PublishedCorrection]


class NtpReport(FrozenModel):
    """What was measured, and what was published."""

    measured: NtpOutcome
    published: PublishedNtp
