"""Ratio of the means of two independent samples, where no block makes pairs of them.

All are oriented: above 1 is worse. They work on *burdens*: of costs (`lower` is better) the values
themselves, of rates (`higher`) their inverses, the times per unit; then the ratio is always that of
the environment's burden to the baseline's.

| function | compares | supposes |
|---|---|---|
| `welch_log` | geometric means | logs about normal |
| `fieller` | arithmetic means of costs, harmonic means of rates | means of burdens about normal |
| `difference` | means of logs, of which only the moments are known | logs about normal |
| `delta_log` | the same as `fieller` | log of the ratio about normal |
| `more_often` | two shares, by a p value | nothing |

The harmonic mean of rates is the inverse of the arithmetic mean of times per unit: total work over
total time (Hoefler & Belli 2015, rule 3). Where blocks do make pairs, `interval.t_interval` is
shorter, as it takes out what both have in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ullage.stats import Floats
from ullage.stats.interval import (
    ROUNDING,
    IntervalEstimate,
    Moments,
    check_confidence,
    moments,
    sample,
    t_quantile,
)

Better = Literal["higher", "lower"]


class UnboundedError(ValueError):
    """The baseline's mean is not clear of 0: every ratio, however large, agrees with the data."""


@dataclass(frozen=True, slots=True)
class _Two:
    """Two means, each with its standard error."""

    mine: Moments
    theirs: Moments
    confidence: float

    def critical(self, mine: float, theirs: float) -> float:
        """Quantile of t for the sum of two squared errors, by Welch–Satterthwaite (Welch 1947)."""
        total = mine + theirs
        if total == 0:
            return 0.0
        df = 1 / ((mine / total) ** 2 / self.mine.df + (theirs / total) ** 2 / self.theirs.df)
        return t_quantile(0.5 + self.confidence / 2, df)

    def interval(self, ratio: float, low: float, high: float, method: str) -> IntervalEstimate:
        """With n the values of both."""
        n = self.mine.n + self.theirs.n
        return IntervalEstimate(ratio, low, high, self.confidence, n, method)

    def around(self, middle: float, mine: float, theirs: float, method: str) -> IntervalEstimate:
        """exp(middle ± t·√(sum of both squared errors))."""
        half = self.critical(mine, theirs) * math.sqrt(mine + theirs)
        with np.errstate(over="ignore"):
            bounds = np.exp([middle, middle - half, middle + half])
        return self.interval(float(bounds[0]), float(bounds[1]), float(bounds[2]), method)


def welch_log(
    environment: ArrayLike, baseline: ArrayLike, better: Better, confidence: float
) -> IntervalEstimate:
    """Ratio of the geometric means: Welch's t interval for the difference of mean logs.

    For log-normal figures of any two spreads (Welch 1947, Biometrika 34:28). At least 2 values each
    (TooFewError), all above 0 (ValueError).
    """
    check_confidence(confidence)
    mine, theirs = (np.log(_burdens(x, better, zero=False)) for x in (environment, baseline))
    two = _Two(moments(mine), moments(theirs), confidence)
    return two.around(
        two.mine.mean - two.theirs.mean,
        two.mine.error**2,
        two.theirs.error**2,
        "Welch t on logs, unpaired",
    )


def difference(mine: Moments, theirs: Moments) -> Moments:
    """Difference of two independent means, mine − theirs, with Welch's degrees of freedom.

    They are rounded down to a whole number, so that n − 1 of the result is never more than Welch
    and Satterthwaite allow (Welch 1947, Biometrika 34:28): t intervals from it are a little wide.
    """
    a, b = mine.error**2, theirs.error**2
    mean, deviation = mine.mean - theirs.mean, math.hypot(mine.deviation, theirs.deviation)
    if a + b == 0:
        return Moments(min(mine.n, theirs.n), mean, 0.0, deviation)
    df = 1 / ((a / (a + b)) ** 2 / mine.df + (b / (a + b)) ** 2 / theirs.df)
    return Moments(
        math.floor(df + ROUNDING) + 1, mean, math.hypot(mine.error, theirs.error), deviation
    )


def more_often(mine: tuple[int, int], theirs: tuple[int, int]) -> float:
    """p value, one-sided, of a share that is no larger than the other: Fisher's exact test.

    mine, theirs: so many, of so many. As of the same total, the first could have as many by chance
    (Fisher 1935, J. R. Stat. Soc. 98:39).
    """
    (a, m), (b, n) = mine, theirs
    ways = sum(math.comb(m, k) * math.comb(n, a + b - k) for k in range(a, min(m, a + b) + 1))
    return ways / math.comb(m + n, a + b)


def fieller(
    environment: ArrayLike, baseline: ArrayLike, better: Better, confidence: float
) -> IntervalEstimate:
    """Ratio of the mean burdens, by Fieller (1954, J. R. Stat. Soc. B 16:175).

    The interval holds every ρ for which a t test accepts mean(environment) = ρ·mean(baseline).
    Spreads may differ: degrees of freedom by Welch–Satterthwaite at the estimated ratio (Tamhane &
    Logan 2004, J. Biopharm. Stat. 14:323; R's mratios does so too). A bound below 0 becomes 0, as
    burdens have no ratio there.

    At least 2 values each (TooFewError), none negative, rates above 0 (ValueError). UnboundedError
    when the baseline's mean burden itself is not significantly above 0: then no interval exists.
    """
    two = _of_means(environment, baseline, better, confidence)
    a, b = two.mine.mean, two.theirs.mean
    ratio, spread_a, spread_b = a / b, two.mine.error**2, two.theirs.error**2
    t = two.critical(spread_a, ratio * ratio * spread_b)
    g = t * t * spread_b / (b * b)
    if g >= 1:
        raise UnboundedError(
            f"the baseline's mean is not clear of 0 at {confidence:g}: the ratio has no upper bound"
        )
    half = t * math.sqrt(spread_a * (1 - g) + ratio * ratio * spread_b) / b
    low, high = (ratio - half) / (1 - g), (ratio + half) / (1 - g)
    return two.interval(ratio, max(0.0, low), high, "Fieller, unpaired")


def delta_log(
    environment: ArrayLike, baseline: ArrayLike, better: Better, confidence: float
) -> IntervalEstimate:
    """Ratio of the mean burdens, by the delta method on its log.

    The variance of log(mean) is (standard error / mean)², to first order; t has the degrees of
    freedom of Welch–Satterthwaite for the sum of both. Always bounded and above 0, but too short
    where an error is more than about a fifth of its mean: there `fieller` is right.

    At least 2 values each (TooFewError), none negative, rates above 0, a mean above 0 (ValueError).
    """
    two = _of_means(environment, baseline, better, confidence)
    if two.mine.mean == 0:
        raise ValueError("the environment's mean is 0: its ratio has no log")
    return two.around(
        math.log(two.mine.mean) - math.log(two.theirs.mean),
        (two.mine.error / two.mine.mean) ** 2,
        (two.theirs.error / two.theirs.mean) ** 2,
        "delta method on the log of the ratio of means, unpaired",
    )


def _of_means(
    environment: ArrayLike, baseline: ArrayLike, better: Better, confidence: float
) -> _Two:
    check_confidence(confidence)
    mine, theirs = (moments(_burdens(x, better, zero=True)) for x in (environment, baseline))
    if theirs.mean == 0:
        raise UnboundedError("the baseline's mean is 0: there is no ratio to it")
    return _Two(mine, theirs, confidence)


def _burdens(values: ArrayLike, better: Better, zero: bool) -> Floats:
    """Costs as they are, rates as times per unit; costs may be 0 where `zero` says so."""
    x = sample(values, 2)
    least = float(np.min(x))
    if least < 0 or (least == 0 and not (zero and better == "lower")):
        raise ValueError(f"no ratio of {least:g}")
    return x if better == "lower" else 1 / x
