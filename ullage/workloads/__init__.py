"""The workloads. A new one is a file in this folder and a line in this list."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias, get_args

from ullage.common.registry import UNITS, Registry, fields_fault, figures_fault, unit_fault
from ullage.runs.records import Metric, Resource
from ullage.workloads.base import Parameters, Workload

AnyWorkload: TypeAlias = Workload[Any]

RESERVED: Final = frozenset({"name", "as", "vary"})
"""Fields of a workload in the plan that are not its parameters."""

_LINK: Final = re.compile(r"<https?://[^\s<>]+>|\]\([^\s()]+\)")
"""Of Markdown."""


def _fault(workload: type[AnyWorkload]) -> str | None:
    return (
        _plain_fault(workload)
        or fields_fault("parameters_model", workload.parameters_model, Parameters, RESERVED)
        or _metrics_fault(workload.metrics)
    )


def _plain_fault(workload: type[AnyWorkload]) -> str | None:
    if workload.resource not in get_args(Resource):
        return f"resource {workload.resource!r} is not one of {', '.join(get_args(Resource))}"
    for attribute in ("packages", "source", "scaling"):
        value = getattr(workload, attribute)
        if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
            return f"{attribute} is not a tuple of text"
    if not workload.source:
        return "source is empty"
    for line in workload.source:
        if not _LINK.search(line):
            return f"source {line!r} has no link"
    return None


def _metrics_fault(metrics: tuple[Metric, ...]) -> str | None:
    fault = figures_fault("metrics", metrics, Metric)
    if fault:
        return fault
    for metric in metrics:
        if metric.coordinate is not None and metric.coordinate.unit not in UNITS:
            return unit_fault(f"{metric.name} by {metric.coordinate.name}", metric.coordinate.unit)
    if not any(metric.primary for metric in metrics):
        return "no metric is primary"
    return None


REGISTRY: Final = Registry(
    "workload",
    Workload,
    ("resource", "packages", "source", "parameters_model", "metrics"),
    _fault,
)


WORKLOADS: tuple[type[AnyWorkload], ...] = REGISTRY.load(
    "mpi.b_eff_io.BEffIo",
    "cpu.basics.Basics",
    "command.OwnCommand",
    "network.connections.Connections",
    "pipelines.dedup.Dedup",
    "pipelines.ferret.Ferret",
    "network.flood_ping.FloodPing",
    "web.httperf.Httperf",
    "network.iperf3.Iperf3",
    "mpi.mpi_pingpong.MpiPingpong",
    "mpi.nas.Nas",
    "network.netpipe.Netpipe",
    "mpi.netpipe_mpi.NetpipeMpi",
    "mpi.nqueens.NQueens",
    "database.oltp.Oltp",
    "provisioning.Provisioning",
    "web.service.Service",
    "web.streaming.Streaming",
    "cpu.sysbench_cpu.SysbenchCpu",
    "storage.sysbench_fileio.SysbenchFileio",
    "cpu.sysbench_memory.SysbenchMemory",
    "cpu.sysbench_mutex.SysbenchMutex",
    "cpu.sysbench_threads.SysbenchThreads",
    "bigdata.testdfsio.DfsIo",
    "web.web_latency.WebLatency",
    "web.wrk.Wrk",
)

__all__ = ["WORKLOADS", "Workload", "get", "names"]


def names() -> tuple[str, ...]:
    """The names that a plan may use."""
    return tuple(workload.name for workload in WORKLOADS)


def get(name: str) -> AnyWorkload:
    """The workload of that name; KeyError when there is none."""
    for workload in WORKLOADS:
        if workload.name == name:
            return workload()
    raise KeyError(name)
