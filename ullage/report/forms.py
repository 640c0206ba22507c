"""A run's single measurements as other tools write theirs, and its answer as Prometheus reads it.

Times only where a tool has nothing but times; curves are left out, and an export of which nothing
is left is refused. A trial without the figure is never dropped: it stands there as that tool
writes a failure, or where it has no way to, in `failed` beside its list of results.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from ullage import __version__
from ullage.analysis.comparison.model import Analysis
from ullage.common.errors import EXPORT_NOTHING_FITS, UllageError
from ullage.common.text import clean
from ullage.runs.events import Trial
from ullage.runs.listing import first_instant
from ullage.runs.pairs import values
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, Metric, WorkloadRecord
from ullage.stats.quantiles import quantile


@dataclass(frozen=True)
class MeasuredFigure:
    """One figure in one environment, trial by trial."""

    environment: EnvironmentRecord
    workload: WorkloadRecord
    metric: Metric
    trials: Sequence[Trial]

    @property
    def name(self) -> str:
        """Of all three, as other tools name a benchmark."""
        return clean(f"{self.environment.key}/{self.workload.key}/{self.metric.name}", 400)

    def value(self, trial: Trial) -> float | None:
        """None: it failed, or has no such figure."""
        figure = values(trial, self.metric.name)
        return None if isinstance(figure, list) else figure

    @property
    def values(self) -> list[float]:
        """Of the trials that have one."""
        return [value for trial in self.trials if (value := self.value(trial)) is not None]

    @property
    def failed(self) -> list[Trial]:
        """The others."""
        return [trial for trial in self.trials if self.value(trial) is None]


def _measured(folder: RunFolder, unit: str | None = None) -> list[MeasuredFigure]:
    """The primary figures, curves left out; with `unit` only those in it."""
    trials: dict[tuple[str, str], list[Trial]] = {}
    for trial in folder.trials:
        trials.setdefault((trial.environment, trial.workload), []).append(trial)
    return [
        MeasuredFigure(environment, workload, metric, trials[cell])
        for workload in folder.resolved.workloads
        for metric in workload.metrics
        if metric.primary and metric.coordinate is None and unit in (None, metric.unit)
        for environment in folder.resolved.environments
        if (cell := (environment.key, workload.key)) in trials
    ]


def _why(trial: Trial) -> str:
    """A trial has no figure."""
    reason = trial.reason
    if reason is None:
        return "it has no such figure"
    return clean(f"{trial.status}: {reason.code}: {reason.message}", 400)


def _failures(measured: Iterable[MeasuredFigure]) -> list[dict[str, str]]:
    """For tools that have no place for one."""
    return [
        {
            "name": item.name,
            "group": item.workload.key,
            "trial": trial.trial,
            "reason": _why(trial),
        }
        for item in measured
        for trial in item.failed
    ]


def _hyperfine(folder: RunFolder, analysis: Analysis) -> Any:
    """`hyperfine --export-json`; the commands are the environments."""
    measured = _measured(folder, "s")
    return {
        "results": [
            {
                "command": item.name,
                "mean": statistics.fmean(item.values),
                "stddev": _deviation(item.values),
                "median": statistics.median(item.values),
                "min": min(item.values),
                "max": max(item.values),
                "times": item.values,
                "exit_codes": [0] * len(item.values),
            }
            for item in measured
            if item.values
        ],
        "failed": _failures(measured),
    }


def _deviation(sample: Sequence[float]) -> float | None:
    return statistics.stdev(sample) if len(sample) > 1 else None


def _pytest_benchmark(folder: RunFolder, analysis: Analysis) -> Any:
    """`pytest --benchmark-json`; a group is a workload."""
    host = folder.resolved.host
    measured = _measured(folder, "s")
    return {
        "machine_info": {
            "node": host.get("hostname"),
            "machine": host.get("machine"),
            "system": "Linux",
            "release": host.get("kernel"),
            "cpu": {"brand_raw": host.get("cpu_model"), "count": host.get("cpus")},
        },
        "commit_info": {"id": folder.resolved.labels.get("commit")},
        "benchmarks": [_pytest_item(item) for item in measured if item.values],
        "failed": _failures(measured),
        "datetime": first_instant(folder.events),
        "version": "5.1.0",
    }


def _pytest_item(item: MeasuredFigure) -> dict[str, Any]:
    sample = sorted(item.values)
    q1, median, q3 = (quantile(sample, q, 0.95).estimate for q in (0.25, 0.5, 0.75))
    mean = statistics.fmean(sample)
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    outliers = sum(not low <= value <= high for value in sample)
    deviation = _deviation(sample) or 0.0
    beyond = sum(abs(value - mean) > deviation for value in sample)
    return {
        "group": item.workload.key,
        "name": item.environment.key,
        "fullname": item.name,
        "params": None,
        "param": None,
        "extra_info": {},
        "options": {},
        "stats": {
            "min": sample[0],
            "max": sample[-1],
            "mean": mean,
            "stddev": deviation,
            "rounds": len(sample),
            "median": median,
            "iqr": q3 - q1,
            "q1": q1,
            "q3": q3,
            "iqr_outliers": outliers,
            "stddev_outliers": beyond,
            "outliers": f"{beyond};{outliers}",
            "ld15iqr": min(value for value in sample if value >= low),
            "hd15iqr": max(value for value in sample if value <= high),
            "ops": 1 / mean if mean else 0.0,
            "total": sum(sample),
            "iterations": 1,
            "data": item.values,
        },
    }


def _google_benchmark(folder: RunFolder, analysis: Analysis) -> Any:
    """`--benchmark_format=json`; each trial is a repetition."""
    host = folder.resolved.host
    return {
        "context": {
            "date": first_instant(folder.events),
            "host_name": host.get("hostname"),
            "executable": f"ullage {__version__}",
            "num_cpus": host.get("cpus"),
        },
        "benchmarks": [
            {
                "name": item.name,
                "run_name": item.name,
                "run_type": "iteration",
                "repetitions": len(item.trials),
                "repetition_index": number,
                "threads": 1,
                "iterations": 1,
                **_google_times(item, trial),
                "time_unit": "s",
            }
            for item in _measured(folder, "s")
            for number, trial in enumerate(item.trials)
        ],
    }


def _google_times(item: MeasuredFigure, trial: Trial) -> dict[str, Any]:
    """Of the CPU only where the program's own was measured beside its time."""
    value = item.value(trial)
    if value is None:
        return {"error_occurred": True, "error_message": _why(trial)}
    cpu_s = values(trial, "cpu_seconds") if item.metric.name == "seconds" else None
    return {"real_time": value} | ({} if cpu_s is None else {"cpu_time": cpu_s})


def _reframe(folder: RunFolder, analysis: Analysis) -> Any:
    """`reframe --report-file`, as of `--reruns`: a run is a block, a test case is a trial."""
    host = folder.resolved.host
    figures: dict[tuple[str, str], list[MeasuredFigure]] = {}
    for item in _measured(folder):
        figures.setdefault((item.environment.key, item.workload.key), []).append(item)
    blocks: dict[int, list[dict[str, Any]]] = {}
    for trial in folder.trials:
        if items := figures.get((trial.environment, trial.workload)):
            blocks.setdefault(trial.block, []).append(
                reframe_case(trial, items) | {"system": host.get("hostname")}
            )
    return {
        "session_info": {
            "data_version": "4.0",
            "hostname": host.get("hostname"),
            "time_start": first_instant(folder.events),
            "version": f"ullage {__version__}",
        },
        "runs": [
            {"run_index": block, "testcases": cases} for block, cases in sorted(blocks.items())
        ],
    }


def reframe_case(trial: Trial, figures: Sequence[MeasuredFigure]) -> dict[str, Any]:
    """A figure that it lacks fails the case, as one that it cannot extract does in ReFrame."""
    lacking = [item for item in figures if item.value(trial) is None]
    case = {
        "name": trial.workload,
        "display_name": clean(f"{trial.environment}/{trial.workload}", 400),
        "environ": trial.environment,
        "result": "fail" if lacking else "pass",
        "perfvars": [
            {
                "name": item.metric.name,
                "value": item.value(trial),
                "unit": item.metric.unit,
                "reference": 0,
                "thres_low": None,
                "thres_high": None,
            }
            for item in figures
        ],
    }
    if not lacking:
        return case
    phase = {"failed": "run", "invalid": "sanity", "ok": "performance"}[trial.status]
    return case | {"fail_phase": phase, "fail_reason": _why(trial)}


LABELS: Final = ("environment", "baseline", "workload", "metric")


def _prometheus(folder: RunFolder, analysis: Analysis) -> bytes:
    """Ratios with their bounds, and verdicts, for the textfile collector."""
    registry = CollectorRegistry()
    ratio = Gauge("ullage_ratio", "To the baseline; above 1 is worse.", LABELS, registry=registry)
    bounds = Gauge("ullage_ratio_bound", "Of its interval.", (*LABELS, "bound"), registry=registry)
    verdict = Gauge(
        "ullage_verdict", "1 for the verdict given.", (*LABELS, "verdict"), registry=registry
    )
    for c in analysis.primary():
        labels = [clean(word, 200) for word in (c.environment, c.baseline, c.workload, c.metric)]
        if c.ratio is not None:
            ratio.labels(*labels).set(c.ratio)
        if c.interval is not None:
            bounds.labels(*labels, "low").set(c.interval.low)
            bounds.labels(*labels, "high").set(c.interval.high)
        if c.verdict is not None:
            verdict.labels(*labels, c.verdict).set(1)
    text: bytes = generate_latest(registry)
    return text


DOCUMENTS: Final[dict[str, Callable[[RunFolder, Analysis], Any]]] = {
    "hyperfine": _hyperfine,
    "pytest-benchmark": _pytest_benchmark,
    "google-benchmark": _google_benchmark,
    "reframe": _reframe,
}


def write(folder: RunFolder, analysis: Analysis, form: str) -> bytes:
    """In one of `export.TOOLS`. EXPORT_NOTHING_FITS where it can hold no figure of the run."""
    if form == "prometheus":
        return _prometheus(folder, analysis)
    document = DOCUMENTS[form](folder, analysis)
    if not any(_items(document)):
        raise UllageError(EXPORT_NOTHING_FITS, run=folder.path, form=form)
    return json.dumps(document, indent=1, allow_nan=False).encode() + b"\n"


def _items(document: dict[str, Any]) -> Iterable[Any]:
    runs = document.get("runs")
    if runs is not None:
        return [case for run in runs for case in run["testcases"]]
    return document.get("results") or document.get("benchmarks") or ()
