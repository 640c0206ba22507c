"""What does a command wait for? The weights, from the run in which it was slowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ullage.analysis.comparison.pairing import by_cell
from ullage.analysis.profiles.model import (
    COMMAND,
    PROBE,
    UNDISTURBED,
    LinearEstimate,
    Profile,
    Slowdown,
    Survey,
    Weight,
)
from ullage.analysis.profiles.solution import Estimates, LogSlowdowns, interval, not_slowed, solve
from ullage.common.errors import PROFILE_NO_FIGURE, PROFILE_NOTHING, UllageError
from ullage.runs.pairs import Cells, pair
from ullage.runs.reader import RunFolder
from ullage.runs.records import Resource
from ullage.stats import Floats
from ullage.stats.verdict import MOST_FAILURES

LEAST_BLOCKS: Final = 2


def profile(folder: RunFolder, survey: Survey) -> Profile:
    """The weights of the command of a run in which it was slowed.

    PROFILE_NO_FIGURE where too many trials failed, too few blocks are whole, or a hindrance is lost
    in the noise: what the command waits for there would pass for something that nothing slows. Only
    memory may be: its part is then in that of the CPU, whose quota slows it as well.
    PROFILE_NOTHING where no hindrance slowed anything.
    """
    confidence = folder.resolved.confidence
    hindrances = _hindrances(folder)
    _check_failures(folder)
    columns = _columns(folder, hindrances)
    blocks = sorted(set.intersection(*(set(column) for column in columns.values())))
    if len(blocks) < LEAST_BLOCKS:
        raise _no_figure(folder, f"{len(blocks)} blocks are whole, {LEAST_BLOCKS} are needed")
    every = _measured(columns, hindrances, blocks)
    weak = not_slowed(every, confidence)
    absent = dict(survey.absent) | {
        resource: f"what should slow it makes its probe {ratio:.2f} times as slow ({low:.2f} to "
        f"{high:.2f}), which is not surely slower: try more blocks, in a quieter hour"
        for resource, (ratio, low, high) in weak.items()
    }
    lost = [f"{resource}: {absent[resource]}" for resource in weak if resource != "memory"]
    if lost and len(weak) < len(hindrances):
        raise _no_figure(folder, "; ".join(lost))
    slowed = [resource for resource in hindrances if resource not in weak]
    if not slowed:
        reasons = "; ".join(f"{resource}: {why}" for resource, why in absent.items())
        raise UllageError(PROFILE_NOTHING, reasons=reasons)
    estimates = solve(every.only(slowed), confidence)
    survey = survey.model_copy(update={"absent": absent})
    return _profile(folder, survey, estimates, every)


def _profile(
    folder: RunFolder, survey: Survey, estimates: Estimates, measured: LogSlowdowns
) -> Profile:
    confidence, blocks = folder.resolved.confidence, measured.blocks
    total = float(estimates.shares.sum())
    half = estimates.half(np.ones(len(estimates.groups)), confidence)
    by = max(1.0, total)
    weights = _weights(estimates, by, confidence)
    unused = _unused(survey)
    bursts = in_bursts(survey, weights, total)
    unexplained = 1 - total - bursts
    return Profile(
        survey=survey,
        folder=str(folder.path),
        confidence=confidence,
        blocks=blocks,
        dropped=len({trial.block for trial in folder.trials}) - blocks,
        weights=(*(_more(w, bursts) if "cpu" in w.resources else w for w in weights), *unused),
        rest=_inside(unexplained, 1 - float(estimates.raw.sum()) - bursts / 2, half + bursts / 2),
        total=LinearEstimate(estimate=total, low=total - half, high=total + half),
        normalised=total > 1,
        bursts=bursts,
        covariance=_padded(estimates.covariance / by**2, len(survey.unused)),
        merged=estimates.merged,
        slowdowns=tuple(_slowdowns(measured, confidence)),
    )


def _weights(estimates: Estimates, by: float, confidence: float) -> list[Weight]:
    """Their intervals are those of the solution without a constraint, as far as they are shares.

    by: what all are divided by, so that they are no more than 1 together.
    """
    halves = estimates.halves(confidence)
    return [
        Weight(
            resources=group,
            share=_inside(float(share) / by, float(raw) / by, float(half) / by),
            unclipped=LinearEstimate(estimate=raw, low=raw - half, high=raw + half),
        )
        for group, share, raw, half in zip(
            estimates.groups, estimates.shares, estimates.raw, halves, strict=True
        )
    ]


def in_bursts(survey: Survey, weights: Sequence[Weight], total: float) -> float:
    """The part of the time in which it had a CPU although no slow-down of a resource explains it.

    A quota lets through what is done in bursts shorter than its period, if the waits between them
    are long enough: during these the group gets new time. The CPU does such work all the
    same. What overlaps with waits (another process computes meanwhile) is not: it is explained.
    """
    if survey.cpu_seconds is None or not any("cpu" in w.resources for w in weights):
        return 0.0
    used = min(1.0, survey.cpu_seconds / survey.seconds / survey.cpus)
    explained = sum(w.share.estimate for w in weights if {"cpu", "memory"} & set(w.resources))
    return max(0.0, min(used - explained, 1 - total))


def _more(weight: Weight, bursts: float) -> Weight:
    """With that in it; how much of it is there is not sure."""
    share = weight.share
    more = LinearEstimate(
        estimate=share.estimate + bursts,
        low=share.low,
        high=min(1.0, share.high + bursts),
    )
    return weight.model_copy(update={"share": more})


def _unused(survey: Survey) -> list[Weight]:
    nothing = LinearEstimate(estimate=0.0, low=0.0, high=0.0)
    return [
        Weight(resources=(resource,), share=nothing, unclipped=nothing)
        for resource in survey.unused
    ]


def _padded(covariance: Floats, more: int) -> tuple[tuple[float, ...], ...]:
    """With rows and columns of nothing for what is not used."""
    return tuple(tuple(map(float, row)) for row in np.pad(covariance, (0, more)))


def _inside(estimate: float, middle: float, half: float) -> LinearEstimate:
    """The part of an interval that lies within 0 and 1, with the estimate in it."""
    at = min(1.0, max(0.0, estimate))
    low, high = (min(1.0, max(0.0, middle + side)) for side in (-half, half))
    return LinearEstimate(estimate=at, low=min(at, low), high=max(at, high))


def _hindrances(folder: RunFolder) -> list[Resource]:
    """The resources that were slowed, in the order of the run."""
    probed = {w.key: w.resource for w in folder.resolved.workloads if w.key.startswith(PROBE)}
    keys = {environment.key for environment in folder.resolved.environments}
    return [resource for resource in probed.values() if resource in keys]


def _check_failures(folder: RunFolder) -> None:
    for (environment, workload), trials in by_cell(folder.trials).items():
        failed = [trial for trial in trials if trial.status != "ok"]
        if len(failed) > MOST_FAILURES * len(trials):
            why = failed[0].reason.message if failed[0].reason else "no reason"
            raise _no_figure(
                folder,
                f"{len(failed)} of {len(trials)} trials of the {workload} failed with "
                f"{environment} slowed: {why}"
                if environment != UNDISTURBED
                else f"{len(failed)} of {len(trials)} trials of the {workload} failed: {why}",
            )


def _columns(
    folder: RunFolder, hindrances: Sequence[Resource]
) -> dict[tuple[str, str], dict[int, float]]:
    """(Hindrance, workload) → block → log of the slow-down."""
    cells = Cells(folder.trials)
    keys = [COMMAND, *(PROBE + resource for resource in hindrances)]
    works = [w for w in folder.resolved.workloads if w.key in keys]
    log_slowdowns: dict[tuple[str, str], dict[int, float]] = {}
    for hindrance in hindrances:
        for work in works:
            metric = next(m for m in work.metrics if m.primary)
            paired = pair(
                cells.series(hindrance, work.key), cells.series(UNDISTURBED, work.key), metric
            )
            log_slowdowns[hindrance, work.key] = {p.block: p.log_ratio for p in paired.pairs}
    return log_slowdowns


def _measured(
    columns: Mapping[tuple[str, str], Mapping[int, float]],
    hindrances: Sequence[Resource],
    blocks: Sequence[int],
) -> LogSlowdowns:
    def column(hindrance: Resource, key: str) -> list[float]:
        return [columns[hindrance, key][block] for block in blocks]

    command = [column(h, COMMAND) for h in hindrances]
    probes = [[column(h, PROBE + q) for q in hindrances] for h in hindrances]
    return LogSlowdowns(tuple(hindrances), np.array(command).T, np.moveaxis(np.array(probes), 2, 0))


def _slowdowns(measured: LogSlowdowns, confidence: float) -> list[Slowdown]:
    def span(logs: Floats) -> LinearEstimate:
        ratio, low, high = interval(logs, confidence)
        return LinearEstimate(estimate=ratio, low=low, high=high)

    slowdowns = []
    for h, hindrance in enumerate(measured.resources):
        slowdowns.append(Slowdown(hindrance=hindrance, of=None, ratio=span(measured.command[:, h])))
        slowdowns += [
            Slowdown(hindrance=hindrance, of=of, ratio=span(measured.probes[:, h, q]))
            for q, of in enumerate(measured.resources)
        ]
    return slowdowns


def _no_figure(folder: RunFolder, reason: str) -> UllageError:
    return UllageError(PROFILE_NO_FIGURE, folder=folder.path, reason=reason)
