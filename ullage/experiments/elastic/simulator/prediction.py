"""The simulator predicts repetitions that it was not fitted on: how far its PcBl is from theirs.

Fitted is what nodes take by themselves, from their request, without what the plan held them back
for; on repetitions that are not the one to be predicted. Given are when its viewers ask and how
long the film is. The hold of its environment is added as the plan has it. So nothing of what
happened in it is used, unlike in the twin, which replays a repetition and can only be consistent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Any, Final, Literal

from ullage import _elastic
from ullage.experiments.elastic.analysis import latencies
from ullage.experiments.elastic.analysis.definitions import BY_NAME
from ullage.experiments.elastic.analysis.demand import window_ns
from ullage.experiments.elastic.analysis.reading import ElasticRun, Repetition
from ullage.experiments.elastic.analysis.summary import spread
from ullage.experiments.elastic.folder import Release, Setting
from ullage.experiments.elastic.plan.hold import Hold
from ullage.stats.interval import t_quantile

HeldOut = Literal["seed", "delay", "load"]
"""What the repetitions that were fitted on do not share with the one that is predicted: its
arrivals; how long nodes are held back; the number of viewers, their patience or room."""

SEEDS: Final = 20
LEAST: Final = 3
"""Allocations that a fit wants."""


@dataclass(frozen=True)
class NodeTimes:
    """What nodes took by themselves, in real seconds."""

    made_s: tuple[float, ...]
    released_s: float


@dataclass(frozen=True)
class HeldOutPrediction:
    """PcBl of an environment, predicted less real, in shares."""

    environment: str
    held_out: HeldOut
    repetitions: int
    real: float
    predicted: float
    error: float
    low: float | None
    high: float | None
    why: str
    """Why there is no interval."""


def predictions(
    run: ElasticRun, others: Sequence[ElasticRun] = (), seeds: int = SEEDS
) -> list[HeldOutPrediction]:
    """Of each environment, by each way to hold out that the runs allow."""
    attempts = (
        _of(run, environment.key, held_out, fitted, seeds)
        for environment in run.resolved.environments
        for held_out, fitted in _fits(run, environment.key, others)
    )
    return [prediction for prediction in attempts if prediction is not None]


Fitting = Callable[[Repetition], NodeTimes | None]


def _fits(
    run: ElasticRun, key: str, others: Sequence[ElasticRun]
) -> Iterable[tuple[HeldOut, Fitting]]:
    """The ways, each with what it fits for a repetition."""
    yield "seed", lambda predicted: fit(r for r in run.of(key) if r.number != predicted.number)
    slower = [name for name in _like(run, key) if _hold(run, name) != _hold(run, key)]
    if slower:
        yield (
            "delay",
            lambda predicted: fit(
                r for name in slower for r in run.of(name) if r.number != predicted.number
            ),
        )
    loads = [other for other in others if key in {e.key for e in other.resolved.environments}]
    if loads:
        yield "load", lambda _: fit(r for other in loads for r in other.of(key))


def _like(run: ElasticRun, key: str) -> list[str]:
    """Other environments whose nodes are made in the same way."""
    records = {e.key: e for e in run.resolved.environments}
    own = records[key]
    return [
        name
        for name, e in records.items()
        if name != key and (e.provider, e.options) == (own.provider, own.options)
    ]


def _hold(run: ElasticRun, key: str) -> tuple[object, ...]:
    setting = run.resolved.settings[key]
    return (setting.boot_delay_s, setting.allocation)


def fit(repetitions: Iterable[Repetition]) -> NodeTimes | None:
    """Of repetitions that count; None of too few allocations."""
    acts = [r.acts for r in repetitions if r.counts]
    own_s = [
        max(0.0, seconds - ready.injected_s)
        for of in acts
        for _, ready, seconds in latencies.allocations(of)
    ]
    released = [
        (act.at_ns - act.front_ns) / 1e9
        for of in acts
        for act in of
        if isinstance(act, Release) and not act.end
    ]
    if len(own_s) < LEAST:
        return None
    return NodeTimes(tuple(own_s), fmean(released) if released else 0.0)


def _of(
    run: ElasticRun, key: str, held_out: HeldOut, fitting: Fitting, seeds: int
) -> HeldOutPrediction | None:
    pairs = [
        (real(repetition), predict(run, repetition, fitted, seeds))
        for repetition in run.of(key)
        if repetition.counts and repetition.sessions
        for fitted in [fitting(repetition)]
        if fitted is not None
    ]
    if not pairs:
        return None
    errors = [predicted - actual for actual, predicted in pairs]
    actual, predicted = (fmean(of) for of in zip(*pairs, strict=True))
    interval: tuple[float | None, float | None] = (None, None)
    estimate, why = spread(errors)
    if estimate is not None:
        half = t_quantile(0.5 + run.resolved.confidence / 2, estimate.df) * estimate.error
        interval = BY_NAME["blocked"].within(estimate.mean - half, estimate.mean + half)
    return HeldOutPrediction(
        key, held_out, len(pairs), actual, predicted, fmean(errors), *interval, why
    )


def real(repetition: Repetition) -> float:
    """PcBl of a repetition, as a share of all who came."""
    return sum(s.outcome == "blocked" for s in repetition.sessions) / len(repetition.sessions)


def predict(run: ElasticRun, repetition: Repetition, fitted: NodeTimes, seeds: int) -> float:
    """The mean over seeds of what is drawn: PcBl as a share."""
    outcomes = (
        json.loads(_elastic.simulate(json.dumps(specification(run, repetition, fitted, seed))))
        for seed in range(seeds)
    )
    return fmean(outcome["blocked"] for outcome in outcomes)


def specification(
    run: ElasticRun, repetition: Repetition, fitted: NodeTimes, seed: int
) -> dict[str, Any]:
    """What the simulator is given, in real time."""
    resolved = run.resolved
    setting = resolved.settings[repetition.environment]
    first_ns = min(s.asked_ns for s in repetition.sessions)
    asked_s = sorted((s.asked_ns - first_ns) / 1e9 for s in repetition.sessions)
    took = {"kind": "in-turn", "values_s": _drawn(setting, fitted, len(asked_s), seed)}
    return {
        "seed": seed,
        "application": setting.machine,
        "policy": setting.policy,
        "arrivals": {"kind": "trace", "at_s": asked_s},
        "watch": {"kind": "fixed", "s": resolved.video.length_s},
        "patience": {"kind": "fixed", "s": resolved.patience_s},
        "reconnect": None,
        "allocation": {
            "rows": [{"concurrent": 1, "stages": [{"name": "allocation", "time": took}]}]
        },
        "release": {"kind": "fixed", "s": fitted.released_s},
        "failures": {},
        "window_s": window_ns(resolved) / 1e9,
        "points": 0,
        "records": False,
    }


def _drawn(setting: Setting, fitted: NodeTimes, number: int, seed: int) -> list[float]:
    """A time for each node that may be wanted: one that was seen, held back as the plan says."""
    allocation = setting.allocation
    hold = Hold(
        setting.boot_delay_s,
        None if allocation is None else allocation.mean_s,
        0.0 if allocation is None else allocation.deviation_s,
        f"prediction:{seed}",
    )
    random = Random(seed)
    own_s = (random.choice(fitted.made_s) for _ in range(number))
    return [hold.until_ns(node, 0, round(s * 1e9)) / 1e9 for node, s in enumerate(own_s)]
