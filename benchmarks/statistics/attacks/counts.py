"""What the product says under an attack, counted: of intervals, of claims, and of doubts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from benchmarks.statistics.attacks.folders import analysed
from benchmarks.statistics.attacks.regimes import Attack
from benchmarks.statistics.table import Share, share
from ullage.analysis.comparison.model import Comparison
from ullage.analysis.sentences import SERIOUS
from ullage.stats import Verdict

ATTACKED: Final = "e0"
EDGE: Final = 1e-9


@dataclass
class Struck:
    """What an attack came to."""

    attack: Attack
    campaigns: int
    shares: dict[str, Share] = field(default_factory=dict)
    """`covered`, `refused`, `missed unsaid`; `claim`, `better`, `equivalent` (any false one)."""
    false_verdicts: int = 0
    spoke: Counter[str] = field(default_factory=Counter)
    """Code of a doubt → false verdicts that it stood beside."""
    spoke_at_all: Counter[str] = field(default_factory=Counter)
    """The same of all comparisons with the environment under attack."""
    comparisons: int = 0


def strike(attack: Attack, campaigns: int, seed: int) -> Struck:
    """All campaigns of one attack."""
    rng = np.random.default_rng([seed, *attack.name.encode()])
    number = max(1, campaigns // attack.costly)
    struck = Struck(attack, number)
    hits: dict[str, list[bool]] = {}
    figures = (attack.make(rng, attack.layout) for _ in range(number))
    for analysis in analysed(attack.layout, figures):
        primary = analysis.primary()
        attacked = [c for c in primary if c.environment == ATTACKED]
        for name, hit in _first(attack, attacked[0]).items():
            hits.setdefault(name, []).append(hit)
        wrong = [c for c in primary if false(attack, c.verdict)]
        hits.setdefault("claim", []).append(any(c.verdict != "equivalent" for c in wrong))
        hits.setdefault("better", []).append(any(c.verdict == "better" for c in wrong))
        hits.setdefault("equivalent", []).append(any(c.verdict == "equivalent" for c in wrong))
        run_codes = {doubt.code for doubt in analysis.doubts}
        struck.false_verdicts += len(wrong)
        struck.comparisons += len(attacked)
        for counter, comparisons in ((struck.spoke, wrong), (struck.spoke_at_all, attacked)):
            for c in comparisons:
                codes = {str(doubt.code) for doubt in c.doubts} | run_codes
                counter.update(codes - NEVER)
                counter.update([ANY] if codes & SERIOUS else [])
    struck.shares = {name: share(hit) for name, hit in hits.items()}
    return struck


NEVER: Final = frozenset({"host-shared", "not-finished"})
"""Not about the figures: made-up campaigns have no host."""
ANY: Final = "any serious"


def _first(attack: Attack, c: Comparison) -> dict[str, bool]:
    """Of the interval of one comparison, so that campaigns are independent."""
    refused = c.verdict is None or any(doubt.code in SERIOUS for doubt in c.doubts)
    covered = c.interval is not None and c.interval.low <= attack.truth <= c.interval.high
    return {
        "covered": covered,
        "refused": refused,
        "covered or refused": covered or refused,
        "found": c.verdict in ("worse", "better"),
    }


def false(attack: Attack, verdict: Verdict | None) -> bool:
    """Does the truth contradict it?"""
    truth = attack.truth
    if verdict == "equivalent":
        margin = math.log1p(attack.layout.margin)
        return abs(math.log(truth)) >= margin - EDGE
    if verdict in ("worse", "better"):
        return truth == 1 or (verdict == "worse") != (truth > 1)
    return False
