"""The pairs of a run as its stop rule sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from ullage.runs.events import Trial
from ullage.runs.pairs import PairsSoFar
from ullage.runs.records import Metric


def log_ratios_so_far(
    trials: Iterable[Trial],
    baseline: str,
    environments: Sequence[str],
    metrics: Mapping[str, Sequence[Metric]],
) -> dict[str, list[float]]:
    """After the last block."""
    pairs = PairsSoFar(baseline, environments, metrics)
    for _, of_block in groupby(sorted(trials, key=lambda t: t.block), key=lambda t: t.block):
        pairs.add(of_block)
    return {key: list(units) for key, units in pairs.log_ratios().items()}
