"""What a tuning found: each setting's effect, those that work together, and what to change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ullage.common.errors import TUNE_TOO_FEW, UllageError
from ullage.experiments.tuning import screening
from ullage.experiments.tuning.plan import names
from ullage.experiments.tuning.screening import SettingEffect
from ullage.experiments.tuning.settings import TuneSetting
from ullage.runs.reader import RunFolder
from ullage.runs.records import Metric
from ullage.stats import Floats
from ullage.stats.interval import log_ratio

LEAST_BLOCKS = 2


@dataclass(frozen=True)
class TuneOutcome:
    """Of one workload's primary metric."""

    settings: tuple[TuneSetting, ...]
    metric: str
    effects: tuple[SettingEffect, ...]
    """One of each setting, in their order."""
    joint: tuple[SettingEffect, ...]
    """Of pairs: those that are not chance."""
    blocks: int
    """Whole ones: they alone count."""
    left_out: int
    """Blocks in which a trial had no figure."""
    confidence: float

    @property
    def proven(self) -> list[TuneSetting]:
        """Better when changed: the interval, widened for all of them, lies below 1."""
        return [self.settings[e.settings[0][0]] for e in self.effects if e.high < 1]

    @property
    def better(self) -> list[TuneSetting]:
        """Better when changed as far as these blocks tell, those too that chance may have made so.

        What is nothing may stand here; what helps is missing less often than among the proven.
        """
        return [self.settings[e.settings[0][0]] for e in self.effects if e.ratio < 1]


def outcome(folder: RunFolder, settings: Sequence[TuneSetting]) -> TuneOutcome:
    """Of a run of their design. TUNE_TOO_FEW with fewer than two whole blocks."""
    (workload,) = folder.resolved.workloads
    metric = next(metric for metric in workload.metrics if metric.primary)
    table, blocks = _figures(folder, names(settings), metric)
    whole = np.isfinite(table).all(axis=1)
    if whole.sum() < LEAST_BLOCKS:
        raise UllageError(
            TUNE_TOO_FEW,
            whole=int(whole.sum()),
            blocks=blocks,
            reason=_first_reason(folder),
            folder=folder.path,
        )
    confidence = folder.resolved.confidence
    single, joint = screening.effects(table[whole], len(settings), confidence)
    return TuneOutcome(
        settings=tuple(settings),
        metric=metric.name,
        effects=tuple(single),
        joint=tuple(effect for effect in joint if effect.p <= 1 - confidence),
        blocks=int(whole.sum()),
        left_out=blocks - int(whole.sum()),
        confidence=confidence,
    )


def _figures(folder: RunFolder, runs: Sequence[str], metric: Metric) -> tuple[Floats, int]:
    """Blocks × runs: log figures, above is worse; NaN where a trial has none."""
    blocks = sorted({trial.block for trial in folder.trials})
    table = np.full((len(blocks), len(runs)), math.nan)
    column = {name: at for at, name in enumerate(runs)}
    for trial in folder.trials:
        value = trial.metrics.get(metric.name)
        if trial.status != "ok" or trial.environment not in column:
            continue
        if isinstance(value, float | int) and 0 < value < math.inf:
            row = blocks.index(trial.block)
            table[row, column[trial.environment]] = log_ratio(float(value), 1.0, metric.better)
    return table, len(blocks)


def _first_reason(folder: RunFolder) -> str:
    reasons = [trial.reason.message for trial in folder.trials if trial.reason]
    return reasons[0] if reasons else "it ended before"
