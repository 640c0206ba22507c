"""Does the stated uncertainty of an energy cover its error, and is it not much larger?

Signals with a known integral (steps, plateaus, ramps, sines, bursts, flicker) are read as meters
read them: every 0.5 to 2 s, not quite on time, at an instant that is known to within some
milliseconds, as a power or as a counter of energy. Windows lie anywhere and are 1 to 120 s long;
each signal and window is read many times, each time at other instants. The peer is what scripts do:
readings in the window, summed, times the interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Figure, main
from ullage.analysis.energy.integral import Integral, integrate
from ullage.analysis.energy.series import ChannelSeries
from ullage.runs.readings import Channel, Measurand, Opened

Floats = NDArray[np.float64]
CASES: Final = 10_000
READ: Final = 50
"""Times that each signal is read."""
SPAN_S: Final = 200.0
WINDOW_S: Final = (1.0, 120.0)
EVERY_S: Final = (0.5, 2.0)
LATE: Final = 0.1
"""Of an interval: a reading is so late at most, and knows it."""
WITHIN_S: Final = 0.02
"""The value is of so much earlier or later than its instant, and nobody knows."""
KINDS: Final[tuple[Measurand, ...]] = ("power", "energy")
COVERED, WIDEST = 0.95, 2.0


@dataclass(frozen=True)
class Pieces:
    """A power made of straight pieces."""

    starts: Floats
    watts: Floats
    """At the start of each piece."""
    slopes: Floats

    def power(self, at: Floats) -> Floats:
        """W at these instants."""
        piece = self._piece(at)
        return self.watts[piece] + self.slopes[piece] * (at - self.starts[piece])

    def energy(self, at: Floats) -> Floats:
        """J since 0."""
        long = np.diff(self.starts)
        whole = self.watts[:-1] * long + self.slopes[:-1] * long**2 / 2
        before = np.concatenate(([0.0], np.cumsum(whole)))
        piece = self._piece(at)
        since = at - self.starts[piece]
        return before[piece] + self.watts[piece] * since + self.slopes[piece] * since**2 / 2

    def _piece(self, at: Floats) -> NDArray[np.int64]:
        return np.maximum(0, np.searchsorted(self.starts, at, side="right") - 1)


@dataclass(frozen=True)
class Sine:
    """A power that swings."""

    watts: float
    swing: float
    rate: float
    phase: float

    def power(self, at: Floats) -> Floats:
        """W at these instants."""
        swung: Floats = np.sin(self.rate * at + self.phase)
        return self.watts + self.swing * swung

    def energy(self, at: Floats) -> Floats:
        """J since 0."""
        turned: Floats = np.cos(self.phase) - np.cos(self.rate * at + self.phase)
        return self.watts * at + self.swing / self.rate * turned


Signal = Pieces | Sine
Maker = Callable[[np.random.Generator, float], Signal]


def _flat(starts: Floats, watts: Floats) -> Pieces:
    return Pieces(starts, watts, np.zeros_like(watts))


def _spread(rng: np.random.Generator, least: float, most: float) -> float:
    return float(np.exp(rng.uniform(np.log(least), np.log(most))))


def _times(rng: np.random.Generator, least: float, most: float) -> Floats:
    """Starts of pieces whose lengths are spread over a range, from 0 to the end."""
    starts = [0.0]
    while starts[-1] < SPAN_S:
        starts.append(starts[-1] + _spread(rng, least, most))
    return np.array(starts)


def steps(rng: np.random.Generator, every: float) -> Signal:
    """One step, somewhere in or near the window."""
    return _flat(np.array([0.0, rng.uniform(0, SPAN_S)]), rng.uniform(50, 250, 2))


def plateaus(rng: np.random.Generator, every: float) -> Signal:
    """Phases of 3 to 40 s, each of its own power."""
    starts = _times(rng, 3, 40)
    return _flat(starts, rng.uniform(50, 250, starts.size))


def ramps(rng: np.random.Generator, every: float) -> Signal:
    """From plateau to plateau by ramps of 5 to 60 s."""
    starts = _times(rng, 5, 60)
    levels = np.repeat(rng.uniform(50, 250, starts.size), 2)[1 : starts.size + 1]
    slopes = np.append(np.diff(levels) / np.diff(starts), 0.0)
    return Pieces(starts, levels, slopes)


def sines(rng: np.random.Generator, every: float) -> Signal:
    """Periods of 6 readings to 120 s."""
    period = _spread(rng, 6 * every, 120)
    return Sine(150, rng.uniform(20, 100), 2 * np.pi / period, rng.uniform(0, 2 * np.pi))


def bursts(rng: np.random.Generator, every: float) -> Signal:
    """A second or less of work every few seconds: shorter than most intervals."""
    starts = np.cumsum(rng.exponential(4, 200))
    lengths = rng.uniform(0.1, 1.0, starts.size)
    edges = np.sort(np.concatenate(([0.0], starts, starts + lengths)))
    count = np.searchsorted(starts, edges, side="right") - np.searchsorted(
        np.sort(starts + lengths), edges, side="right"
    )
    return _flat(edges, np.where(count > 0, 180.0, 60.0))


def flicker(rng: np.random.Generator, every: float) -> Signal:
    """Another power every 20 ms: what a busy scheduler looks like."""
    starts = np.arange(0, SPAN_S, 0.02)
    return _flat(starts, 150 + 20 * rng.standard_normal(starts.size))


CLASSES: Final[tuple[Maker, ...]] = (
    steps,
    plateaus,
    ramps,
    sines,
    bursts,
    flicker,
)


@dataclass(frozen=True)
class Cases:
    """Of one class of signals; a row for each signal, a column for each way it was read. J."""

    errors: Floats
    stated: Floats
    """Half width of the 95 % interval."""
    summed: Floats
    """Errors of the peer; NaN for counters."""

    @property
    def covered(self) -> int:
        """Errors that are within what was stated, to rounding."""
        return int(np.sum(np.abs(self.errors) <= self.stated + 1e-6))

    @property
    def width(self) -> float:
        """What was stated, in 95th percentiles of the error of the same signal and window.

        The mean of the one over the mean of the other: a signal that is read without an error
        counts with what was stated of it.
        """
        return float(np.mean(self.stated) / np.mean(np.quantile(np.abs(self.errors), 0.95, axis=1)))


def study(make: Maker, kind: Measurand, signals: int, seed: int) -> Cases:
    """So many signals of a class, each with a window of its own, each read `READ` times."""
    rng = np.random.default_rng(seed)
    rows = [_read(rng, make, kind) for _ in range(signals)]
    errors, stated, summed = np.array(rows).transpose(2, 0, 1)
    return Cases(errors, stated, summed)


def _read(
    rng: np.random.Generator, make: Maker, kind: Measurand
) -> list[tuple[float, float, float]]:
    every = rng.uniform(*EVERY_S)
    signal = make(rng, every)
    window = _spread(rng, *WINDOW_S)
    start = rng.uniform(4 * every, SPAN_S - 4 * every - window)
    return [_case(rng, signal, kind, every, (start, start + window)) for _ in range(READ)]


def _case(
    rng: np.random.Generator,
    signal: Signal,
    kind: Measurand,
    every: float,
    window: tuple[float, float],
) -> tuple[float, float, float]:
    at = np.arange(rng.uniform(0.1, 1.1) * every, SPAN_S, every)
    at += rng.uniform(0, LATE * every, at.size)
    really = at + rng.uniform(-WITHIN_S, WITHIN_S, at.size)
    read = signal.energy(really) if kind == "energy" else signal.power(really)
    integral = integrate(_series(kind, every, at, read), *(round(edge * 1e9) for edge in window))
    assert isinstance(integral, Integral)
    first, last = signal.energy(np.array(window))
    inside = (at >= window[0]) & (at < window[1])
    summed = np.nan if kind == "energy" else every * read[inside].sum()
    return integral.joules - (last - first), integral.expanded, summed - (last - first)


def _series(kind: Measurand, every: float, at: Floats, read: Floats) -> ChannelSeries:
    channel = Channel(
        name="wall", kind=kind, method="measured", scope="wall", observer="host", resolution=0
    )
    opened = Opened(
        session="s",
        label="wall",
        meter="signal",
        options={},
        every_s=every,
        channels=(channel,),
        epoch_ns=0,
        at_ns=0,
    )
    within_ns = np.full(at.size, round(WITHIN_S * 1e9), dtype=np.int64)
    return ChannelSeries(
        opened, channel, np.rint(at * 1e9).astype(np.int64), within_ns, read, (), ()
    )


def measure(quick: bool) -> Iterator[Figure]:
    """Coverage and width of each class of signals, and of all together."""
    signals = CASES // READ // (20 if quick else 1)
    for kind in KINDS:
        classes = []
        for seed, make in enumerate(CLASSES):
            classes.append(study(make, kind, signals, seed))
            yield from _figures(f"{kind}, {make.__name__}", classes[-1])
        yield from _figures(f"{kind}, mixture", mixed(classes))


def mixed(classes: list[Cases]) -> Cases:
    """All classes in one."""
    columns = [(cases.errors, cases.stated, cases.summed) for cases in classes]
    return Cases(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def _figures(name: str, cases: Cases) -> list[Figure]:
    number, coverage = cases.errors.size, cases.covered / cases.errors.size
    p95 = float(np.quantile(np.abs(cases.errors), 0.95))
    peer = float(np.quantile(np.abs(cases.summed), 0.95))
    return [
        Figure(
            name=f"{name}: errors covered",
            value=coverage,
            unit=f"of {number:,}",
            reach=f"at least {COVERED:g}",
            holds=coverage >= COVERED,
        ),
        Figure(
            name=f"{name}: stated, in 95th percentiles of the error",
            value=cases.width,
            unit="",
            reach=f"at most {WIDEST:g}",
            holds=cases.width <= WIDEST,
        ),
        Figure(
            name=f"{name}: error, 95th percentile",
            value=p95,
            unit="J",
            peer="" if np.isnan(peer) else "readings × interval",
            peer_value=None if np.isnan(peer) else peer,
        ),
    ]


if __name__ == "__main__":
    main(measure, __doc__ or "")
