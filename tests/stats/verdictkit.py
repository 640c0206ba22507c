"""Cases for tests of verdicts, of known moments."""

from __future__ import annotations

import math

from ullage.stats.interval import Moments
from ullage.stats.uncertainty import Floor
from ullage.stats.unseen import SlowTrials
from ullage.stats.verdict import Against, FamilyMember, Judgement, Levels, Rules, judge, p_values

MARGIN, CONFIDENCE = 0.02, 0.95
INC = "inconclusive"
RULES, LEVELS = Rules(MARGIN, CONFIDENCE), Levels(0.05, 0.05)


def moments_of(mean: float, deviation: float, n: int) -> Moments:
    return Moments(n, mean, deviation / math.sqrt(n), deviation)


def case_of(
    ratio: float,
    deviation: float,
    n: int,
    floor: Floor | None = None,
    copy: float | None = None,
    systematic: float = 0.0,
    slow: SlowTrials | None = None,
) -> FamilyMember:
    """copy: the ratio to a second copy of the baseline, as noisy."""
    m = moments_of(math.log(ratio), deviation, n)
    ratios = () if copy is None else (copy,)
    return FamilyMember(
        m,
        p_values(m, MARGIN),
        floor,
        copies=tuple(Against.of(moments_of(math.log(r), deviation, n), MARGIN) for r in ratios),
        systematic=systematic,
        slow=slow,
    )


def judged(case: FamilyMember) -> Judgement:
    return judge([case], MARGIN, CONFIDENCE)[0]
