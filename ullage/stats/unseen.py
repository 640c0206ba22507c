"""Rare events: what so many trials could not have seen, and the slow ones that were met.

The slow trials are those of one environment, over all that ran in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike
from scipy import special

from ullage.stats import Floats
from ullage.stats.interval import check_confidence, sample
from ullage.stats.series_checks import median, robust_z_about

SLOW = 4.0
"""Robust deviations above the median from which on a trial counts as one of the slow ones: of
clean normal values one in 15 samples of six has one, and one in 40 of thirty."""
TWICE = math.log(2)
"""How slow a trial that was not met is taken to be: twice as long."""
_SURE = 0.95


@dataclass(frozen=True, slots=True)
class SlowTrials:
    """What the trials of one environment show of rare slow ones, whatever ran in them."""

    trials: int
    met: int
    excess: float
    """Mean of the slow ones above their median; log scale."""

    @property
    def rate(self) -> float:
        """Upper limit (95 %) of their share: about 3/n where none was met (Clopper & Pearson)."""
        if self.met >= self.trials:
            return 1.0
        return float(special.betaincinv(self.met + 1, self.trials - self.met, _SURE))

    @property
    def more(self) -> float:
        """How much larger than seen a mean log may be, by slow trials such as were met."""
        return self.rate * self.excess if self.met else 0.0

    @property
    def unmet(self) -> float:
        """The same by slow ones of which none was met, if they take twice as long."""
        return max(self.more, TWICE * unseen(self.trials, _SURE))

    def scaled(self, factor: float) -> SlowTrials:
        """What so many times the trials would show."""
        return SlowTrials(math.ceil(self.trials * factor), round(self.met * factor), self.excess)


def slow_trials(values: ArrayLike) -> SlowTrials:
    """Of the log-ratios of pairs, or of log times, above which is slower."""
    x = sample(values, 0)
    if x.size == 0:
        return SlowTrials(0, 0, 0.0)
    middle = median(x)
    return slow_of(x, middle, robust_z_about(middle, x))


def slow_of(x: Floats, middle: float, z: Floats) -> SlowTrials:
    """The same of values whose median and robust z are known."""
    above = x[z > SLOW] - middle
    slow = above[above > 0]
    return SlowTrials(x.size, slow.size, float(slow.mean()) if slow.size else 0.0)


def together(workloads: Iterable[Sequence[SlowTrials]]) -> SlowTrials:
    """Of all workloads of an environment: what hits one trial may hit any other.

    Of each workload by each of its metrics; the one that shows most counts, for they are of the
    same trials.
    """
    most = [max(metrics, key=lambda s: (s.met * s.excess, s.trials)) for metrics in workloads]
    met = sum(s.met for s in most)
    total = math.fsum(s.met * s.excess for s in most)
    return SlowTrials(sum(s.trials for s in most), met, total / met if met else 0.0)


def unseen(trials: int, confidence: float = 0.95) -> float:
    """The most frequent event that so many independent trials may have missed: its share of them.

    p with (1 − p)ⁿ = 1 − confidence, so 1 − 0.05^(1/n) at 95 %: about 3/n (the rule of three,
    Hanley & Lippman-Hand 1983, JAMA 249:1743). What is more frequent shows at least once with more
    than that confidence. 1 where there is no trial.
    """
    check_confidence(confidence)
    if trials < 1:
        return 1.0
    return -math.expm1(math.log1p(-confidence) / trials)


def trials_to_see(share: float, confidence: float = 0.95) -> int:
    """Fewest trials in which an event of that share shows at least once, with that confidence.

    n with 1 − (1 − p)ⁿ ≥ confidence. ValueError unless 0 < share < 1.
    """
    check_confidence(confidence)
    if not 0 < share < 1:
        raise ValueError(f"a share of {share} is not between 0 and 1")
    # Off by rounding, 1 − 0.05^(1/n) would ask for one trial more than the n it came from.
    return max(1, math.ceil(math.log1p(-confidence) / math.log1p(-share) * (1 - 1e-12)))
