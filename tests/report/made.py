"""Reports of made-up runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.synthetic import CURVE_WORKLOAD, WORKLOADS, make_run
from ullage import report
from ullage.analysis import overhead
from ullage.folder import RunFolder


def made_report(path: Path, **options: Any) -> Path:
    """Make a run in `path`, analyse it and write its report."""
    folder = RunFolder.open(make_run(path, **{"blocks": 40, "noise_sd": 0.06, **options}))
    return report.write(folder, overhead.analyse(folder))


def curve_report(path: Path) -> Path:
    """The same with a workload whose metric is a curve, and a run that was taken up again."""
    return made_report(path, workloads=(*WORKLOADS, CURVE_WORKLOAD), pause=(5, 4000.0))
