"""Doubts about the pairs as a series in time: do they differ by more than chance?

An interval takes its values to be independent draws from one distribution. Each of the four tests
here looks for one way in which they are not, at a quarter of the level that a comparison has.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ullage.analysis.comparison import pairing
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.model import Doubt
from ullage.analysis.comparison.pairing import Draft
from ullage.analysis.comparison.rounding import share
from ullage.analysis.comparison.words import pairs, ratio_words
from ullage.runs.events import Trial
from ullage.stats import LEAST_PAIRS, Floats, series_checks
from ullage.stats.interval import collapse
from ullage.stats.series_checks import drift
from ullage.stats.uncertainty import dithered, quantum

WIDER = 1.1
"""Neighbours that are alike matter when the interval would be so many times as wide."""


def doubts(d: Draft, alpha: float) -> list[Doubt | None]:
    """Those of one comparison, each test at alpha / 4."""
    tests: tuple[Callable[[Draft, Floats, float], Doubt | None], ...] = (
        _drift,
        _warm_up,
        _autocorrelated,
        _bimodal,
    )
    if len(d.paired.pairs) < LEAST_PAIRS:
        return []
    x = log_ratios(d)
    return [test(d, x, alpha / len(tests)) for test in tests]


def log_ratios(d: Draft) -> Floats:
    """Of the pairs, with the rounding of the figures undone by chance: see `dithered`.

    Else heaps of equal figures would be groups, and a spread of nothing would make all else far.
    """
    if d.metric.coordinate is not None:
        return np.array(d.log_ratios)
    mine, theirs = (
        _unrounded(trials, d.metric.name, d.settings.seed + i)
        for i, (_, trials) in enumerate(d.sides)
    )
    turned: Floats = np.log(mine) - np.log(theirs)
    return turned if d.metric.better == "lower" else -turned


def _unrounded(trials: list[Trial], name: str, seed: int) -> Floats:
    x = np.array([t.metrics[name] for t in trials], dtype=np.float64)
    return dithered(x, quantum(x), seed)


def _drift(d: Draft, _: Floats, alpha: float) -> Doubt | None:
    trend = drift([p.environment.epoch_ns for p in d.paired.pairs], d.log_ratios)
    if trend.p_value > alpha:
        return None
    way = "rises" if trend.correlation > 0 else "falls"
    changes = (
        "the instances were made anew meanwhile, so look for what stayed: the host's disk and its "
        "caches, files that all makings share."
        if d.made_anew
        else "caches that fill, a disk that ages, a guest that grows. `repeat: instances:` begins "
        "each anew."
    )
    return Doubt(
        code="drift",
        message=f"The ratio {way} during the run (rank correlation with time "
        f"{trend.correlation:+.2f}): it is not one number.",
        advice="This ratio is a mean over the run, and no later hour need have it: look at the "
        "points over time. Pairs take out what both sides share, so one side alone changes: "
        f"{changes}",
    )


def _warm_up(d: Draft, x: Floats, alpha: float) -> Doubt | None:
    if x.size < series_checks.WARM_UP_LEAST:
        return None
    start = series_checks.warm_up(x)
    if start.p_value > alpha:
        return None
    first = (
        "The first pair differs" if start.first == 1 else f"The first {start.first} pairs differ"
    )
    later = _without_first(d, start.first)
    without = f" Without: {ratio_words(later)}." if later else ""
    begin = (
        ", and let the host work before it: the instances are made anew already, so it is the host "
        "that was cold."
        if d.made_anew
        else ", or the instances anew by `repeat: instances:` when the start is what you ask about."
    )
    return Doubt(
        code="warm-up",
        message=f"{first} from the rest by a ratio of {math.exp(start.distance):.3g}; they are "
        f"kept.{without}",
        advice="Read the ratio without them as that of a system that has run for a while, and "
        f"these as what its start costs. For the next run make trials longer{begin}",
    )


def _without_first(d: Draft, number: int) -> Interval | None:
    units = collapse(d.log_ratios[number:], d.generations[number:])
    return pairing.mean_interval(units, d.settings.confidence, d.widening)


def _autocorrelated(d: Draft, x: Floats, alpha: float) -> Doubt | None:
    """Of what the interval counts: the pairs, or their means for each making."""
    units = collapse(x, d.generations)
    if units.size < series_checks.AUTOCORRELATION_LEAST:
        return None
    neighbours = series_checks.autocorrelation(units)
    # What the interval has been widened by already need not be said again.
    wider = neighbours.widening(d.settings.confidence) / d.memory
    if neighbours.p_value > alpha or wider < WIDER:
        return None
    several = d.precision == "intermediate"
    rests_on = f"{neighbours.n} makings" if several else pairs(neighbours.n)
    spread = "" if d.made_anew else ", with `repeat: instances:` if the instances are what changes"
    return Doubt(
        code="autocorrelated",
        message=f"Neighbours are alike (lag-1 autocorrelation {neighbours.rho:.2f}): {rests_on} "
        f"tell as much as about {neighbours.effective:.2g} independent ones, and the interval "
        "should be "
        f"{wider:.2g} times as wide.",
        advice="Read the interval as so much wider. The machine changes more slowly than "
        f"{'makings' if several else 'blocks'} go by: more of the same length help less than a "
        f"run over more hours{spread}.",
    )


def _bimodal(d: Draft, x: Floats, alpha: float) -> Doubt | None:
    groups = series_checks.two_groups(x)
    if groups.p_value > alpha:
        return None
    less, more = math.exp(groups.low), math.exp(groups.high)
    return Doubt(
        code="bimodal",
        message=f"The ratios stand in two groups: {share(groups.below)} near {less:.3g} and "
        f"{share(1 - groups.below)} near {more:.3g}{_by_making(d)}.",
        advice="The mean lies where few pairs do: read both groups. Look at what tells them apart "
        "(the CPU, the place in the block, the making, other work), and fix it in the plan or "
        "count it as what users get.",
    )


def _by_making(d: Draft) -> str:
    return "" if d.precision == "repeatability" else f", over {len(set(d.generations))} makings"
