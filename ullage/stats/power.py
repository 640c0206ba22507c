"""How likely a verdict is, and how many pairs make it likely: planning before and after a run.

Effects, spreads and margins are on the log scale, effects and margins as absolute values. `spread`
is the standard deviation of one unit (a pair, or the mean of a generation's pairs), `n` the number
of units, `level` the level of the test: two-sided for a difference, one-sided for each half of the
TOST. `widen` is the factor on standard errors that pays for repeated looks (`stop.widening`).
Everything assumes normal log-ratios, and knows the spread; a verdict has to estimate it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from ullage.stats import Floats
from ullage.stats.interval import t_quantile

POWER = 0.8
"""The chance that planning asks for, by custom (Cohen 1988)."""
MOST_BLOCKS = 10_000
"""Beyond so many units we say that more will not settle it."""
_TINY = 1e-12


def power_difference(
    effect: float, spread: float, n: int, level: float, *, widen: float = 1.0
) -> float:
    """Chance that the two-sided t test of no effect rejects, both tails.

    That is the noncentral t, as the normal's integrated over the sample's spread: SciPy's own
    function gives no number for many arguments (n = 6, effect 8 standard errors, level 0.003).
    """
    _check(spread, n)
    if spread == 0:
        return 1.0 if effect else level
    critical = widen * t_quantile(1 - level / 2, n - 1)
    shift = abs(effect) * math.sqrt(n) / spread
    u, weight = _spreads(n - 1)
    return _chance(
        weight @ (special.ndtr(shift - critical * u) + special.ndtr(-shift - critical * u))
    )


def power_equivalence(
    effect: float, spread: float, delta: float, n: int, level: float, *, widen: float = 1.0
) -> float:
    """Chance that the TOST of |effect| ≥ delta rejects (Phillips 1990, by Owen's Q).

    With u the sample's standard deviation over `spread`, and t the critical value, both tests
    reject when the mean lies within delta − t·u·spread/√n; the chance of that, given u, is
    integrated over u. J. Pharmacokin. Biopharm. 18:137.
    """
    _check(spread, n)
    effect = abs(effect)
    if spread == 0 or delta <= 0:
        return 1.0 if effect < delta else 0.0
    error = spread / math.sqrt(n)
    critical = widen * t_quantile(1 - level, n - 1)
    u, weight = _spreads(n - 1, delta / (error * critical))
    reach = delta / error - critical * u
    return _chance(
        weight @ (special.ndtr(reach - effect / error) - special.ndtr(-reach - effect / error))
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """One test of a claim, in standard errors of its mean."""

    shift: float
    """True mean."""
    hurdle: Callable[[Floats], Floats]
    """What it must be above, by the sample's standard deviation over the true one."""
    limit: Callable[[Floats], Floats] | None = None
    """What it must be below; None: nothing."""

    @classmethod
    def equivalence(cls, effect: float, room: float, error: float, critical: float) -> Claim:
        """The TOST of |effect| ≥ room, log scale, with that critical value of t."""

        def limit(u: Floats) -> Floats:
            inside: Floats = room / error - critical * u
            return inside

        return cls(effect / error, lambda u: -limit(u), limit)

    def passed(self, u: Floats, common: Floats, own: float) -> Floats:
        """Chance by u and a part of the mean's error that is known, `own` being what is not."""
        above = special.ndtr((self.shift + common - self.hurdle(u)) / own)
        if self.limit is None:
            return above
        beyond = special.ndtr((self.shift + common - self.limit(u)) / own)
        return np.maximum(0.0, above - beyond)


def power_of_both(first: Claim, second: Claim | None, df: int, correlation: float) -> float:
    """Chance that both claims hold at once; with one alone that of it.

    Their means are two normals of that correlation r (at least 0), √r·g + √(1 − r)·z with a common
    g. Each has its own sample's spread, of `df` degrees of freedom, by the cube root of Wilson &
    Hilferty (1931, PNAS 17:684), which is good to 0.003 here from 5 degrees of freedom on; the
    normals in these are correlated by r², with a common h. Integrated over g, h and what is own.
    """
    if second is None:
        u, weight = _spreads(df)
        return _chance(weight @ first.passed(u, np.zeros_like(u), 1.0))
    x, share = _NORMAL
    squared = correlation**2
    spread = _cube_root(correlation * x[:, None] + math.sqrt(1 - squared) * x, df)
    common, own = math.sqrt(correlation) * x[:, None, None], math.sqrt(1 - correlation)
    passed = [claim.passed(spread, common, own) @ share for claim in (first, second)]
    return _chance(share @ (passed[0] * passed[1]) @ share)


@dataclass(frozen=True, slots=True)
class LookAhead:
    """A look of a race that is still to come (`stats.stop`)."""

    units: int
    """From now until then."""
    difference: Floats | float
    """The highest level at which a difference may be claimed there; of each comparison."""
    equivalence: Floats | float
    """The same of equivalence; the interval must lie inside the margin too, which is α/2."""


def chance_ahead(
    mean: Floats, error: Floats, n: int, ahead: Sequence[LookAhead], delta: float
) -> Floats:
    """How likely a verdict is at any of these looks, after n units with that mean: at most so.

    By what is seen, which is predictive and not for one given truth: with a flat prior the true
    variance is that of the sample by its χ² (the cube root of Wilson & Hilferty), and the mean
    after N units is normal around that after n with the variance σ²(1/n − 1/N). The spread then is
    taken as expected. An upper bound, for the looks' chances are added, the level is the most that
    there can be, and nothing else that a verdict needs (other copies, instruments, slow trials) is
    asked.
    """
    x, weights = _NORMAL
    spread = error * math.sqrt(n)
    sigma = spread[..., None] / np.maximum(_LEAST_SPREAD, _cube_root(x, n - 1))
    middle = mean[..., None]
    chance = np.zeros_like(sigma)
    for look in ahead:
        then = n + look.units
        variance = (n - 1) * spread[..., None] ** 2 + look.units * sigma**2
        error_then = np.sqrt(variance / (then - 1) / then)
        moves = sigma * math.sqrt(1 / n - 1 / then)
        hurdle = _critical(look.difference / 2, then) * error_then
        chance += special.ndtr((middle - hurdle) / moves) + special.ndtr((-middle - hurdle) / moves)
        room = delta - _critical(look.equivalence, then) * error_then
        inside = special.ndtr((room - middle) / moves) - special.ndtr((-room - middle) / moves)
        chance += np.maximum(0.0, inside)
    return np.minimum(1.0, chance @ weights)


def _critical(level: Floats | float, n: int) -> Floats:
    """Of Student's t of n values, with a last axis to broadcast along."""
    return np.asarray(special.stdtrit(n - 1, 1 - np.asarray(level)))[..., None]


_LEAST_SPREAD = 0.2
"""Of a sample over the true one, where its distribution is cut: under 10⁻⁴ of it lie below."""


def smallest_claim(chance: Callable[[float], float], power: float = POWER) -> float:
    """The shift with that chance, which grows with it from below `power` at 0."""
    from scipy import optimize  # noqa: PLC0415  a tenth of a second of every start of a run

    high = 1.0
    while chance(high) < power:
        high *= 2
    return float(optimize.brentq(lambda shift: chance(shift) - power, 0.0, high, xtol=1e-8))


def _cube_root(z: Floats, df: int) -> Floats:
    """s / σ of a sample at the normal quantile z (Wilson & Hilferty)."""
    part = 2 / (9 * df)
    root: Floats = np.maximum(0.0, 1 - part + z * math.sqrt(part)) ** 1.5
    return root


def _spreads(df: int, most: float = math.inf) -> tuple[Floats, Floats]:
    """Where to look, up to `most`, and with what weight, to integrate over u = s / σ of a sample.

    df·u² is χ² with `df` degrees of freedom; Gauss–Legendre over all but 10⁻¹² of it.
    """
    low, high, constant = _span(df)
    high = min(high, most)
    if high <= low:
        return np.zeros(1), np.zeros(1)
    nodes, weights = _FINE if df < 5 else _COARSE
    u = low + (high - low) * nodes
    return u, (high - low) * weights * np.exp(constant + (df - 1) * np.log(u) - df * u**2 / 2)


@functools.cache
def _span(df: int) -> tuple[float, float, float]:
    """Least and most u, and the logarithm of the constant factor of its density."""
    low, high = (math.sqrt(special.chdtri(df, p) / df) for p in (1 - _TINY, _TINY))
    return low, high, math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2)


def _rule(panels: int) -> tuple[Floats, Floats]:
    """Nodes and weights between 0 and 1: Gauss–Legendre of 32 points on each panel."""
    nodes, weights = np.polynomial.legendre.leggauss(32)
    starts = np.arange(panels)[:, None]
    return ((starts + (nodes + 1) / 2) / panels).reshape(-1), np.tile(weights / 2 / panels, panels)


def _normal(points: int) -> tuple[Floats, Floats]:
    """Nodes and weights of a standard normal: Gauss–Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    return nodes, weights / weights.sum()


_FINE, _COARSE = _rule(32), _rule(3)
"""With few degrees of freedom a test decides within a small part of the span of u."""
_NORMAL = _normal(16)


def _chance(value: Floats | np.float64) -> float:
    return min(1.0, max(0.0, float(value)))


def blocks_for_difference(
    effect: float, spread: float, level: float, power: float = POWER, *, widen: float = 1.0
) -> int | None:
    """Fewest units with which the t test finds `effect`; None beyond 10,000."""
    if effect == 0:
        return None
    return least(lambda n: power_difference(effect, spread, n, level, widen=widen), power)


def blocks_for_equivalence(
    effect: float,
    spread: float,
    delta: float,
    level: float,
    power: float = POWER,
    *,
    widen: float = 1.0,
) -> int | None:
    """Fewest units with which the TOST shows |effect| < delta; None beyond 10,000, or if it is not.

    The verdict wants the printed interval inside the margin too: that is the TOST at half the
    interval's α, so the caller passes the smaller of both levels.
    """
    if abs(effect) >= delta:
        return None
    return least(lambda n: power_equivalence(effect, spread, delta, n, level, widen=widen), power)


def least(
    chance: Callable[[int], float], power: float = POWER, first: int = 2, most: int = MOST_BLOCKS
) -> int | None:
    """Smallest n from `first` to `most` with that chance, which grows with n; or None."""
    if chance(most) < power:
        return None
    low, high = first - 1, first
    while high < most and chance(high) < power:
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) >= power else (middle, high)
    return high


def _check(spread: float, n: int) -> None:
    if not 0 <= spread < math.inf:
        raise ValueError(f"{spread} is no spread")
    if n < 2:
        raise ValueError(f"{n} values have no spread")
