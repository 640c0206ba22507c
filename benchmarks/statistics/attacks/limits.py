"""How much of a memory in one environment could anybody tell: what the best test there is tells.

Against each attack stands the test that knows all about it but where the mean and the scale are:
the likelihood of the log-ratios with that memory beside that without any, which no other test that
is blind to both exceeds (Neyman & Pearson, for the ratio of two forms: King 1980, Sankhyā B 42).
Where it says little, no doubt could say more, and nobody knows from so few blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.statistics.attacks.counts import ATTACKED, false
from benchmarks.statistics.attacks.folders import folder
from benchmarks.statistics.attacks.regimes import ATTACKS, E0, QUIET, STATE, Attack
from benchmarks.statistics.noise import Rng
from benchmarks.statistics.table import Share, Table, percent, share
from ullage.analysis import overhead
from ullage.stats import Floats

FALSE_ALARMS = 0.05
NULLS = 20_000
"""Series without memory, for the test's level."""


def kept(blocks: int, correlation: Callable[[Floats], Floats], scale: float) -> Floats:
    """Covariance of log-ratios: what the environment keeps, and what the baseline adds."""
    lags = np.abs(np.subtract.outer(np.arange(blocks), np.arange(blocks))).astype(np.float64)
    baseline: Floats = scale**2 * correlation(lags) + QUIET**2 * np.eye(blocks)
    return baseline


def memory_of(attack: Attack) -> Floats | None:
    """Covariance under attack; None: it is no memory."""
    blocks, name = attack.layout.blocks, attack.name
    for phi in (0.5, 0.8):
        if name.startswith(f"AR {phi},"):
            return kept(blocks, partial(np.power, phi), 2 * QUIET)
    if name.startswith("switching"):
        # Signs that turn with the chance 1/8 are correlated by (1 − 2/8) to the power of the lag.
        return kept(blocks, partial(np.power, 0.75), STATE) + QUIET**2 * np.eye(blocks)
    return None


def evidence(series: Floats, covariance: Floats) -> Floats:
    """Campaigns × blocks → the ratio of both forms, larger where it looks more like memory."""
    whitened = np.linalg.inv(covariance)
    ones = whitened.sum(axis=1)
    without_mean = whitened - np.outer(ones, ones) / ones.sum()
    centred = series - series.mean(axis=1, keepdims=True)
    ratio: Floats = (centred**2).sum(axis=1) / np.einsum(
        "ij,jk,ik->i", series, without_mean, series
    )
    return ratio


@dataclass(frozen=True)
class Limit:
    """What the best test says under an attack."""

    attack: str
    power: Share
    """Campaigns in which it speaks."""
    given_false: Share
    """Of those with a false verdict."""


def limit(attack: Attack, covariance: Floats, campaigns: int, seed: int) -> Limit:
    """By the product's verdicts on these campaigns."""
    rng: Rng = np.random.default_rng([seed, *attack.name.encode()])
    series, wrong = [], []
    for number in range(campaigns):
        times, lost = attack.make(rng, attack.layout)
        run = folder(attack.layout, times, lost, number)
        judged = (j for j in overhead.judged(run) if j.draft.environment.key == ATTACKED)
        wrong.append(any(false(attack, j.verdict) for j in judged))
        series.append(np.log(times[E0, 0] / times[0, 0]))
    nulls = evidence(rng.standard_normal((NULLS, attack.layout.blocks)), covariance)
    spoke = evidence(np.array(series), covariance) > np.quantile(nulls, 1 - FALSE_ALARMS)
    return Limit(attack.name, share(spoke), share(spoke[np.array(wrong)]))


def limits(campaigns: int, seed: int) -> list[Limit]:
    """Of every attack by memory."""
    pairs = ((attack, memory_of(attack)) for attack in ATTACKS)
    return [limit(attack, c, campaigns, seed) for attack, c in pairs if c is not None]


def table(known: list[Limit]) -> Table:
    """What could be told."""
    printed = Table(
        "Memory: what the best test could tell",
        ["attack", "campaigns", "power", "false verdicts", "power beside them"],
        says="Percent of campaigns in which the best test of this very memory speaks, at "
        f"{FALSE_ALARMS:.0%} false alarms, and of those with a false verdict. Where that is low "
        "nobody can know it from such a run.",
    )
    for of in known:
        row = [of.attack, f"{of.power.of:,}", percent(of.power), f"{of.given_false.of:,}"]
        printed.rows.append([*row, percent(of.given_false) if of.given_false.of else ""])
    return printed
