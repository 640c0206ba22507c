"""Reports of made-up runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, SCRIPT, WORKLOADS, make_run
from ullage.analysis import overhead
from ullage.analysis.comparison.model import Analysis
from ullage.report.page import write
from ullage.runs.events import Warned
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, ImageRecord, Parity, WorkloadRecord

HOSTILE = (
    f"\"'`{SCRIPT}<img src=x onerror=alert(2)><!--<script>{{{{7*7}}}}{{% raw %}}"
    "\u202egnp.exe\u202c\x1b[31m\x00\u2028&amp;"
)
"""Ends elements, starts scripts, is a template, reorders text, hides characters."""


def made_run(path: Path, **options: Any) -> tuple[RunFolder, Analysis]:
    """A run in `path` with its analysis."""
    folder = RunFolder.open(make_run(path, **{"blocks": 40, "noise_sd": 0.06, **options}))
    return folder, overhead.analyse(folder)


def made_report(path: Path, **options: Any) -> Path:
    """A run in `path`, analysed, with its report."""
    return write(*made_run(path, **options))


def curve_report(path: Path) -> Path:
    """The same with a workload whose metric is a curve, and a run that was taken up again."""
    return made_report(path, workloads=(*WORKLOADS, CURVE_WORKLOAD), pause=(5, 4000.0))


def hostile_report(path: Path) -> Path:
    """A run in which every text that can come from a guest or a plan is an attack."""
    make_run(
        path,
        blocks=8,
        environments=[_hostile_environment(e) for e in ENVIRONMENTS],
        workloads=[_hostile_workload(w) for w in (*WORKLOADS, CURVE_WORKLOAD)],
    )
    (path / "plan.yaml").write_text(f"name: {HOSTILE}\n")
    folder = RunFolder.open(path)
    resolved = folder.resolved.model_copy(
        update={
            "name": HOSTILE,
            "run": HOSTILE,
            "tag": HOSTILE,
            "host": {HOSTILE: HOSTILE, "cpu_model": HOSTILE},
            "resources": {HOSTILE: HOSTILE},
            "image": ImageRecord(kind="built", digest=HOSTILE, packages={HOSTILE: HOSTILE}),
            "parity": (
                Parity(nuisance=HOSTILE, equal=False, allowed=True, values={"vm": HOSTILE}),
            ),
        }
    )
    warned = Warned(epoch_ns=1, code=HOSTILE, message=HOSTILE)
    folder = RunFolder(path, resolved, (*folder.events, warned), folder.truncated)
    analysis = overhead.analyse(folder)
    return write(folder, analysis)


def _hostile_environment(e: EnvironmentRecord) -> EnvironmentRecord:
    attack = {HOSTILE: HOSTILE}
    return e.model_copy(
        update={
            "label": f"{e.label}{HOSTILE}",
            "options": attack,
            "treatments": attack,
            "facts": attack,
        }
    )


def _hostile_workload(w: WorkloadRecord) -> WorkloadRecord:
    metrics = tuple(m.model_copy(update={"description": HOSTILE}) for m in w.metrics)
    return w.model_copy(
        update={"title": HOSTILE, "parameters": {HOSTILE: HOSTILE}, "metrics": metrics}
    )
