"""When are there blocks enough: for a precision, or for verdicts, as they come.

By verdicts: a comparison that is decided leaves the run, so it is judged again and again until it
is. Looks lie at doubling numbers of units (blocks, or generations). Look k takes α/(k(k+1)) of the
α that all claims of the run share: 1/2 + 1/6 + 1/12 + … is 1 however many looks there are, so the
chance of any false claim at any of them is at most α, whatever the dependence between looks and
between comparisons. That is an error-spending function in the sense of Lan & DeMets (1983,
Biometrika 70:659), α(1 − 1/(k + 1)) after k looks, spent by the union bound. It needs no last look
to be known beforehand: a run that is taken up with a larger `max` goes on looking under the same
promise.

At a look every procedure of a plain run is used as it is, at the look's confidence. Its intervals
are then repeated confidence intervals (Jennison & Turnbull 1989, JRSS B 51:305): all of them, over
all looks, hold the truth with the run's confidence, so the one at which a comparison left does too.
Holm's procedure at each look counts those that have left as rejected, each in the family of its own
claim (difference or equivalence), and as not rejected in the other. While only false hypotheses
have been rejected, the true ones are at most as many as are left, so the next false claim has at
most the look's share of α (Ye, Li, Liu & Yao 2013, Stat. Med. 32:1112, for group-sequential Holm).

A comparison may leave without a verdict too, where one is unlikely by the most units (`UNLIKELY`).
It then claims nothing, in neither family, which takes claims away and adds none: whatever that rule
is, and though it looks at the data, the levels above hold.

Simulated in `benchmarks/statistics/racing.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ullage.stats import LEAST_PAIRS, Floats
from ullage.stats.interval import check_confidence, t_interval
from ullage.stats.power import LookAhead

FIRST_LOOK = 4
"""Precision is not looked at before so many blocks; the correction holds from here on."""
COST_OF_LOOKING = 0.9
UNLIKELY = 0.05
"""Chance of a verdict by the last look under which a comparison may leave without one."""


def widening(min_blocks: int) -> float:
    """Factor on the standard error of any interval whose precision decided when to stop.

    Stopping at the first block at which an interval is short enough favours the moments at which
    the spread happens to be underestimated, so the plain interval then covers its truth too seldom
    (Anscombe 1952, Chow & Robbins 1965): 92.7 % instead of 95 % at worst with looks from block 6.
    The mean of normal log-ratios is independent of the whole path of their spread (Helmert), so a
    factor on the standard error restores coverage. 1 + 0.9/n₀, n₀ the first look, was found by
    simulation over the ratio of spread to target (0.35 to 7), n₀ from 4 to 20, at most 12, 40 or
    400 blocks, and levels of 90, 95 and 99 %: at worst 90.35, 95.20 and 99.06 % are covered, and at
    the levels that Holm looks at (α/12, α/48) misses are at most 1.0 times the level. Both the
    decision and the reported interval use it: what is reported is what was asked.

    Nominal 95 %, n₀ from 4 to 20, the worst ratio each, 24,000 campaigns, ±0.2 %: of several
    comparisons whose widest decides 95.8 and more each, t₃ and Laplace tails 95.5, regimes of
    spread 95.7, drift left in the pairs 95.0, a spread that halves at block 10 95.7, one that
    doubles at the first look 94.4. It does not mend what a fixed number of blocks does not either:
    skew as of an exponential covers 86 to 91 % (fixed: 89 with 6, 93 with 40 blocks), pairs with an
    autocorrelation of 0.5 75 to 78 % (fixed: 74 to 78). `tests/stats/test_stop.py` has them again.

    Bonferroni over the 35 looks from block 6 to 40, which would also allow stopping by the
    *effect*, widens 1.7 to 2.5 times and buys nothing here: nobody stops by the effect.
    """
    return 1 + COST_OF_LOOKING / max(min_blocks, FIRST_LOOK)


@dataclass(frozen=True, slots=True)
class Decision:
    """Go on, or stop and why."""

    stop: bool
    reason: Literal["precision", "blocks"] | None
    widest_half_width: float | None
    """Relative, over all comparisons; None while one has too few pairs to tell."""
    widest: str | None
    """The comparison that it belongs to."""
    target: float | None


@dataclass(frozen=True, slots=True)
class StopRule:
    """Stop between blocks: by precision, never before `min_blocks`, never after `max_blocks`."""

    min_blocks: int
    max_blocks: int
    half_width: float | None = None
    """Target: half of each interval's width, relative to its estimate; None: all blocks."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if not 1 <= self.min_blocks <= self.max_blocks:
            raise ValueError(f"{self.min_blocks} to {self.max_blocks} blocks is no range")
        if self.half_width is not None and not 0 < self.half_width < math.inf:
            raise ValueError(f"a half-width of {self.half_width} cannot be a target")

    @property
    def widening(self) -> float:
        """The correction that the intervals of this run carry (1 without a precision target)."""
        return 1.0 if self.half_width is None else widening(self.min_blocks)

    def decide(
        self, log_ratios_by_comparison: Mapping[str, Sequence[float]], blocks_done: int
    ) -> Decision:
        """Decide after a finished block.

        Comparisons without a single pair are left out: no number of blocks makes a cell precise
        that always fails. One with some pairs, but under FIRST_LOOK, keeps the run going.
        """
        widest, name = self._widest(log_ratios_by_comparison)
        if blocks_done >= self.max_blocks:
            return Decision(True, "blocks", widest, name, self.half_width)
        enough = (
            self.half_width is not None
            and widest is not None
            and blocks_done >= max(self.min_blocks, FIRST_LOOK)
            and widest <= self.half_width
        )
        reason: Literal["precision"] | None = "precision" if enough else None
        return Decision(enough, reason, widest, name, self.half_width)

    def _widest(self, series: Mapping[str, Sequence[float]]) -> tuple[float | None, str | None]:
        widest, name = None, None
        for key, values in series.items():
            if not values:
                continue
            if len(values) < FIRST_LOOK:
                return None, key
            width = t_interval(values, self.confidence, self.widening).half_width
            if widest is None or width > widest:
                widest, name = width, key
        return widest, name


def look_confidence(confidence: float, look: int) -> float:
    """Of everything that is said at look number `look`, from 1 on."""
    return 1 - (1 - confidence) / (look * (look + 1))


@dataclass(frozen=True, slots=True)
class LevelShares:
    """The most of a look's α that the correction can leave to a claim, by what is not claimed."""

    difference: Floats | float
    equivalence: Floats | float


@dataclass(frozen=True, slots=True)
class Race:
    """Where a run looks, in units."""

    first: int
    most: int

    @classmethod
    def between(cls, least: int, most: int) -> Race:
        """From the fewest units on, but not where no verdict can come from yet."""
        return cls(min(most, max(least, LEAST_PAIRS)), most)

    def next_look(self, last: int) -> int | None:
        """The first look after so many units (0: none yet); None after the most."""
        if last >= self.most:
            return None
        look = self.first
        while look <= last:
            look *= 2
        return min(look, self.most)

    def number(self, units: int) -> int:
        """Of the look after so many units, on schedule or because the run ends there; from 1."""
        return 1 + sum(look < units for look in self.looks())

    def ahead(
        self, units: int, taken: int, confidence: float, shares: LevelShares
    ) -> tuple[LookAhead, ...]:
        """The looks after so many units; `taken` have been taken until now."""
        later = [look for look in self.looks() if look > units]
        alphas = (1 - look_confidence(confidence, taken + k) for k in range(1, len(later) + 1))
        return tuple(
            # The interval of what is equivalent lies inside the margin too, which is half of α.
            LookAhead(
                look - units,
                alpha * shares.difference,
                alpha * np.minimum(shares.equivalence, 0.5),
            )
            for look, alpha in zip(later, alphas, strict=True)
        )

    def looks(self) -> tuple[int, ...]:
        """All, of a run that ends by none before the most."""
        looks: list[int] = []
        while (look := self.next_look(looks[-1] if looks else 0)) is not None:
            looks.append(look)
        return tuple(looks)
