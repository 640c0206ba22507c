"""How well supply follows demand: the formulas of the field, integrated exactly.

d(t) is the number of nodes demanded, s(t) the number supplied, T the length of the interval. Both
are step curves whose every step is known, so the integrals are sums over the times between steps.

Sources. BUNGEE: N. Herbst, S. Kounev, A. Weber, H. Groenda, "BUNGEE: an elasticity benchmark for
self-adaptive IaaS cloud environments" (SEAMS 2015), and its code (`metric/*.java`). SPEC RG:
N. Herbst et al., "Ready for Rain? A View from SPEC Research on the Future of Cloud Metrics"
(SPEC-RG-2016-01), and "Quantifying Cloud Performance and Dependability" (ACM TOMPECS 3(4), 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ullage.experiments.elastic.analysis.curves import StepCurve, share, times

NS = 1e9


@dataclass(frozen=True, slots=True)
class Span:
    """Over which is integrated, in nanoseconds; `begin` is before `end`."""

    begin: int
    end: int

    @property
    def seconds(self) -> float:
        """T."""
        return (self.end - self.begin) / NS


@dataclass(frozen=True, slots=True)
class Elasticity:
    """Every formula, of one demand and one supply. Shares are fractions, not percent."""

    accuracy_u: float
    """BUNGEE accuracy_U = (1/T) ∫ max(d−s, 0) dt, in nodes: how many are missing, on average."""
    accuracy_o: float
    """BUNGEE accuracy_O = (1/T) ∫ max(s−d, 0) dt, in nodes: how many are too many."""
    timeshare_u: float
    """BUNGEE timeshare_U, SPEC RG τ_U = (1/T) ∫ [s < d] dt: share of time with too few."""
    timeshare_o: float
    """BUNGEE timeshare_O, SPEC RG τ_O = (1/T) ∫ [s > d] dt: share of time with too many."""
    jitter: float
    """BUNGEE jitter = (E_s − E_d) / T in nodes per second, E the sum of the sizes of all steps:
    above 0 supply moves more than demand (it oscillates), below 0 less (it is sluggish)."""
    theta_u: float
    """SPEC RG θ_U = (1/T) ∫ max(d−s, 0) / d dt."""
    theta_o: float
    """SPEC RG θ_O = (1/T) ∫ max(s−d, 0) / d dt; see `_theta` for where d is 0."""
    instability: float
    """SPEC RG υ: share of time in which supply and demand do not move the same way."""
    deviation: float
    """SPEC RG elastic deviation σ = (θ³ + τ³ + υ³)^⅓ with θ = ½(θ_U + θ_O), τ alike. In per cent as
    published it is a hundred times this."""


def measure(demand: StepCurve, supply: StepCurve, over: Span, window_ns: int) -> Elasticity:
    """All formulas over an interval. window_ns: of the instability, see `instability`."""
    missing, surplus = (_excess(a, b, over) for a, b in ((demand, supply), (supply, demand)))
    tau_u, tau_o = _timeshare(demand, supply, over), _timeshare(supply, demand, over)
    theta_u, theta_o = _theta(demand, supply, over)
    upsilon = instability(demand, supply, over, window_ns)
    mean_theta, mean_tau = (theta_u + theta_o) / 2, (tau_u + tau_o) / 2
    return Elasticity(
        accuracy_u=missing,
        accuracy_o=surplus,
        timeshare_u=tau_u,
        timeshare_o=tau_o,
        jitter=(_movement(supply, over) - _movement(demand, over)) / over.seconds,
        theta_u=theta_u,
        theta_o=theta_o,
        instability=upsilon,
        deviation=math.cbrt(mean_theta**3 + mean_tau**3 + upsilon**3),
    )


def instability(demand: StepCurve, supply: StepCurve, over: Span, window_ns: int) -> float:
    """SPEC RG υ = (1/(T−h)) ∫ min(|sgn Δs − sgn Δd|, 1) dt, Δ the change over the last h.

    As published it is a sum over samples h apart, and depends on where the samples fall. Here t
    runs over all instants from h on, which is the mean over all places that they could have: what
    is left of the choice is h itself, which is told beside the figure. 0 where h is not under T.
    """
    if window_ns >= over.end - over.begin:
        return 0.0
    late = Span(over.begin + window_ns, over.end)
    curves = (demand, demand.delayed(window_ns), supply, supply.delayed(window_ns))
    parts = (
        (length, float(np.sign(d - d0) != np.sign(s - s0)))
        for length, (d, d0, s, s0) in times(late.begin, late.end, *curves)
    )
    return share(late.begin, late.end, parts)


def speed_up(scaled: Elasticity, still: Elasticity) -> float | None:
    """SPEC RG elastic speed-up ε = (∏ still_i / scaled_i)^¼ over θ_U, θ_O, τ_U and τ_O.

    Above 1: better than no scaling. None where one of the eight is 0: the product has no meaning.
    """
    names = ("theta_u", "theta_o", "timeshare_u", "timeshare_o")
    both = [(getattr(still, name), getattr(scaled, name)) for name in names]
    if not all(a > 0 and b > 0 for a, b in both):
        return None
    return math.exp(math.fsum(math.log(a / b) for a, b in both) / len(both))


def standing(demand: StepCurve, over: Span) -> tuple[StepCurve, int]:
    """The baseline of the speed-up: a constant supply, and how many nodes it has.

    As many nodes as are demanded on average, rounded, at least one: what an operator who knows the
    load but does not scale would rent for it. It depends on the demand alone, so it is the same for
    all environments.
    """
    mean = demand.integral(over.begin, over.end) / (over.end - over.begin)
    nodes = max(1, round(mean))
    return StepCurve.counted([(over.begin, over.end)] * nodes), nodes


def _excess(more: StepCurve, less: StepCurve, over: Span) -> float:
    total = sum(
        length * max(a - b, 0) for length, (a, b) in times(over.begin, over.end, more, less)
    )
    return total / (over.end - over.begin)


def _timeshare(more: StepCurve, less: StepCurve, over: Span) -> float:
    total = sum(length for length, (a, b) in times(over.begin, over.end, more, less) if a > b)
    return total / (over.end - over.begin)


def _theta(demand: StepCurve, supply: StepCurve, over: Span) -> tuple[float, float]:
    """θ_U and θ_O. Where nobody demands anything, surplus counts against one node.

    The formula divides by d, and its authors keep d above 0; a service without viewers needs none.
    """
    parts = times(over.begin, over.end, demand, supply)
    under = share(over.begin, over.end, ((t, max(d - s, 0) / max(d, 1)) for t, (d, s) in parts))
    above = share(over.begin, over.end, ((t, max(s - d, 0) / max(d, 1)) for t, (d, s) in parts))
    return under, above


def _movement(curve: StepCurve, over: Span) -> int:
    """Sum of the sizes of all steps after the interval's begin, as BUNGEE counts them."""
    corners = np.array([value for _, value in curve.corners(over.begin, over.end)], dtype=np.int64)
    return int(np.abs(np.diff(corners)).sum())
