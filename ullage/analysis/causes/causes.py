"""What changed along with a figure that is worse?

Every counter that was seen in the pairs of trials is compared as the figure is: paired by block, on
logarithms. A counter of events is told only if it changed both by the second and by the work done:
one that goes with the clock (a timer) changes by the work alone when a program slows down, one that
goes with the work (requests, packets) changes by the second alone, and neither is news. One that
goes with both falls by the second and rises by the work, so the two must have changed the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ullage.analysis.causes.counters import COUNTERS, OF_A_CPU, Counter
from ullage.analysis.causes.symbols import SymbolTables
from ullage.analysis.comparison.model import Cause, Causes
from ullage.analysis.comparison.pairing import Draft, stored
from ullage.analysis.comparison.rounding import MINUS, decimals, quantity, ratio, share
from ullage.analysis.comparison.words import between
from ullage.stats.interval import IntervalEstimate, collapse, moments, t_interval, t_quantile

_A_SECOND: Final = " a second"
_OF_A_CPU: Final = " of a CPU"
_PERCENT: Final = {"1": "", OF_A_CPU: _OF_A_CPU}
"""Units that are told as shares → what of."""
LEAD: Final = "What changes along is a lead, not a proof."


def described(causes: Causes) -> str:
    """The causes of one comparison in a sentence or two, for `show --details`."""
    if not causes.found:
        return none_changed(causes)
    return f"{'; '.join(cause_words(cause) for cause in causes.found)}. {counted(causes)} {LEAD}"


def none_changed(causes: Causes) -> str:
    """When no counter can be named."""
    if causes.looked == 0:
        return "no counter was seen in enough of these trials"
    return (
        f"none of the {causes.looked} counters looked at changed for sure: the cause is not in "
        "them, or more blocks are needed to see it"
    )


def counted(causes: Causes) -> str:
    """How many there were to choose from."""
    changed = "1 changed" if causes.differing == 1 else f"{causes.differing} changed"
    return (
        f"Of {causes.looked} counters looked at {changed}; all intervals hold together at "
        f"{share(causes.confidence)}."
    )


def cause_words(cause: Cause) -> str:
    """`interrupts of the host: 12,300 a second against 1,020 a second, 12 times (10 to 15)`."""
    mine, theirs = (value(x, cause.unit) for x in (cause.environment_mean, cause.baseline_mean))
    theirs = theirs.removesuffix(_OF_A_CPU)
    return f"{cause.words}: {mine} against {theirs}, {change(cause)} ({bounds(cause)})"


def change(cause: Cause) -> str:
    """`12 times`, or where one side is next to nothing `11 % more`."""
    if not cause.from_nothing:
        return f"{ratio(cause.ratio)[0]} times"
    more = "more" if cause.difference > 0 else "less"
    if cause.unit in _PERCENT:
        return f"{_percents(cause)[0]}{_PERCENT[cause.unit]} {more}"
    return f"{value(abs(cause.difference), cause.unit)} {more}"


def bounds(cause: Cause) -> str:
    """The interval of that."""
    if not cause.from_nothing:
        return between(cause.ratio)
    if cause.unit in _PERCENT:
        return " to ".join(_percents(cause)[1:])
    low, high = (_signed(end, cause.unit) for end in _ends(cause))
    return f"{low.removesuffix(_A_SECOND)} to {high}"


def _ends(cause: Cause) -> tuple[float, float]:
    """Bounds of how much more, or how much less."""
    if cause.difference < 0:
        return -cause.difference_high, -cause.difference_low
    return cause.difference_low, cause.difference_high


def _percents(cause: Cause) -> tuple[str, str, str]:
    """How much more or less and its bounds, with the digits that they bear, rounded outwards.

    A bound above 0 does not read as 0.
    """
    low, high = (100 * end for end in _ends(cause))
    digits = decimals(low, high)
    if low > 0:
        digits = max(digits, math.ceil(-math.log10(low)))
    scale = 10.0**digits
    outer = math.floor(round(low * scale, 6)) / scale, math.ceil(round(high * scale, 6)) / scale
    texts = [f"{x:.{digits}f} %".replace("-", MINUS) for x in (100 * abs(cause.difference), *outer)]
    return texts[0], texts[1], texts[2]


def value(x: float, unit: str) -> str:
    """`1,020 a second`, `11 %`, `11 % of a CPU`, `4.2 MB/s`, `0.8`."""
    if unit == "1":
        return share(x)
    if unit == OF_A_CPU:
        return share(x) + _OF_A_CPU
    if unit == "1/s":
        return quantity(x, "1") + _A_SECOND
    return quantity(x, unit)


def _signed(x: float, unit: str) -> str:
    return f"{MINUS}{value(-x, unit)}" if x < 0 else value(x, unit)


MOST: Final = 3
LEAST: Final = 3
"""Independent values without which a counter is not looked at."""


@dataclass(frozen=True)
class _Readings:
    """A counter in all pairs that have it."""

    counter: Counter
    mine: Sequence[float]
    theirs: Sequence[float]
    slower: Sequence[float]
    """Log-ratio of the figure in the same pairs, above 0 is worse."""
    generations: Sequence[int]
    only_more: bool
    """Less of it is no news."""

    def changes(self, floor: float) -> list[float]:
        """Log of how many times as much there was by the second, and the floor."""
        both = zip(self.mine, self.theirs, strict=True)
        return [math.log((e + floor) / (b + floor)) for e, b in both]

    @property
    def means(self) -> tuple[float, float]:
        """Of the environment, and of the baseline."""
        return sum(self.mine) / len(self.mine), sum(self.theirs) / len(self.theirs)

    @property
    def from_nothing(self) -> bool:
        """One side is next to nothing, or was nothing in a trial: a ratio says little."""
        return min(self.means) < self.counter.floor or min(*self.mine, *self.theirs) == 0

    def units(self, values: Sequence[float]) -> list[float]:
        """The independent values, as of the figure."""
        return [float(x) for x in collapse(values, self.generations)]


def of(draft: Draft, tables: SymbolTables | None = None) -> Causes:
    """The counters that changed most, of those that changed.

    tables: where the host's CPUs were seen in each trial; what was seen most counts as counters.

    Bonferroni's correction over all counters that were looked at: their intervals hold together at
    the run's confidence, so of comparisons in which nothing changed at most one in twenty names a
    counter by chance. Changes are ranked by the factor, those of events by the smaller of the two.
    Counters whose pairs are all equal show no spread, and say nothing.
    """
    counters = [*COUNTERS, *(tables.counters(draft.paired.pairs) if tables else ())]
    all_readings = [
        readings for counter in counters if (readings := _readings(counter, draft)) is not None
    ]
    level = 1 - (1 - draft.settings.confidence) / max(1, len(all_readings))
    sized = [
        (size, cause)
        for counter_readings in all_readings
        for size, cause in [_changed(counter_readings, level, draft.settings.widening)]
        if cause is not None
    ]
    sized.sort(key=lambda pair: -pair[0])
    return Causes(
        looked=len(all_readings),
        differing=len(sized),
        found=tuple(cause for _, cause in sized[:MOST]),
        confidence=draft.settings.confidence,
    )


def _readings(counter: Counter, draft: Draft) -> _Readings | None:
    """None: not in these trials."""
    rows = []
    only_more = False
    for pair in draft.paired.pairs:
        both = counter.both(pair.environment, pair.baseline)
        if both is not None and min(both) >= 0:
            rows.append((*both, pair.log_ratio, pair.generation))
            only_more |= counter.only_more(pair.environment, pair.baseline)
    if len(rows) < LEAST:
        return None
    mine, theirs, slower, generations = zip(*rows, strict=True)
    readings = _Readings(counter, mine, theirs, slower, generations, only_more)
    return readings if len(readings.units(readings.slower)) >= LEAST else None


def _changed(readings: _Readings, level: float, widening: float) -> tuple[float, Cause | None]:
    """By how much, and what is to be told; None: it did not, for all that is known.

    What is told must itself exclude "no change", and be as much as the floor.
    """
    counter = readings.counter
    changes = readings.changes(counter.floor)
    tested = [changes]
    if counter.scaling == "work":
        tested.append([x + slow for x, slow in zip(changes, readings.slower, strict=True)])
    if not readings.from_nothing:
        tested.append(readings.changes(0.0))
    logs = [readings.units(log_changes) for log_changes in tested]
    intervals = [t_interval(units, level, widening) for units in logs]
    size = min(map(_size, logs, intervals))
    one_way = len({interval.estimate > 1 for interval in intervals}) == 1
    ratio = stored(intervals[0 if readings.from_nothing else -1])
    difference, half = _difference(readings, level, widening)
    seen_so = abs(difference) >= counter.floor and (
        abs(difference) > half or not readings.from_nothing
    )
    unasked = readings.only_more and difference < 0
    if size == 0 or not one_way or ratio is None or not seen_so or unasked:
        return 0.0, None
    mine, theirs = readings.means
    return size, Cause(
        counter=counter.name,
        words=counter.words,
        unit=counter.unit,
        environment_mean=mine,
        baseline_mean=theirs,
        ratio=ratio,
        difference=difference,
        difference_low=difference - half,
        difference_high=difference + half,
        from_nothing=readings.from_nothing,
    )


def _difference(readings: _Readings, level: float, widening: float) -> tuple[float, float]:
    """Mean difference, and half the width of its interval."""
    both = zip(readings.mine, readings.theirs, strict=True)
    m = moments(readings.units([e - b for e, b in both]), widening)
    return m.mean, t_quantile(0.5 + level / 2, m.df) * m.error


def _size(units: Sequence[float], interval: IntervalEstimate) -> float:
    """|log| of a change that is there for sure; else 0."""
    if moments(units).deviation == 0 or not interval.excludes(1.0):
        return 0.0
    return abs(math.log(interval.estimate))
