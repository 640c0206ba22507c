"""A run's single measurements as other tools write theirs, and its answer as Prometheus reads it.

Times only where a tool has nothing but times; what it cannot hold is left out, and an export of
which nothing is left is refused.
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
from ullage.runs.listing import first_instant
from ullage.runs.pairs import values
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, Metric, WorkloadRecord
from ullage.stats.quantiles import quantile


@dataclass(frozen=True)
class Measured:
    """The values of one figure in one environment, trial by trial."""

    environment: EnvironmentRecord
    workload: WorkloadRecord
    metric: Metric
    values: Sequence[float]

    @property
    def name(self) -> str:
        """Of all three, as other tools name a benchmark."""
        return clean(f"{self.environment.key}/{self.workload.key}/{self.metric.name}", 400)


def _measured(folder: RunFolder, unit: str | None = None) -> list[Measured]:
    """The primary figures, curves left out; with `unit` only those in it."""
    series: dict[tuple[str, str, str], list[float]] = {}
    for trial in folder.trials:
        for metric, figure in trial.metrics.items():
            if values(trial, metric) is not None and isinstance(figure, int | float):
                series.setdefault((trial.environment, trial.workload, metric), []).append(figure)
    return [
        Measured(environment, workload, metric, series[key])
        for workload in folder.resolved.workloads
        for metric in workload.metrics
        if metric.primary and unit in (None, metric.unit)
        for environment in folder.resolved.environments
        if (key := (environment.key, workload.key, metric.name)) in series
    ]


def _hyperfine(folder: RunFolder, analysis: Analysis) -> Any:
    """`hyperfine --export-json`; the commands are the environments."""
    return {
        "results": [
            {
                "command": item.name,
                "mean": statistics.fmean(item.values),
                "stddev": _deviation(item.values),
                "median": statistics.median(item.values),
                "min": min(item.values),
                "max": max(item.values),
                "times": list(item.values),
                "exit_codes": [0] * len(item.values),
            }
            for item in _measured(folder, "s")
        ]
    }


def _deviation(sample: Sequence[float]) -> float | None:
    return statistics.stdev(sample) if len(sample) > 1 else None


def _pytest_benchmark(folder: RunFolder, analysis: Analysis) -> Any:
    """`pytest --benchmark-json`; a group is a workload."""
    host = folder.resolved.host
    return {
        "machine_info": {
            "node": host.get("hostname"),
            "machine": host.get("machine"),
            "system": "Linux",
            "release": host.get("kernel"),
            "cpu": {"brand_raw": host.get("cpu_model"), "count": host.get("cpus")},
        },
        "commit_info": {"id": folder.resolved.labels.get("commit")},
        "benchmarks": [_pytest_item(item) for item in _measured(folder, "s")],
        "datetime": first_instant(folder.events),
        "version": "5.1.0",
    }


def _pytest_item(item: Measured) -> dict[str, Any]:
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
            "data": list(item.values),
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
            "library_build_type": "release",
        },
        "benchmarks": [
            {
                "name": item.name,
                "run_name": item.name,
                "run_type": "iteration",
                "repetitions": len(item.values),
                "repetition_index": number,
                "threads": 1,
                "iterations": 1,
                "real_time": value,
                "cpu_time": value,
                "time_unit": "s",
            }
            for item in _measured(folder, "s")
            for number, value in enumerate(item.values)
        ],
    }


def _reframe(folder: RunFolder, analysis: Analysis) -> Any:
    """`reframe --report-file`: the performance variables of each test, by the median."""
    host = folder.resolved.host
    return {
        "session_info": {
            "data_version": "4.0",
            "hostname": host.get("hostname"),
            "time_start": first_instant(folder.events),
            "version": f"ullage {__version__}",
        },
        "runs": [
            {
                "run_index": 0,
                "testcases": [
                    {
                        "name": item.workload.key,
                        "display_name": item.name,
                        "system": host.get("hostname"),
                        "environ": item.environment.key,
                        "result": "pass",
                        "perfvars": [
                            {
                                "name": item.metric.name,
                                "value": statistics.median(item.values),
                                "unit": item.metric.unit,
                                "reference": 0,
                                "thres_low": None,
                                "thres_high": None,
                            }
                        ],
                    }
                    for item in _measured(folder)
                ],
            }
        ],
    }


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
