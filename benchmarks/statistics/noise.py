"""Noise with a known truth: what the moments of a campaign do to the time of a trial.

Everything is on the log scale, as times: +0.05 is 5 % slower. A series is made for many campaigns
at once, one value per slot; a slot is the nominal second of one trial. The noise of an environment
and that of its baseline have the same distribution (but for `lopsided`), so the ratio's truth is
the one that is put on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import signal

from benchmarks.statistics.traces import Trace, segments
from ullage.stats import Floats

Rng = np.random.Generator
Series = Callable[[Rng, int, int], Floats]
"""From generator, campaigns and slots to log times, campaigns × slots."""

WHITE = 0.05
SPEEDS = (2417.0, 1925.0, 1432.0)
"""Events per second: the ends and the middle of twelve one-second CPU runs on our machine."""
STAY = 4.0
"""Slots that a speed lasts, on average."""


@dataclass(frozen=True)
class Regime:
    """One kind of noise."""

    name: str
    says: str
    series: Series
    instance: float = 0.0
    """Standard deviation (log) of what each making of an instance adds, for each workload anew."""
    lopsided: float = 1.0
    """The environments' noise is so many times the baseline's."""
    synthetic: bool = True
    note: str = ""
    """What no honest method could do better, if so."""


def white(rng: Rng, campaigns: int, slots: int, scale: float = WHITE) -> Floats:
    return scale * rng.standard_normal((campaigns, slots))


def drift(rng: Rng, campaigns: int, slots: int) -> Floats:
    """Linear, 20 % in ten minutes, up or down, on white noise of 3 %."""
    slope = rng.choice([-0.2, 0.2], (campaigns, 1)) / 600
    return slope * np.arange(slots) + white(rng, campaigns, slots, 0.03)


def walk(rng: Rng, campaigns: int, slots: int) -> Floats:
    """A random walk, 1 % per second, on white noise of 3 %."""
    return np.cumsum(white(rng, campaigns, slots, 0.01), axis=1) + white(
        rng, campaigns, slots, 0.03
    )


def speeds(rng: Rng, campaigns: int, slots: int) -> Floats:
    """Markov switching between three speeds, each equally often, on white noise of 2 %."""
    logs = -np.log(np.array(SPEEDS))
    logs -= logs.mean()
    jumps = rng.random((campaigns, slots)) < 1 / STAY
    jumps[:, 0] = True
    # A jump goes to one of the two other speeds: +1 or +2 modulo 3.
    steps = np.where(jumps, rng.integers(1, 3, (campaigns, slots)), 0)
    steps[:, 0] = rng.integers(0, 3, campaigns)
    speed_logs: Floats = logs[np.cumsum(steps, axis=1) % 3]
    return speed_logs + white(rng, campaigns, slots, 0.02)


def heavy(rng: Rng, campaigns: int, slots: int) -> Floats:
    """Student's t with three degrees of freedom, times 3 %."""
    return 0.03 * rng.standard_t(3, (campaigns, slots))


def outliers(rng: Rng, campaigns: int, slots: int) -> Floats:
    """Two in a hundred trials take twice as long; white noise of 3 % otherwise."""
    doubled = rng.random((campaigns, slots)) < 0.02
    return math.log(2) * doubled + white(rng, campaigns, slots, 0.03)


def ar1(rng: Rng, campaigns: int, slots: int, phi: float = 0.9, scale: float = WHITE) -> Floats:
    """First-order autoregression with lag-one correlation `phi`, stationary from the start."""
    shocks = white(rng, campaigns, slots, scale * math.sqrt(1 - phi * phi))
    shocks[:, 0] /= math.sqrt(1 - phi * phi)
    filtered: Floats = signal.lfilter([1.0], [1.0, -phi], shocks, axis=1)
    return filtered


def pink(rng: Rng, campaigns: int, slots: int, scale: float = WHITE) -> Floats:
    """Power falling with frequency, as 1/f, down to one period in four lengths of the series.

    By shaping the spectrum (Timmer & König 1995, Astron. Astrophys. 300:707); `scale` is the
    standard deviation over the whole of it.
    """
    length = 4 * slots
    power = np.zeros(length // 2 + 1)
    power[1:] = 1 / np.arange(1, length // 2 + 1)
    shape = (campaigns, power.size)
    spectrum = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) * np.sqrt(power)
    whole = np.fft.irfft(spectrum, length, axis=1)[:, :slots]
    # The variance of the inverse transform, by Parseval: each bin but the last counts twice.
    bins = np.full(power.size, 4.0)
    bins[-1] = 1.0
    return whole * scale / math.sqrt(float(np.sum(bins * power))) * length


def steps(rng: Rng, campaigns: int, slots: int, last: int = 12) -> Floats:
    """Each stretch of `last` slots (a block) has its own level, 10 %; white noise of 3 %."""
    levels = white(rng, campaigns, -(-slots // last), 0.1)
    return np.repeat(levels, last, axis=1)[:, :slots] + white(rng, campaigns, slots, 0.03)


def skewed(rng: Rng, campaigns: int, slots: int) -> Floats:
    """An overhead on every trial, lognormal, 3 % in the median, σ 1: never faster, often slow.

    Its mean log is taken off, so that the truth is the ratio of geometric means.
    """
    return np.log1p(0.03 * rng.lognormal(0, 1, (campaigns, slots))) - SKEWED_MEAN


def _skewed_mean() -> float:
    """E log(1 + 0.03 e^Z) by Gauss–Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    return float(weights @ np.log1p(0.03 * np.exp(nodes)) / weights.sum())


SKEWED_MEAN = _skewed_mean()

SYNTHETIC = (
    Regime("white", "independent, normal, 5 %", white),
    Regime("linear drift", "20 % in ten minutes, either way; white 3 %", drift),
    Regime("random walk", "1 % per √s; white 3 %", walk),
    Regime("speeds", "Markov switching, 1,432 to 2,417 events/s, 4 s each; white 2 %", speeds),
    Regime("t3", "Student's t with 3 degrees of freedom, × 3 %", heavy),
    Regime("outliers", "2 % of the trials take twice as long; white 3 %", outliers),
    Regime("AR(1)", "lag-one correlation 0.9, 5 %", ar1),
    Regime("1/f", "pink, 5 % over the campaign", pink),
    Regime("steps", "every 12 s another level, 10 %; white 3 %", steps),
    Regime("skewed", "lognormal overhead, 3 % in the median, σ 1", skewed),
    Regime(
        "lopsided",
        "skewed, and twice as much in the environment",
        skewed,
        lopsided=2.0,
        note="an attack: no interval for a mean withstands every skew (Bahadur & Savage 1956, Ann. "
        "Math. Statist. 27:1115). It misses where the rare slow trials were not met, and then says "
        "better. More blocks help.",
    ),
    Regime(
        "instances",
        "each making of an instance ± 2 %; white 3 %",
        partial(white, scale=0.03),
        instance=0.02,
    ),
)


def recorded(trace: Trace) -> tuple[Regime, ...]:
    """One regime for each column of a trace; a slot is one turn."""

    return tuple(
        Regime(
            f"{trace.name}: {key}",
            "recorded, in segments of four minutes",
            partial(segments, column),
            synthetic=False,
        )
        for key, column in trace.columns.items()
    )
