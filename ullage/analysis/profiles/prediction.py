"""How much longer will a profiled command take in the environments of a run?

O = Σ weight · ratio + rest (what no resource explains counts as it is). Weights
and ratios were measured apart, so their errors are independent; they are carried through by Monte
Carlo, each from the Student distribution that its measurement gives (JCGM 101:2008, §6.4.9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

import numpy as np

from ullage.analysis.comparison.model import Analysis, ResourceSummary
from ullage.analysis.profiles.model import (
    LinearEstimate,
    Predicted,
    PredictedPart,
    Prediction,
    Profile,
    Weight,
)
from ullage.common.errors import PROFILE_NO_RATIO, UllageError
from ullage.runs.records import Resource
from ullage.stats import Floats
from ullage.stats.interval import t_quantile

DRAWS: Final = 20_000
SEED: Final = 20_080_101
"""The same answer each time."""
LARGEST_LOG: Final = 100.0
"""Of a drawn ratio: with two blocks Student's tails reach numbers that no float holds."""


def predict(profile: Profile, analysis: Analysis) -> Predicted:
    """The overhead in each environment. PROFILE_NO_RATIO where one has no sound ratio.

    A weight of 0 needs no ratio: without one, what it may yet be lasts as long there as anywhere.
    For resources that could not be told apart, the ratio is the mean of theirs, and the interval
    holds those with each weight on any one of its resources alone.
    """
    keys = list(dict.fromkeys(c.environment for c in analysis.comparisons))
    return Predicted(
        run=analysis.run,
        baseline_label=analysis.baseline_label,
        confidence=profile.confidence,
        predictions=tuple(_prediction(profile, analysis, key) for key in keys),
    )


def _prediction(profile: Profile, analysis: Analysis, key: str) -> Prediction:
    summaries = {s.resource: s for s in analysis.resources if s.environment == key}
    used = [w for w in profile.weights if w.share.estimate > 0]
    lacking = {
        resource: reason
        for weight in profile.weights
        for resource in weight.resources
        if (reason := _lacks(analysis, key, resource, summaries)) is not None
    }
    for resource in (name for weight in used for name in weight.resources):
        if resource in lacking:
            reason = lacking[resource]
            raise UllageError(PROFILE_NO_RATIO, environment=key, resource=resource, reason=reason)
    parts = [_part(weight, summaries) for weight in used]
    unexplained = max(0.0, 1 - sum(part.share for part in parts))
    first = next(c for c in analysis.comparisons if c.environment == key)
    sound = {
        resource: summary for resource, summary in summaries.items() if resource not in lacking
    }
    return Prediction(
        environment=key,
        label=first.environment_label,
        emulated=first.emulated,
        unequal=first.unequal,
        overhead=_overhead(profile, parts, sound),
        parts=tuple(parts),
        rest=unexplained,
    )


def _lacks(
    analysis: Analysis,
    key: str,
    resource: Resource,
    summaries: Mapping[Resource, ResourceSummary],
) -> str | None:
    """Why there is no ratio to predict with; None: there is one."""
    of = [c for c in analysis.primary() if c.environment == key and c.resource == resource]
    unsound = next((c for c in of if c.no_verdict), None)
    summary = summaries.get(resource)
    if unsound is not None:
        return f"{unsound.workload}: {unsound.no_verdict}"
    if summary is None:
        return f"{analysis.run} has no {resource} workload, and the command waits for it"
    if summary.ratio is None or summary.interval is None:
        return f"{resource} has no ratio with an interval in {analysis.run}"
    return None


def _part(weight: Weight, summaries: Mapping[Resource, ResourceSummary]) -> PredictedPart:
    ratio = float(np.mean([summaries[resource].ratio or 0.0 for resource in weight.resources]))
    share = weight.share.estimate
    return PredictedPart(name=weight.name, share=share, ratio=ratio, contribution=share * ratio)


def _overhead(
    profile: Profile, parts: Sequence[PredictedPart], sound: Mapping[Resource, ResourceSummary]
) -> LinearEstimate:
    """sound: the ratios to draw. What has none lasts as long as anywhere: only a weight of 0 may.

    As 1 + Σ weight · (ratio − 1), so that no share is taken off the rest and not counted elsewhere.
    """
    rng = np.random.default_rng(SEED)
    shares = _draw_shares(profile, rng)
    ratios = [
        [
            _draw(sound[resource], rng) if resource in sound else np.ones(DRAWS)
            for resource in weight.resources
        ]
        for weight in profile.weights
    ]
    tail = (1 - profile.confidence) / 2
    bounds: list[float] = []
    # Each weight of inseparable resources on one of them alone, in every combination. No resource
    # is in two weights, so these are few.
    for chosen in product(*ratios):
        drawn = 1 + sum(shares[:, i] * (ratio - 1) for i, ratio in enumerate(chosen))
        bounds += [float(v) for v in np.quantile(drawn, (tail, 1 - tail))]
    estimate = 1 + sum(part.share * (part.ratio - 1) for part in parts)
    return LinearEstimate(
        estimate=estimate, low=min(estimate, *bounds), high=max(estimate, *bounds)
    )


def _draw_shares(profile: Profile, rng: np.random.Generator) -> Floats:
    """(draws, weights): no share is negative, and together they are at most 1.

    How much of the bursts is the CPU's is not known, only that it is between none and all.
    """
    cpu = np.array(["cpu" in weight.resources for weight in profile.weights], dtype=np.float64)
    middle = np.array([weight.share.estimate for weight in profile.weights]) - profile.bursts * cpu
    spread = _student(profile.covariance, profile.degrees, rng)
    bursts = rng.uniform(0, profile.bursts, (DRAWS, 1)) * cpu
    drawn = np.maximum(0.0, middle + spread) + bursts
    total = drawn.sum(axis=1, keepdims=True)
    return np.asarray(drawn / np.maximum(1.0, total))


def _student(
    covariance: Sequence[Sequence[float]], degrees: int, rng: np.random.Generator
) -> Floats:
    """Draws of a multivariate Student distribution around 0."""
    matrix = np.asarray(covariance, dtype=np.float64)
    normal = rng.multivariate_normal(np.zeros(len(matrix)), matrix, DRAWS, method="eigh")
    return np.asarray(normal / np.sqrt(rng.chisquare(degrees, (DRAWS, 1)) / degrees))


def _draw(summary: ResourceSummary, rng: np.random.Generator) -> Floats:
    """Ratios as their interval says: exp of a Student variable."""
    assert summary.ratio is not None and summary.interval is not None
    interval = summary.interval
    degrees = max(1, interval.n - 1)
    half = (np.log(interval.high) - np.log(interval.low)) / 2
    error = half / t_quantile(0.5 + interval.confidence / 2, degrees)
    logs = np.clip(error * rng.standard_t(degrees, DRAWS), -LARGEST_LOG, LARGEST_LOG)
    return np.asarray(summary.ratio * np.exp(logs))
