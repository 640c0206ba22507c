"""What repeating does not show: the systematic (Type B) part of a ratio's uncertainty.

Terms and arithmetic are the GUM's (JCGM 100:2008); all uncertainties are of the log-ratio, that is
relative to the ratio. Everything here is a bound on an error whose distribution is not known, so it
is taken to be rectangular (GUM 4.3.7). None of it shrinks with more blocks.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from ullage.analysis.comparison.estimates import Budget, Component
from ullage.analysis.comparison.pairing import TOO_COARSE, Draft
from ullage.analysis.comparison.rounding import quantity, share
from ullage.runs.events import Trial
from ullage.runs.records import EnvironmentRecord, Metric
from ullage.stats import levels
from ullage.stats.uncertainty import combine, half_step, rectangular

COVERAGE = 2.0
"""Of `systematic`: about 95 % (GUM G.6.6)."""
_SAME_S = 1e-6
"""A figure that is so near to the time between a program's start and end is that time."""


def components(draft: Draft) -> tuple[Component, ...]:
    """The systematic parts of one comparison, of both sides; those that are nothing are left out.

    * *resolution*: the figures are multiples of a step q; q/√12 (on the log scale, so a little
      more). Only where the trials' own noise does not average the rounding out: else it is in the
      standard error already. A side that always gives the same figure has the other's step, see
      `stats.uncertainty.steps`. Of a curve: the mean over its coordinates.
    * *clock-rate*: an instance with a clock of its own (a VM) times itself, and that clock ran
      faster or slower than the controller's; half width |drift| + what that is uncertain by, per
      second. It is not corrected, for a tool may use another clock of the guest. Only for figures
      that are per second or seconds.
    * *clock-bound*: for the time from a program's start to its end, told by ullage across clocks:
      both ends may be off by the hard bound. These instants are corrected for the rate, so such a
      figure has no clock-rate as well.

    What varies from trial to trial, as scheduling and warm caches do, is in Type A and must not
    stand here. So is a clock's error where it changes sign between trials: then this counts some
    of it twice, to the safe side.
    """
    all_parts: list[Component] = []
    for (environment, trials), steps in zip(draft.sides, steps_of_sides(draft), strict=True):
        if trials:
            parts = (
                _resolution(environment, trials, draft.metric, steps),
                _clock(environment, trials, draft.metric),
            )
            all_parts += [part for part in parts if part is not None and part.standard > 0]
    return tuple(all_parts)


def systematic(draft: Draft) -> float:
    """Expanded systematic uncertainty of the log-ratio, k = 2: for `FamilyMember.systematic`."""
    return expanded(components(draft))


def expanded(parts: Sequence[Component]) -> float:
    """Root of the sum of their squares, k = 2."""
    return COVERAGE * math.hypot(*(part.standard for part in parts))


def budget(draft: Draft) -> Budget | None:
    """Type A, Type B and both together; None under two units, or where a bound is no number.

    Type A is the standard error that the interval rests on, with the correction for repeated looks
    in it; its degrees of freedom are the units' minus 1. `within` and `between` are standard
    deviations of log-ratios from the analysis of variance (`stats.levels`), and Type A holds both
    already: they say where it comes from, and are not added to it.
    """
    within, between = _spreads(draft)
    return budget_with(draft, components(draft), within, between)


def budget_with(
    draft: Draft,
    parts: tuple[Component, ...],
    within: float | None = None,
    between: float | None = None,
) -> Budget | None:
    """The same, with these parts as Type B."""
    m = draft.moments
    if m is None:
        return None
    together = combine(
        m.error, m.df, [p.standard for p in parts], m.mean, draft.settings.confidence
    )
    if not (together.low >= sys.float_info.min and math.isfinite(together.high)):
        return None
    return Budget(
        type_a=together.type_a,
        type_b=together.type_b,
        components=parts,
        expanded=together.expanded,
        low=together.low,
        high=together.high,
        precision=draft.precision,
        within=within,
        between=between,
    )


def _spreads(draft: Draft) -> tuple[float | None, float | None]:
    """Standard deviation on the same instances, and what making them anew adds."""
    if draft.precision == "repeatability":
        return (draft.moments.deviation if draft.moments else None), None
    by_level = levels.components(draft.log_ratios, draft.generations)
    deviations = [math.sqrt(v) for v in by_level.variances]
    # One block a making: its own spread cannot be told apart, and is in what making adds.
    return (None if by_level.raw[1] is None else deviations[1]), deviations[0]


def steps_of_sides(draft: Draft) -> tuple[list[float], list[float]]:
    """Steps of the environment's and of the baseline's figures, relative to their mean.

    One of each, or of a curve one at each coordinate; 0 where noise averages it out.
    """
    return [s.environment for s in draft.steps], [s.baseline for s in draft.steps]


def _resolution(
    environment: EnvironmentRecord, trials: Sequence[Trial], m: Metric, steps: Sequence[float]
) -> Component | None:
    """None too where a step is so coarse that there is no verdict: see `Draft.no_verdict`."""
    if not any(steps) or max(steps) >= TOO_COARSE:
        return None
    step = sum(steps) / len(steps)
    if m.coordinate is None:
        mean = float(np.mean([v for t in trials if not isinstance(v := t.metrics[m.name], list)]))
        size = f"{quantity(step * mean, m.unit)}, {share(step)} of their mean,"
    else:
        size = f"{share(step)} of their mean, over all of the curve,"
    return Component(
        source="resolution",
        standard=sum(rectangular(half_step(s)) for s in steps) / len(steps),
        text=f"figures of {environment.label} come in steps of {size} and vary less than that",
    )


def _clock(environment: EnvironmentRecord, trials: Sequence[Trial], m: Metric) -> Component | None:
    if "s" not in m.unit.split("/"):
        return None
    bounds = [_elapsed_bound(trial, m.name) for trial in trials]
    across = [bound for bound in bounds if bound is not None]
    if len(across) == len(trials):
        bound = float(np.median(across))
        return Component(
            source="clock-bound",
            standard=rectangular(bound),
            text=f"start and end in {environment.label} are told to within {_ppm(bound)} of the "
            "time between them, together",
        )
    rates = [rate for trial in trials if (rate := _rate_bound(trial)) is not None]
    if not rates:
        return None
    rate = float(np.median(rates))
    return Component(
        source="clock-rate",
        standard=rectangular(rate),
        text=f"{environment.label} times itself, by a clock that runs within {_ppm(rate)} of the "
        "controller's",
    )


def _elapsed_bound(trial: Trial, name: str) -> float | None:
    """2 × hard bound / duration where the figure is the time a program took; else None."""
    value = trial.metrics[name]
    if isinstance(value, list) or value <= 0:
        return None
    for role in trial.roles:
        if abs((role.end_ns - role.start_ns) / 1e9 - value) < _SAME_S:
            return 2 * role.clock_bound_ns / 1e9 / value
    return None


def _rate_bound(trial: Trial) -> float | None:
    """How far the instances' clocks may have been off the controller's rate; None: all share it."""
    return max(_rates(trial), default=None)


def _rates(trial: Trial) -> Iterable[float]:
    for clock in trial.clocks.values():
        if clock.drifted_ns is not None and clock.between_ns:
            yield (abs(clock.drifted_ns) + (clock.drift_unsure_ns or 0)) / clock.between_ns


def _ppm(value: float) -> str:
    return f"{float(f'{value * 1e6:.2g}'):g} ppm" if value < 1e-3 else share(value)
