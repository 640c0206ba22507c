"""What the trials of a run tell beside their figures: versions, settings, what was the limit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from ullage.common.text import clean
from ullage.runs.reader import RunFolder

MOST_VALUES: Final = 3
"""Of one fact: the most frequent, where the trials differ."""
_NAME: Final = 60
_VALUE: Final = 400


@dataclass(frozen=True)
class Told:
    """The facts of the trials of one environment with one workload, made harmless."""

    label: str
    """The environment's."""
    facts: tuple[tuple[str, str], ...]
    """Name → value, or what the trials differ in."""


def told(folder: RunFolder, workload: str) -> list[Told]:
    """Of each environment whose trials of this workload have facts, in the plan's order."""
    seen: dict[str, dict[str, Counter[str]]] = {}
    for trial in folder.trials:
        if trial.workload == workload and trial.status == "ok":
            mine = seen.setdefault(trial.environment, {})
            for name, value in trial.facts.items():
                mine.setdefault(name, Counter())[str(value)] += 1
    return [
        Told(
            clean(environment.label, _NAME),
            tuple((clean(name, _NAME), _words(found)) for name, found in facts.items()),
        )
        for environment in folder.resolved.environments
        if (facts := seen.get(environment.key))
    ]


def _words(found: Counter[str]) -> str:
    """The value, or each with the number of its trials."""
    if len(found) == 1:
        return clean(next(iter(found)), _VALUE)
    shown = found.most_common(MOST_VALUES)
    parts = [f"{clean(value, _VALUE)} ({count} of {found.total()})" for value, count in shown]
    rest = len(found) - len(shown)
    return "; ".join([*parts, *([f"{rest} more that differ"] if rest else [])])


def lines(folder: RunFolder) -> list[str]:
    """All of them, for the terminal."""
    found = []
    for workload in folder.resolved.workloads:
        for one in told(folder, workload.key):
            found += ["", f"{clean(workload.title, _NAME * 2)}, {one.label}: told by its trials"]
            found += [f"  {name}: {value}" for name, value in one.facts]
    return found
