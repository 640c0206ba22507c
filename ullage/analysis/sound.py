"""What a run folder may hold and an analysis must not use: refused before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable

from ullage.errors import RUN_BAD_FORMAT, UllageError
from ullage.events import Trial
from ullage.folder import RunFolder
from ullage.runs import FORMAT

SMALLEST, LARGEST = 1e-75, 1e75
"""No figure in SI units but 0 lies outside; ratios of what lies inside have intervals that are
numbers."""


def check(folder: RunFolder) -> None:
    """Raise RUN_BAD_FORMAT for figures that cannot be measured: no numbers, or absurd ones."""
    for trial in folder.trials:
        for name in trial.metrics:
            if not all(map(_measurable, _figures(trial, name))):
                reason = f"trial {trial.trial}: {name!a} is not a number that can be measured"
                raise UllageError(RUN_BAD_FORMAT, path=folder.path, format=FORMAT, reason=reason)


def _measurable(figure: float) -> bool:
    return figure == 0 or SMALLEST <= abs(figure) <= LARGEST


def _figures(trial: Trial, name: str) -> Iterable[float]:
    found = trial.metrics[name]
    return [part for point in found for part in point] if isinstance(found, list) else [found]
