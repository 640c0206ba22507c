"""What to know of the energies of a run: what is missing, and why a meter is hard to believe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from ullage.analysis.comparison.energy_model import EnergyNote
from ullage.analysis.energy.integral import Missing
from ullage.analysis.energy.trials import SHARED, MeteredSource, TrialEnergy
from ullage.common.text import clean
from ullage.runs.reader import RunFolder
from ullage.stats.uncertainty import rectangular

UNSTATED: Final = 0.05
"""Relative half width that two meters may be apart when a maker states no accuracy."""
_K: Final = 2.0
_NAMED: Final = 5
"""Trials that a note names."""
_PARTS: Final = ("package", "memory")
"""Scopes of what stands behind the plug, which all together take less than the wall."""
_ADVICE: Final[dict[str, str]] = {
    "meter-stuck": "see that the meter measures, and does not repeat what it once knew",
    "meter-jump": "see the readings in meters/; the energies of trials around it are unsure",
    "meter-slow": "its own pace is in the uncertainty; trials that are as short say little",
}


def of(folder: RunFolder, sources: Sequence[MeteredSource]) -> tuple[EnergyNote, ...]:
    """All of them, in the order of the meters."""
    labels = {metered.source.label for metered in sources}
    absent = [meter for meter in folder.resolved.energy_meters if meter.label not in labels]
    return (
        *(_absent(meter.label, meter.meter) for meter in absent),
        *(
            note
            for metered in sources
            for note in (*_of_a_guest(metered), *_missing(metered), *_series(metered))
        ),
        *_disagreements(sources),
    )


def _absent(label: str, meter: str) -> EnergyNote:
    return EnergyNote(
        code="meter-absent",
        label=label,
        message=f"the meter {label} ({meter}) gave no readings in this run",
        advice="`ullage meter list` says what it lacks",
    )


def _of_a_guest(metered: MeteredSource) -> Iterator[EnergyNote]:
    """Of one guest nobody said which environment it is: its figures stand beside all of them."""
    if metered.source.scope == "guest" and metered.series:
        channels = (series.channel for series in metered.series)
        channel_names = clean("; ".join(dict.fromkeys(c.source or c.name for c in channels)), 200)
        yield EnergyNote(
            code="energy-of-a-guest",
            label=metered.source.label,
            message=f"{called(metered)} tells of one guest or process ({channel_names}), and of no "
            "environment: its figures stand beside each of them, whoever worked",
            advice="they are those of the trials only where ullage itself runs inside that guest; "
            "for environments take a meter of the package or the wall",
        )


def _missing(metered: MeteredSource) -> Iterator[EnergyNote]:
    """One for each reason."""
    reasons: dict[str, list[tuple[str, Missing]]] = {}
    for trial, energy in metered.trials.items():
        if isinstance(energy, Missing):
            reasons.setdefault(energy.code, []).append((trial, energy))
    total = len(metered.trials)
    for code, lacking in reasons.items():
        if code == SHARED:
            yield EnergyNote(
                code="energy-shared",
                label=metered.source.label,
                message=f"{called(metered)}: no trial of a duet has an energy of its own, for two "
                "run on the machine at the same time",
                advice="`design: solo` has one trial at a time",
            )
            continue
        names = ", ".join(trial for trial, _ in lacking[:_NAMED])
        more = f" and {len(lacking) - _NAMED:,} more" if len(lacking) > _NAMED else ""
        why = clean(lacking[0][1].message, 200)
        yield EnergyNote(
            code="energy-missing",
            label=metered.source.label,
            message=f"{called(metered)}: {len(lacking):,} of {total:,} trials have no energy "
            f"({clean(code, 40)}: {why}): {names}{more}",
            advice="their other figures stand; see that the meter answers during the whole run",
        )


def _series(metered: MeteredSource) -> Iterator[EnergyNote]:
    """What is strange in the readings, each thing once."""
    doubts = dict.fromkeys(
        (doubt.code, doubt.message) for s in metered.series for doubt in s.doubts
    )
    for code, message in doubts:
        yield EnergyNote(
            code=code,
            label=metered.source.label,
            message=f"{called(metered)}: {clean(message, 200)}",
            advice=_ADVICE[code],
        )


def called(metered: MeteredSource) -> str:
    """`wall (nut)`."""
    return clean(f"{metered.source.label} ({metered.source.meter})", 80)


def _disagreements(sources: Sequence[MeteredSource]) -> Iterator[EnergyNote]:
    measured = [metered for metered in sources if metered.source.method == "measured"]
    for first, second in combinations(measured, 2):
        same = first.source.scope == second.source.scope
        if same and (apart := _apart([first], [second])) is not None and abs(apart[0]) > apart[1]:
            yield _disagree(first, second, f"{_times(apart[0])} what {called(second)} shows")
    for wall in measured:
        if wall.source.scope != "wall":
            continue
        for label in sorted({metered.source.label for metered in measured} - {wall.source.label}):
            parts = [
                metered
                for metered in measured
                if metered.source.label == label and metered.source.scope in _PARTS
            ]
            apart = _apart(parts, [wall]) if parts else None
            if apart is not None and apart[0] > apart[1]:
                words = f"{_times(apart[0])} what {called(wall)} shows at the wall"
                yield _disagree(parts[0], wall, words)


def _times(log_ratio: float) -> str:
    return f"{math.exp(log_ratio):.3g} times"


def _disagree(first: MeteredSource, second: MeteredSource, words: str) -> EnergyNote:
    return EnergyNote(
        code="meters-disagree",
        label=first.source.label,
        message=f"{called(first)} shows {words}, more apart than their uncertainties allow",
        advice=f"check {clean(first.source.label, 40)} and {clean(second.source.label, 40)} "
        "against a known load; ratios by one meter are surer than joules",
    )


def _apart(
    some: Sequence[MeteredSource], others: Sequence[MeteredSource]
) -> tuple[float, float] | None:
    """Mean log-ratio of the energies of trials that all have, and its expanded uncertainty.

    Sampling errors are another in each trial; accuracy and resolution are the same in all.
    """
    rows = []
    for trial in some[0].trials:
        energies = [[metered.trials.get(trial) for metered in side] for side in (some, others)]
        sides = [[e for e in side if isinstance(e, TrialEnergy)] for side in energies]
        if len(sides[0]) == len(some) and len(sides[1]) == len(others):
            rows.append([_sum(side) for side in sides])
    if not rows:
        return None
    mine, theirs = np.array(rows).transpose(1, 2, 0)
    log_ratios = np.log(mine[0] / theirs[0])
    random = float(np.linalg.norm(np.hypot(mine[1], theirs[1]))) / log_ratios.size
    alike = float(np.median(np.hypot(mine[2], theirs[2])))
    unstated = sum(side[0].unstated for side in (some, others))
    unknown = math.sqrt(unstated) * rectangular(UNSTATED)
    return float(log_ratios.mean()), _K * math.hypot(random, alike, unknown)


def _sum(side: Sequence[TrialEnergy]) -> tuple[float, float, float]:
    """Energy, and its uncertainties relative to it: of the sampling, and of all else."""
    joules = sum(energy.joules for energy in side)
    alike = math.hypot(
        sum(energy.u_accuracy for energy in side), *(energy.u_resolution for energy in side)
    )
    return joules, sum(energy.u_sampling for energy in side) / joules, alike / joules
