"""Cases for tests of verdicts, of known moments."""

from __future__ import annotations

import math

from ullage.stats.interval import Moments
from ullage.stats.uncertainty import Floor
from ullage.stats.verdict import FamilyMember, Judgement, Levels, Rules, judge, p_values

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
    again: float = 0.0,
    systematic: float = 0.0,
) -> FamilyMember:
    m = moments_of(math.log(ratio), deviation, n)
    null = moments_of(math.log1p(again), deviation, n) if floor else None
    return FamilyMember(m, p_values(m, MARGIN), floor, null, systematic=systematic)


def judged(case: FamilyMember) -> Judgement:
    return judge([case], MARGIN, CONFIDENCE)[0]
