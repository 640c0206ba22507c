from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.synthetic import WORKLOADS, make_run
from ullage.analysis import overhead
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.runs.reader import RunFolder
from ullage.stats.interval import t_interval

CPU, _, DISK, _ = WORKLOADS


def _run(path: Path, **more: Any) -> Analysis:
    return overhead.analyse(
        RunFolder.open(make_run(path / "run", raw=False, noise_sd=0.01, **more))
    )


def _find(analysis: Analysis, environment: str, workload: str) -> Comparison:
    return next(
        c for c in analysis.primary() if (c.environment, c.workload) == (environment, workload)
    )


def test_one_barrel_for_each_environment_and_resource(tmp_path: Path) -> None:
    analysis = _run(tmp_path)
    assert len(analysis.resources) == 12
    summary = next(r for r in analysis.resources if (r.environment, r.resource) == ("vm", "disk"))
    c = _find(analysis, "vm", DISK.key)
    assert (summary.ratio, summary.interval, summary.verdict) == (c.ratio, c.interval, c.verdict)


def test_several_workloads_of_a_resource_are_one_geometric_mean(tmp_path: Path) -> None:
    twice = CPU.model_copy(update={"key": "sysbench-cpu[threads=2]"})
    truth = {("lxc", CPU.key): 1.21, ("vm", CPU.key): 4.0, ("vm", twice.key): 9.0}
    analysis = _run(tmp_path, workloads=[CPU, twice], truth=truth, failures=[])
    by_environment = {r.environment: r for r in analysis.resources}
    assert by_environment["lxc"].ratio == pytest.approx(1.1, rel=0.02)
    assert by_environment["lxc"].verdict == "mixed"
    assert by_environment["vm"].ratio == pytest.approx(6.0, rel=0.02)
    assert by_environment["vm"].verdict == "worse"
    assert by_environment["container"].verdict == "equivalent"
    assert by_environment["vm"].interval is not None
    by_block = np.mean(
        [
            [math.log(p.ratio) for p in _find(analysis, "vm", w).points]
            for w in (CPU.key, twice.key)
        ],
        axis=0,
    )
    assert by_environment["vm"].interval.high == pytest.approx(
        t_interval(by_block, 0.95, _find(analysis, "vm", CPU.key).memory).high
    )
