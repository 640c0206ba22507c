"""Campaigns: thousands of them per regime and design, counted.

Coverage is counted on one comparison per campaign, so that the counts are independent and their
Monte-Carlo interval is the binomial's. Noise is multiplicative: a truth only shifts log-ratios, so
each campaign serves all truths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from benchmarks.statistics import design, peers
from benchmarks.statistics.design import (
    Copies,
    Many,
    Plan,
    figures,
    generations,
    judged,
    log_ratios,
    many,
)
from benchmarks.statistics.noise import Regime, Rng
from benchmarks.statistics.table import Share, merged, share
from ullage.stats import Floats
from ullage.stats.interval import TooFewError, bootstrap_interval, hodges_lehmann
from ullage.stats.stop import StopRule

TRUTHS = (1.05, 1.10, 1.25)
"""Of environment a, in every workload; b is as fast as the baseline."""
COUNTS = (6, 12, 30)
"""Blocks (or generations) of the fixed designs."""
MAIN = 12
MOST = 40
"""Blocks (or generations) that the stop rule may take."""
LEAST = 6
AIMED = (8, 14, 24)
"""The targets are such as are reached after about so many blocks."""
BATCH = 1000
PER_GENERATION = 2
"""Blocks per generation, where instances differ."""
TRIAL_S = 1.0
PROVEN = 3
"""Campaigns of each regime that the product itself judges as well."""
EDGE_ERRORS = 5.0
"""Standard errors in the margin that equivalence is tried with."""
A, WORKLOAD = 0, 0


@dataclass
class Outcome:
    """What one regime gave."""

    regime: Regime
    shares: dict[str, Share] = field(default_factory=dict)
    blocks: dict[str, float] = field(default_factory=dict)
    """Mean number of blocks (or generations) under each target."""
    targets: dict[str, float] = field(default_factory=dict)
    trials: dict[str, float] = field(default_factory=dict)
    """Mean number of trials of each other design."""


def batches(campaigns: int) -> Iterator[int]:
    """Sizes that add up."""
    while campaigns > 0:
        yield min(BATCH, campaigns)
        campaigns -= BATCH


def run(regime: Regime, campaigns: int, seed: int) -> Outcome:
    """All designs under one regime."""
    outcome = Outcome(regime)
    rng = np.random.default_rng([seed, *regime.name.encode()])
    per = PER_GENERATION if regime.instance else 1
    plan = Plan(blocks=MOST * per)
    weight: dict[str, float] = {}
    for number, size in enumerate(batches(campaigns)):
        by_block = log_ratios(figures(regime, rng, size, plan, per))
        ratios = generations(by_block, per)
        if not number:
            outcome.targets = targets(ratios)
            design.proof(by_block[:PROVEN, : MAIN * per], (1.0, *TRUTHS), per)
        shares = fixed(ratios) | robust(ratios[:, :MAIN]) | edges(ratios[:, :MAIN])
        for name, target in outcome.targets.items():
            counted, blocks = under_stop_rule(ratios, name, target)
            shares |= counted
            weight[name] = weight.get(name, 0.0) + blocks * size
        if regime.instance:
            shares |= levels(regime, rng, size)
        for peer in peers.DESIGNS:
            counted, trials = by_peer(peer, regime, rng, size)
            shares |= counted
            weight[peer.name] = weight.get(peer.name, 0.0) + trials * size
        outcome.shares = merged(outcome.shares, shares)
    outcome.blocks = {name: weight[name] / campaigns for name in outcome.targets}
    outcome.trials = {d.name: weight[d.name] / campaigns for d in peers.DESIGNS}
    return outcome


def compared(of: Many) -> Many:
    """The comparison that coverage is counted on."""
    return Many(of.n, of.mean[:, WORKLOAD, A], of.error[:, WORKLOAD, A])


def fixed(ratios: Floats) -> dict[str, Share]:
    """Coverage of the t interval, false claims, power and wrong verdicts, fixed numbers of blocks.

    ratios: campaigns × n × workloads × environments at truth 1, the second copy first.
    """
    shares = {}
    for n in COUNTS:
        shares[f"t {n}"] = share(compared(many(ratios[:, :n, :, 1:])).covers(0.0))
    return shares | claims("fixed", design.copies(ratios[:, :MAIN]))


def claims(name: str, against: Copies) -> dict[str, Share]:
    """What is claimed at truth 1 of all, and where a is slower by each of TRUTHS."""
    of, none = against.first, judged(against)
    shares = {
        f"{name} false, one": share(~compared(of).covers(0.0)),
        f"{name} false, Holm": share(none.rejected.any(axis=1)),
        f"{name} false, verdict": share(design.differs(none.verdicts).any(axis=1)),
        f"{name} equivalent": share((none.verdicts == design.EQUIVALENT)[:, A]),
    }
    for truth in TRUTHS:
        shift = np.zeros(of.mean.shape[2])
        shift[A] = math.log(truth)
        verdicts = judged(against.shifted(shift)).verdicts.reshape(of.mean.shape)
        slow, same = verdicts[:, :, A], np.delete(verdicts, A, axis=2)
        shares |= {
            f"{name} power {truth}": share(slow[:, WORKLOAD] == design.WORSE),
            f"{name} better {truth}": share((slow == design.BETTER).any(axis=1)),
            f"{name} equivalent {truth}": share((slow == design.EQUIVALENT).any(axis=1)),
            f"{name} false beside {truth}": share(design.differs(same).any(axis=(1, 2))),
        }
    return shares


def edges(ratios: Floats) -> dict[str, Share]:
    """Equivalence with a margin that such noise can prove: at truth 1, and exactly on its edge."""
    against = design.copies(ratios)
    delta = EDGE_ERRORS * float(np.median(against.first.error))
    same = judged(against, math.expm1(delta)).verdicts == design.EQUIVALENT
    edge = judged(against.shifted(delta), math.expm1(delta)).verdicts == design.EQUIVALENT
    return {"wide, truth 1": share(same[:, A]), "wide, on the edge": share(edge.any(axis=1))}


def robust(ratios: Floats) -> dict[str, Share]:
    """Coverage of the two intervals that stand beside t, by the product's own functions."""
    series = ratios[:, :, WORKLOAD, 1 + A]
    boot = [bootstrap_interval(x, design.CONFIDENCE, seed) for seed, x in enumerate(series)]
    shares = {"bootstrap": share([not interval.excludes(1.0) for interval in boot])}
    try:
        ranks = [hodges_lehmann(x, design.CONFIDENCE) for x in series]
    except TooFewError:
        return shares
    return shares | {"ranks": share([not interval.excludes(1.0) for interval in ranks])}


def targets(ratios: Floats) -> dict[str, float]:
    """Half-widths (relative) that this noise reaches after about AIMED blocks."""
    rule = StopRule(LEAST, MOST, 1.0)
    half_widths = {}
    for n in AIMED:
        half = Many(n, np.zeros(1), many(ratios[..., 1:]).error * math.sqrt(MOST / n)).half()
        half_widths[f"about {n}"] = float(np.sinh(rule.widening * np.median(half)))
    return half_widths


def under_stop_rule(ratios: Floats, name: str, target: float) -> tuple[dict[str, Share], float]:
    """Coverage and claims when the rule says when; and the mean number of blocks.

    Coverage when one comparison alone decides (the others of a family only make it later, and the
    stop less tied to that one's luck); claims when the whole family does.
    """
    rule = StopRule(LEAST, MOST, target, design.CONFIDENCE)
    alone = ratios[:, :, WORKLOAD : WORKLOAD + 1, [0, 1 + A]]
    at = design.stopped(alone[:, :, 0, 1:], rule)
    covered = np.empty(len(ratios), dtype=bool)
    for rows, of in design.until(alone[..., 1:], at, rule.widening).values():
        covered[rows] = of.covers(0.0)[:, 0, 0]
    shares = {f"stop {name}": share(covered)}
    family = ratios[..., 1:].reshape(*ratios.shape[:2], -1)
    blocks = design.stopped(family, rule)
    for n in np.unique(blocks):
        against = design.copies(ratios[blocks == n, :n], rule.widening)
        shares = merged(shares, claims(f"stop {name}", against))
    return shares, float(at.mean())


def levels(regime: Regime, rng: Rng, campaigns: int) -> dict[str, Share]:
    """Instances that differ: what each way to repeat them says of the environment.

    `once`: made once, so the interval says nothing of other instances; `flat`: made anew, but
    blocks taken for independent; `collapsed`: means by generation.
    """
    blocks = MAIN * PER_GENERATION
    plan = Plan(blocks=blocks)
    once = many(log_ratios(figures(regime, rng, campaigns, plan))[..., 1:])
    flat = log_ratios(figures(regime, rng, campaigns, plan, PER_GENERATION))[..., 1:]
    return {
        "once": share(compared(once).covers(0.0)),
        "flat": share(compared(many(flat)).covers(0.0)),
        "collapsed": share(compared(many(generations(flat, PER_GENERATION))).covers(0.0)),
    }


def by_peer(
    peer: peers.Design, regime: Regime, rng: Rng, campaigns: int
) -> tuple[dict[str, Share], float]:
    """What another design claims, and the mean number of its trials."""
    plan = Plan()
    session = peers.session(peer, regime, rng, campaigns, plan)
    comparisons = [
        (e + 1, w, 1.0) for e in range(len(plan.environments)) for w in range(len(plan.workloads))
    ]
    claims = peers.claims(peer, session, comparisons)
    counted = {
        f"{peer.name} false, one": share(claims[:, 0] != 0),
        f"{peer.name} false, any": share((claims != 0).any(axis=1)),
    }
    for truth in TRUTHS:
        claimed = peers.claims(peer, session, [(1 + A, WORKLOAD, truth)])[:, 0]
        counted[f"{peer.name} power {truth}"] = share(claimed == 1)
        counted[f"{peer.name} better {truth}"] = share(claimed == -1)
    if peer.repeats is peers.fixed and peer.decide is peers.welch:
        low, high = peers.log_interval(session.cells[1 + A, WORKLOAD], session.cells[0, WORKLOAD])
        counted[f"{peer.name} covers"] = share((low <= 0) & (high >= 0))
    return counted, float(session.trials.mean())
