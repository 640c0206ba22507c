"""Pairs that are collected block by block are those of all blocks at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, WORKLOADS, make_run
from tests.support.pairskit import log_ratios_so_far
from ullage.runs import pairs as module
from ullage.runs.events import Trial
from ullage.runs.pairs import Cells, Paired, PairsSoFar, comparison_key, pair
from ullage.runs.reader import RunFolder
from ullage.runs.records import Metric
from ullage.stats.interval import collapse

COMPARED = [e.key for e in ENVIRONMENTS[1:] if e.again_of is None]
METRICS = {work.key: work.metrics for work in (*WORKLOADS, CURVE_WORKLOAD)}


@pytest.mark.parametrize("making", [None, 2])
def test_they_are_those_of_all_blocks_at_once(tmp_path: Path, making: int | None) -> None:
    works = (*WORKLOADS, CURVE_WORKLOAD)
    folder = RunFolder.open(
        make_run(tmp_path / "run", blocks=8, workloads=works, blocks_each=making)
    )
    baseline = folder.resolved.baseline
    cells = Cells(folder.trials)
    whole = {}
    for environment in COMPARED:
        for work in works:
            mine = cells.series(environment, work.key)
            theirs = cells.series(baseline, work.key, environment)
            for metric in work.metrics:
                if metric.primary:
                    paired = pair(mine, theirs, metric)
                    key = comparison_key(environment, work.key, metric.name)
                    whole[key] = list(collapse(paired.log_ratios, paired.generations))
    assert any(whole.values())
    so_far = log_ratios_so_far(folder.trials, baseline, COMPARED, METRICS)
    assert so_far == {key: pytest.approx(values) for key, values in whole.items()}


def test_one_figure_of_zero_leaves_no_pairs_at_all(tmp_path: Path) -> None:
    folder = RunFolder.open(make_run(tmp_path / "run", blocks=4, failures=()))
    work = folder.resolved.workloads[0]
    name = next(metric.name for metric in work.metrics if metric.primary)
    environment = COMPARED[0]
    trials = [
        trial.model_copy(update={"metrics": {name: 0.0}})
        if (trial.block, trial.environment, trial.workload) == (1, environment, work.key)
        else trial
        for trial in folder.trials
    ]
    ratios = log_ratios_so_far(trials, folder.resolved.baseline, COMPARED, METRICS)
    assert ratios[comparison_key(environment, work.key, name)] == []


def test_a_block_is_paired_once_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder.open(make_run(tmp_path / "run", blocks=20))
    seen = 0

    def counted(mine: Mapping[int, Trial], theirs: Mapping[int, Trial], metric: Metric) -> Paired:
        nonlocal seen
        seen += len(mine)
        return pair(mine, theirs, metric)

    monkeypatch.setattr(module, "pair", counted)
    scalars = {work.key: work.metrics for work in WORKLOADS}
    pairs = PairsSoFar(folder.resolved.baseline, COMPARED, scalars)
    for block in range(20):
        pairs.add([trial for trial in folder.trials if trial.block == block])
        pairs.log_ratios()
    primary = sum(metric.primary for metrics in scalars.values() for metric in metrics)
    assert seen == 20 * primary * len(COMPARED)
