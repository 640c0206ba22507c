"""Doubts about the run as a whole, and about the absolute values of its cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ullage.analysis.comparison.model import Comparison, Doubt, apart
from ullage.analysis.comparison.rounding import share
from ullage.analysis.comparison.words import NO_FIGURES, ratio_words
from ullage.analysis.doubts import machine
from ullage.common.quantities import many
from ullage.runs.events import HOST_SHARED, Trial
from ullage.runs.reader import RunFolder, typed
from ullage.stats import Floats, series_checks
from ullage.stats.series_checks import drift
from ullage.stats.uncertainty import dithered, quantum

ALPHA = 0.01
"""Chance that a run has one of the two doubts about absolute values without any reason."""
OTHERS = 0.05
"""Share of CPU time used by others, above which we say so."""
WAITED_MEMORY = 0.05
"""Share of the time in which some task waited for memory, above which we say so."""
FASTER = 0.02
"""Part by which the frequency may change in the course of a run."""


def of_run(folder: RunFolder, again: Sequence[Comparison]) -> tuple[Doubt, ...]:
    """Doubts about the run as a whole."""
    doubts = [
        _not_finished(folder),
        _no_again(again),
        _shared(folder),
        _emulated_host(folder),
        _steal(folder.trials),
        _frequency(folder),
        _throttled(folder),
        _memory(folder.trials),
        _co_tenant(folder.trials),
        _link_down(folder.trials),
        _never_swapped(folder.trials),
        *_values(folder),
        *_again_differs(again),
    ]
    return tuple(doubt for doubt in doubts if doubt is not None)


def _not_finished(folder: RunFolder) -> Doubt | None:
    if folder.finished is not None:
        return None
    return Doubt(
        code="not-finished",
        message="The run has not ended in order; what it has is shown.",
        advice=f"Take it up: `ullage run --resume {typed(folder.path)}`.",
    )


def _no_again(again: Sequence[Comparison]) -> Doubt | None:
    if any(c.interval for c in again):
        return None
    if again:
        return Doubt(
            code="no-again",
            message="No A/A comparison has an interval: the noise floor is unknown.",
            advice=NO_FIGURES,
        )
    return Doubt(
        code="no-again",
        message="There is no A/A comparison: the noise floor is unknown.",
        advice="Leave the second copy of the baseline in the plan.",
    )


def _shared(folder: RunFolder) -> Doubt | None:
    if not any(warned.code == HOST_SHARED for warned in folder.warnings):
        return None
    return Doubt(
        code=HOST_SHARED,
        message="Another run worked on this host at the same time.",
        advice="Run it again, one at a time.",
    )


def _emulated_host(folder: RunFolder) -> Doubt | None:
    """QEMU says so in the name of its CPU, unless it was told to play another."""
    model = str(folder.resolved.host.get("cpu_model") or "")
    if "TCG" not in model:
        return None
    return Doubt(
        code="host-emulated",
        message=f"This host is itself emulated (its CPU is called {model}): every instruction of "
        "native, of containers and of VMs under KVM is.",
        advice="What is costly there is not what is costly on a real CPU, so neither ratios nor "
        "absolute values carry over. Run the plan on a machine with a CPU of its own.",
    )


def _steal(trials: Sequence[Trial]) -> Doubt | None:
    steal = machine.readings(trials, "host", "steal")
    if not steal or float(np.mean(steal)) <= machine.STEAL:
        return None
    return Doubt(
        code="steal",
        message=f"The hypervisor under this host took {share(float(np.mean(steal)))} of "
        "the CPU time during the trials.",
        advice="Pairs share most of it, so ratios suffer less than absolute values; those hold for "
        "this hour only. Use a host of your own, or a quieter hour.",
    )


def _frequency(folder: RunFolder) -> Doubt | None:
    """First quarter of the run against its last, if there is a trend at the level of 1 %."""
    readings = [
        (t.epoch_ns, t.meters["cpu"]["frequency"]) for t in folder.trials if _has_frequency(t)
    ]
    if len(readings) < 12:
        return None
    times, speeds = (np.array(column) for column in zip(*readings, strict=True))
    quarter = len(readings) // 4
    first, last = float(speeds[:quarter].mean()), float(speeds[-quarter:].mean())
    if abs(last / first - 1) <= FASTER or drift(times, speeds).p_value > ALPHA:
        return None
    governor, turbo_off = machine.power(folder.resolved.host)
    return Doubt(
        code="frequency",
        message=f"The CPUs ran at {first / 1e9:.2f} GHz in the first quarter of the run, and at "
        f"{last / 1e9:.2f} GHz in the last.",
        advice="Pairs share it, so ratios hold; absolute values are means over both. Before the "
        f"next run let the machine warm up, or {machine.steadier(governor, turbo_off=turbo_off)}",
    )


def _has_frequency(trial: Trial) -> bool:
    return "frequency" in trial.meters.get("cpu", {})


def _throttled(folder: RunFolder) -> Doubt | None:
    counts = machine.readings(folder.trials, "cpu", "throttled")
    slow = sum(x > 0 for x in counts)
    if not slow:
        return None
    _, turbo_off = machine.power(folder.resolved.host)
    return Doubt(
        code="throttled",
        message=f"Heat slowed the CPU down in {slow} of {len(counts)} trials.",
        advice="Absolute values are those of a hot machine. Ratios hold where both sides of a pair "
        "were slowed down alike; where not it is said there. "
        f"{machine.cooler(turbo_off=turbo_off)}.",
    )


def _memory(trials: Sequence[Trial]) -> Doubt | None:
    cell, waited = _most(trials, lambda t: t.host.get("psi_memory"))
    if waited <= WAITED_MEMORY:
        return None
    return Doubt(
        code="pressure",
        message=f"Some task waited for memory in {share(waited)} of the time of {cell}.",
        advice="The host, or the limit of an instance, had too little: these figures are those of "
        "swapping and reclaiming. Give more `resources: memory`, or run less at once.",
    )


def _co_tenant(trials: Sequence[Trial]) -> Doubt | None:
    cell, used = _most(trials, machine.others)
    if used <= OTHERS:
        return None
    return Doubt(
        code="co-tenant",
        message=f"Others used {share(used)} of all CPU time during {cell}.",
        advice="All programs of the host but the trial's, and the kernel's helpers for it. What "
        "runs on another CPU costs little, what shares caches or the disk costs more; ratios "
        "suffer less than absolute values. Run again on a quiet host.",
    )


def _link_down(trials: Sequence[Trial]) -> Doubt | None:
    """Of a link that is several cables, some were not there, or went in the meantime."""
    broken = [
        trial
        for trial in trials
        if (seen := trial.meters.get("links", {})) and (seen["down"] or seen["failures"])
    ]
    if not broken:
        return None
    cells = dict.fromkeys(f"{trial.workload} in {trial.environment}" for trial in broken)
    return Doubt(
        code="link-down",
        message=f"A cable of an instance's link was down in {many(len(broken), 'trial')}, of "
        f"{', '.join(list(cells)[:3])}{' and others' if len(cells) > 3 else ''}: the traffic went "
        "by those that were left.",
        advice="These figures are of fewer cables than the plan has. The trials' meter `links` says"
        " which; mend the link, and run again.",
    )


def _never_swapped(trials: Sequence[Trial]) -> Doubt | None:
    """Of VMs that the plan has swapped; by what moved, where the kernel tells that."""
    readings = [(trial, trial.meters.get("swap", {})) for trial in trials]
    idle = [trial for trial, swap in readings if swap.get("still", swap.get("without"))]
    if not idle:
        return None
    cells = dict.fromkeys(f"{trial.workload} in {trial.environment}" for trial in idle)
    return Doubt(
        code="never-swapped",
        message=f"The host was not seen to swap any of a VM in {many(len(idle), 'trial')}, of "
        f"{', '.join(list(cells)[:3])}{' and others' if len(cells) > 3 else ''}.",
        advice="These figures may be of a VM that has room: what is in swap may be of its boot, and"
        " nobody asked for it. Give it less `resident`, or its work more memory.",
    )


def _most(trials: Sequence[Trial], reading: Callable[[Trial], float | None]) -> tuple[str, float]:
    """The cell with the largest mean of a reading, and that mean; 0 where nobody told."""
    cells: dict[str, list[float]] = {}
    for trial in trials:
        value = reading(trial)
        if value is not None:
            cells.setdefault(f"{trial.workload} in {trial.environment}", []).append(value)
    means = {cell: float(np.mean(values)) for cell, values in cells.items()}
    return max(means.items(), key=lambda pair: pair[1], default=("", 0.0))


@dataclass(frozen=True)
class _Anomaly:
    """One series of absolute values that is not of one kind."""

    name: str
    p_value: float
    words: str


def _values(folder: RunFolder) -> Iterator[Doubt]:
    """Absolute values that begin otherwise than they go on, or stand in two groups.

    All cells and metrics are one family (Bonferroni). The ratios of a pair need not show it: what
    both sides share goes out of them, and where it does not the comparison has its own doubt.
    """
    series = list(_series(folder))
    level = ALPHA / 2 / max(1, len(series))
    cold = [_cold(name, x) for name, x in series if x.size >= series_checks.WARM_UP_LEAST]
    if anomalies := [anomaly for anomaly in cold if anomaly.p_value <= level]:
        yield Doubt(
            code="warm-up",
            message="Absolute values begin otherwise than they go on in "
            f"{_named(anomalies, series)}.",
            advice="Ratios compare trials of one block, and say for themselves if they differ too. "
            "Means of absolute values hold the first ones: read the median. For the next run let "
            "the machine work for a while first.",
        )
    split = [_split(name, x) for name, x in series if x.size >= series_checks.DIP_LEAST]
    if anomalies := [anomaly for anomaly in split if anomaly.p_value <= level]:
        yield Doubt(
            code="bimodal",
            message=f"Absolute values stand in two groups in {_named(anomalies, series)}.",
            advice="The machine was in two states. Ratios compare trials of one block, and say for "
            "themselves if they differ too. A mean of absolute values lies where few trials do: "
            "look at the points.",
        )


def _series(folder: RunFolder) -> Iterator[tuple[str, Floats]]:
    """Logarithms of each metric of each cell in the order of time, rounding undone by chance."""
    cells: dict[tuple[str, str, str], list[float]] = {}
    for trial in sorted(folder.trials, key=lambda t: (t.block, t.order)):
        for name, value in trial.metrics.items() if trial.status == "ok" else ():
            if not isinstance(value, list):
                cells.setdefault((trial.environment, trial.workload, name), []).append(value)
    for (environment, workload, name), values in cells.items():
        if len(values) >= series_checks.DIP_LEAST and min(values) > 0:
            x = dithered(values, quantum(values), folder.resolved.seed)
            yield f"{name} of {workload} in {environment}", np.log(x)


def _cold(name: str, x: Floats) -> _Anomaly:
    start = series_checks.warm_up(x)
    trials = "first trial" if start.first == 1 else f"first {start.first} trials"
    return _Anomaly(name, start.p_value, f"{trials} × {math.exp(start.distance):.3g}")


def _split(name: str, x: Floats) -> _Anomaly:
    groups = series_checks.two_groups(x)
    apart = math.exp(groups.high - groups.low)
    return _Anomaly(name, groups.p_value, f"{share(1 - groups.below)} of them × {apart:.3g}")


def _named(anomalies: Sequence[_Anomaly], series: Sequence[object]) -> str:
    clearest = min(anomalies, key=lambda anomaly: anomaly.p_value)
    return (
        f"{len(anomalies)} of {len(series)} series; most clearly {clearest.name} ({clearest.words})"
    )


def _again_differs(again: Sequence[Comparison]) -> list[Doubt]:
    again_doubts = []
    for c in apart(again):
        assert c.interval is not None
        again_doubts.append(
            Doubt(
                code="again-differs",
                message=f"{c.baseline_label} differs from its own second copy in "
                f"{c.workload_title}: {ratio_words(c.interval)}, by more than chance "
                "lets one of all A/A comparisons of a run differ.",
                advice="If it comes back in another run, something prefers one copy: "
                "its CPU, its place on the disk, its place in the block.",
            )
        )
    return again_doubts
