"""What the product says under an attack, counted: of intervals, of claims, and of doubts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from benchmarks.statistics.attacks.folders import folder
from benchmarks.statistics.attacks.regimes import Attack
from benchmarks.statistics.table import Share, share
from ullage.analysis import overhead
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.judging import JudgedComparison
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.analysis.comparison.pairing import draft_interval
from ullage.analysis.sentences import SERIOUS
from ullage.stats import Verdict

ATTACKED: Final = "e0"
EDGE: Final = 1e-9


READ_WHOLE: Final = 1_000
"""So many campaigns of an attack are analysed with every doubt; of the others, what is judged."""


@dataclass
class Struck:
    """What an attack came to."""

    attack: Attack
    campaigns: int
    shares: dict[str, Share] = field(default_factory=dict)
    """`covered`, `found`; `claim`, `better`, `equivalent` (any false one). Of the first
    `READ_WHOLE` also `refused`, `covered or refused`, and of those not covered `told`."""
    false_verdicts: int = 0
    """Of the first `READ_WHOLE` campaigns, as all that follows."""
    spoke: Counter[str] = field(default_factory=Counter)
    """Code of a doubt → false verdicts that it stood beside."""
    spoke_at_all: Counter[str] = field(default_factory=Counter)
    """The same of all comparisons with the environment under attack."""
    comparisons: int = 0


def strike(attack: Attack, campaigns: int, seed: int) -> Struck:
    """All campaigns of one attack."""
    rng = np.random.default_rng([seed, *attack.name.encode()])
    struck = Struck(attack, campaigns)
    hits: dict[str, list[bool]] = {}
    for number in range(campaigns):
        run = folder(attack.layout, *attack.make(rng, attack.layout), number)
        if number < READ_WHOLE:
            analysis = overhead.analyse(run)
            outcomes = [_of_analysis(c) for c in analysis.primary()]
            _count_doubts(struck, analysis)
        else:
            outcomes = [_of_judged(judged) for judged in overhead.judged(run)]
        for name, hit in _hits(attack, outcomes).items():
            hits.setdefault(name, []).append(hit)
    struck.shares = {name: share(hit) for name, hit in hits.items()}
    return struck


@dataclass(frozen=True)
class _Outcome:
    """What is said of one comparison."""

    environment: str
    interval: Interval | None
    verdict: Verdict | None
    refused: bool | None
    """No verdict, or a serious doubt; None: nobody looked for doubts."""


def _of_analysis(c: Comparison) -> _Outcome:
    refused = c.verdict is None or any(doubt.code in SERIOUS for doubt in c.doubts)
    return _Outcome(c.environment, c.interval, c.verdict, refused)


def _of_judged(judged: JudgedComparison) -> _Outcome:
    draft = judged.draft
    return _Outcome(draft.environment.key, draft_interval(draft), judged.verdict, None)


def _hits(attack: Attack, outcomes: Sequence[_Outcome]) -> dict[str, bool]:
    """Of the interval of one comparison, so that campaigns are independent, and of any claim."""
    first = next(outcome for outcome in outcomes if outcome.environment == ATTACKED)
    interval = first.interval
    covered = interval is not None and interval.low <= attack.truth <= interval.high
    wrong = {outcome.verdict for outcome in outcomes if false(attack, outcome.verdict)}
    hits = {
        "covered": covered,
        "found": first.verdict in ("worse", "better"),
        "claim": bool(wrong - {"equivalent"}),
        "better": "better" in wrong,
        "equivalent": "equivalent" in wrong,
    }
    if first.refused is not None:
        hits |= {"refused": first.refused, "covered or refused": covered or first.refused}
        hits |= {} if covered else {"told": first.refused}
    return hits


def _count_doubts(struck: Struck, analysis: Analysis) -> None:
    """Those beside false verdicts, and beside the comparisons with the environment under attack."""
    primary = analysis.primary()
    attacked = [c for c in primary if c.environment == ATTACKED]
    wrong = [c for c in primary if false(struck.attack, c.verdict)]
    run_codes = {doubt.code for doubt in analysis.doubts}
    struck.false_verdicts += len(wrong)
    struck.comparisons += len(attacked)
    for counter, comparisons in ((struck.spoke, wrong), (struck.spoke_at_all, attacked)):
        for c in comparisons:
            codes = {str(doubt.code) for doubt in c.doubts} | run_codes
            counter.update(codes - NEVER)
            counter.update([ANY] if codes & SERIOUS else [])


NEVER: Final = frozenset({"host-shared", "not-finished"})
"""Not about the figures: made-up campaigns have no host."""
ANY: Final = "any serious"


def false(attack: Attack, verdict: Verdict | None) -> bool:
    """Does the truth contradict it?"""
    truth = attack.truth
    if verdict == "equivalent":
        margin = math.log1p(attack.layout.margin)
        return abs(math.log(truth)) >= margin - EDGE
    if verdict in ("worse", "better"):
        return truth == 1 or (verdict == "worse") != (truth > 1)
    return False
