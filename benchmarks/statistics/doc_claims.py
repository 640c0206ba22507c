"""What the docs say besides coverage: counted here, by the product's own functions.

Doubts that speak without reason, going on after a look, the power that a dry run promises, duets,
and the share of false claims under either correction. Noise is normal on the log scale unless it
says otherwise; a trial's is `WHITE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.statistics.design import CONFIDENCE, MARGIN
from benchmarks.statistics.noise import WHITE, Rng, drift
from benchmarks.statistics.table import Share, share
from ullage.analysis.doubts.series import WIDER
from ullage.analysis.overhead import DRIFT_ALPHA
from ullage.plan import schedule
from ullage.runs.records import Correction
from ullage.stats import Floats, planning, series_checks
from ullage.stats.interval import moments, t_interval
from ullage.stats.series_checks import drift as rank_drift
from ullage.stats.stop import StopRule
from ullage.stats.uncertainty import APART, SHARED
from ullage.stats.verdict import Against, FamilyMember, Judgement, judge, p_values

COMPARISONS = 12
"""Of a run whose doubts are counted."""
BLOCKS = (6, 12, 20, 40)
FIRST, STEP, LAST = 6, 6, 60
"""Blocks at the first look, between looks, and at the last."""
TRULY = 4
"""Comparisons of twelve that differ, by `EFFECT`."""
EFFECT = 0.06
TAILS = 3
"""Degrees of freedom of the heavy-tailed noise."""


@dataclass(frozen=True)
class DocClaim:
    """One figure of the docs."""

    what: str
    share: Share
    expected: str
    """What it should be, by what the method promises."""


@dataclass(frozen=True)
class Task:
    """A part of it, for one process."""

    make: Callable[[Rng, int], list[DocClaim]]
    campaigns: int
    seed: int

    def __call__(self) -> list[DocClaim]:
        return self.make(np.random.default_rng(self.seed), self.campaigns)


def normal(rng: Rng, count: int, blocks: int) -> Floats:
    """Log-ratios of pairs: two trials' noise."""
    return math.sqrt(2) * WHITE * rng.standard_normal((count, blocks))


def heavy(rng: Rng, count: int, blocks: int) -> Floats:
    """The same with Student's tails."""
    ratios: Floats = WHITE * rng.standard_t(TAILS, (count, blocks))
    return ratios


def doubts(rng: Rng, campaigns: int) -> list[DocClaim]:
    """Clean runs with any of the four doubts that rest on a test."""
    claims = []
    for noise in (normal, heavy):
        for blocks in BLOCKS:
            runs = [noise(rng, COMPARISONS, blocks) for _ in range(campaigns)]
            hits = share([any(doubted(x) for x in run_series) for run_series in runs])
            subject = f"clean runs with a doubt, {noise.__name__} noise, {blocks} blocks"
            claims.append(DocClaim(subject, hits, f"at most {DRIFT_ALPHA:.0%}"))
    return claims


def doubted(x: Floats) -> bool:
    """As `ullage.analysis.doubts.series` asks of a comparison in a run of so many."""
    alpha = DRIFT_ALPHA / COMPARISONS / 4
    if rank_drift(list(range(x.size)), x).p_value <= alpha:
        return True
    if x.size >= series_checks.WARM_UP_LEAST and series_checks.warm_up(x).p_value <= alpha:
        return True
    if x.size >= series_checks.AUTOCORRELATION_LEAST:
        near = series_checks.autocorrelation(x)
        if near.p_value <= alpha and near.widening(CONFIDENCE) >= WIDER:
            return True
    return series_checks.two_groups(x).p_value <= alpha


def verdict(x: Floats, again: Floats, correlation: float = SHARED) -> Judgement:
    """Of one comparison alone, against either copy of its baseline."""
    return judge([_case(x, again, correlation)], MARGIN, CONFIDENCE)[0]


def _case(x: Floats, again: Floats, correlation: float = SHARED) -> FamilyMember:
    m, copy = moments(x), Against.of(moments(x - again), MARGIN)
    return FamilyMember(m, p_values(m, MARGIN), None, (copy,), len(x), correlation=correlation)


def trials(rng: Rng, count: int, blocks: int) -> tuple[Floats, Floats]:
    """Log-ratios of an environment and of the second copy to the same baseline's trials."""
    noise = WHITE * rng.standard_normal((3, count, blocks))
    return noise[1] - noise[0], noise[2] - noise[0]


def looks(rng: Rng, campaigns: int) -> list[DocClaim]:
    """Who takes a run up again because it was undecided has looked at the result."""
    x, again = trials(rng, campaigns, LAST)
    once = [_followed(a, b) for a, b in zip(x, again, strict=True)]
    every = [list(_at_each(a, b)) for a, b in zip(x, again, strict=True)]
    return [
        DocClaim("miss after following the advice once", share([m for m, _ in once]), "5 %"),
        DocClaim("false verdict after it", share([f for _, f in once]), "at most 5 %"),
        DocClaim(
            f"miss at any look, every {STEP} blocks to {LAST}",
            share([any(m for m, _ in looks_of_run) for looks_of_run in every]),
            "more than 5 %: it is not allowed for",
        ),
        DocClaim(
            "false verdict at any",
            share([any(f for _, f in looks_of_run) for looks_of_run in every]),
            "the same",
        ),
    ]


def _look(x: Floats, again: Floats) -> tuple[bool, bool, Judgement]:
    """(the interval misses, worse or better is said, the judgement)."""
    judged = verdict(x, again)
    missed = t_interval(x, CONFIDENCE).excludes(1.0)
    return missed, judged.verdict in ("worse", "better"), judged


def _followed(x: Floats, again: Floats) -> tuple[bool, bool]:
    missed, false, judged = _look(x[:FIRST], again[:FIRST])
    more = judged.blocks_to_settle
    if judged.verdict == "inconclusive" and more is not None:
        n = min(LAST, FIRST + more)
        missed, false, _ = _look(x[:n], again[:n])
    return missed, false


def _at_each(x: Floats, again: Floats) -> Iterator[tuple[bool, bool]]:
    for n in range(FIRST, LAST + 1, STEP):
        missed, false, _ = _look(x[:n], again[:n])
        yield missed, false


def dry_run(rng: Rng, campaigns: int) -> list[DocClaim]:
    """The smallest difference that a dry run promises to find with a chance of 80 %."""
    claims = []
    for blocks in (6, 12, 40):
        aim = planning.Aim(StopRule(blocks, blocks, None), MARGIN, family=1)
        reach = planning.reach(math.sqrt(2) * WHITE, blocks, aim)
        assert reach.difference is not None
        x, again = trials(rng, campaigns, blocks)
        x += math.log1p(reach.difference)
        # Where it is smaller than the margin, "equivalent" may be the verdict: the claim counts.
        hits = share([_claims(a, b) for a, b in zip(x, again, strict=True)])
        claims.append(DocClaim(f"found what {blocks} blocks should find", hits, "80 %"))
    return claims


def _claims(x: Floats, again: Floats) -> bool:
    copies = (moments(x), moments(x - again))
    return all(m.mean > 0 and p_values(m, MARGIN).difference <= 1 - CONFIDENCE for m in copies)


def duet(rng: Rng, campaigns: int) -> list[DocClaim]:
    """Pairs at the same time, on sides that are alike; and on a faster and a slower one."""
    return [*_duet(rng, campaigns, "sides alike", 0.0), *_duet(rng, campaigns, "sides differ", 0.1)]


def _duet(rng: Rng, campaigns: int, sides: str, scale: float) -> list[DocClaim]:
    """What both share cancels; a side's own speed, alternated, makes the spread larger."""
    figures = []
    for blocks in (6, 12, 30):
        ratios = np.stack([_duets(rng, seed, blocks, scale) for seed in range(campaigns)])
        covered = [not t_interval(x, CONFIDENCE).excludes(1.0) for x in ratios[:, 0]]
        claims = [verdict(x, again, APART).verdict in ("worse", "better") for x, again in ratios]
        where = f"duet, {sides}, {blocks} blocks"
        expected = "at least 95 %" if scale else "95 %"
        figures.append(DocClaim(f"{where}: interval holds the truth", share(covered), expected))
        figures.append(DocClaim(f"{where}: false verdict", share(claims), "at most 5 %"))
    return figures


def _duets(rng: Rng, seed: int, blocks: int, scale: float) -> Floats:
    """Log-ratios (environment, second copy) × blocks, in the product's order and sides."""
    names = ("a", "native~again")
    common = drift(rng, 1, 2 * blocks)[0]
    side = scale * rng.standard_normal()
    ratios = np.empty((2, blocks))
    for number in range(blocks):
        for at, turn in enumerate(schedule.duet(seed, number, names, ("cpu",), "native")):
            times = {
                slot.environment: common[2 * number + at]
                + side * (1 if slot.side else -1)
                + WHITE * rng.standard_normal()
                for slot in turn
            }
            (mine,) = set(times) - {"native"}
            ratios[names.index(mine), number] = times[mine] - times["native"]
    return ratios


def corrections(rng: Rng, campaigns: int) -> list[DocClaim]:
    """Twelve comparisons of which four differ: false claims under Holm and Benjamini–Hochberg."""
    families = [_family(rng) for _ in range(campaigns)]
    holm = [_claimed(family, "holm") for family in families]
    rate = [_claimed(family, "benjamini-hochberg") for family in families]
    false = [any(claims[TRULY:]) for claims in holm]
    wrong = [hit for claims in rate for hit in _wrong(claims)]
    return [
        DocClaim("Holm: runs with a false claim, 4 of 12 differ", share(false), "at most 5 %"),
        DocClaim("Holm: differences found", _power(holm), ""),
        DocClaim("Benjamini–Hochberg: claims that are false", share(wrong), "at most 5 %"),
        DocClaim("Benjamini–Hochberg: differences found", _power(rate), "more than by Holm"),
    ]


def _family(rng: Rng) -> list[tuple[Floats, Floats]]:
    x, again = trials(rng, COMPARISONS, 12)
    x[:TRULY] += EFFECT
    return list(zip(x, again, strict=True))


def _claimed(family: Sequence[tuple[Floats, Floats]], correction: Correction) -> list[bool]:
    cases = [_case(x, again) for x, again in family]
    judged = judge(cases, MARGIN, CONFIDENCE, correction)
    return [judgement.verdict in ("worse", "better") for judgement in judged]


def _wrong(claims: Sequence[bool]) -> list[bool]:
    """Each claim: is it false?"""
    return [i >= TRULY for i, claimed in enumerate(claims) if claimed]


def _power(claims: Sequence[Sequence[bool]]) -> Share:
    return share([hit for of_family in claims for hit in of_family[:TRULY]])


PARTS: tuple[Callable[[Rng, int], list[DocClaim]], ...] = (
    doubts,
    looks,
    dry_run,
    duet,
    corrections,
)
