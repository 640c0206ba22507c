"""Rare events: what so many trials could not have seen, and how many would have shown it."""

from __future__ import annotations

import math

from ullage.stats.interval import check_confidence


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
