"""When comparisons are judged while a run goes on, and what each of these looks may claim.

A comparison that is decided leaves the run, so it is judged again and again until it is. Looks lie
at doubling numbers of units (blocks, or generations). Look k takes α/(k(k+1)) of the α that all
claims of the run share: 1/2 + 1/6 + 1/12 + … is 1 however many looks there are, so the chance of
any false claim at any of them is at most α, whatever the dependence between looks and between
comparisons. That is an error-spending function in the sense of Lan & DeMets (1983, Biometrika
70:659), α(1 − 1/(k + 1)) after k looks, spent by the union bound. It needs no last look to be
known beforehand: a run that is taken up with a larger `max` goes on looking under the same promise.

At a look every procedure of a plain run is used as it is, at the look's confidence. Its intervals
are then repeated confidence intervals (Jennison & Turnbull 1989, JRSS B 51:305): all of them, over
all looks, hold the truth with the run's confidence, so the one at which a comparison left does too.
Holm's procedure at each look counts those that have left as rejected, each in the family of its own
claim (difference or equivalence), and as not rejected in the other. While only false hypotheses
have been rejected, the true ones are at most as many as are left, so the next false claim has at
most the look's share of α (Ye, Li, Liu & Yao 2013, Stat. Med. 32:1112, for group-sequential Holm).

Simulated in `benchmarks/statistics/racing.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.stats.verdict import LEAST_PAIRS


def look_confidence(confidence: float, look: int) -> float:
    """Of everything that is said at look number `look`, from 1 on."""
    return 1 - (1 - confidence) / (look * (look + 1))


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

    def looks(self) -> tuple[int, ...]:
        """All, of a run that ends by none before the most."""
        looks: list[int] = []
        while (look := self.next_look(looks[-1] if looks else 0)) is not None:
            looks.append(look)
        return tuple(looks)
