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
class TrialFacts:
    """The facts of the trials of one environment with one workload, made harmless."""

    label: str
    """The environment's."""
    facts: tuple[tuple[str, str], ...]
    """Name → value, or what the trials differ in."""


def trial_facts(folder: RunFolder, workload: str) -> list[TrialFacts]:
    """Of each environment whose trials of this workload have facts, in the plan's order."""
    by_environment: dict[str, dict[str, Counter[str]]] = {}
    for trial in folder.trials:
        if trial.workload == workload and trial.status == "ok":
            counts = by_environment.setdefault(trial.environment, {})
            for name, value in trial.facts.items():
                counts.setdefault(name, Counter())[str(value)] += 1
    return [
        TrialFacts(
            clean(environment.label, _NAME),
            tuple((clean(name, _NAME), _words(values)) for name, values in facts.items()),
        )
        for environment in folder.resolved.environments
        if (facts := by_environment.get(environment.key))
    ]


def _words(values: Counter[str]) -> str:
    """The value, or each with the number of its trials."""
    if len(values) == 1:
        return clean(next(iter(values)), _VALUE)
    common = values.most_common(MOST_VALUES)
    parts = [f"{clean(value, _VALUE)} ({count} of {values.total()})" for value, count in common]
    others = len(values) - len(common)
    return "; ".join([*parts, *([f"{others} more that differ"] if others else [])])


def lines(folder: RunFolder) -> list[str]:
    """All of them, for the terminal."""
    text = []
    for workload in folder.resolved.workloads:
        title = clean(workload.title, _NAME * 2)
        for of_trials in trial_facts(folder, workload.key):
            text += ["", f"{title}, {of_trials.label}: told by its trials"]
            text += [f"  {name}: {value}" for name, value in of_trials.facts]
    return text
