"""The workloads. A new one is a file in this folder and a line in this list."""

from __future__ import annotations

from ullage.workloads.base import Workload
from ullage.workloads.registry import REGISTRY, AnyWorkload

WORKLOADS: tuple[type[AnyWorkload], ...] = REGISTRY.load(
    "command.Command",
    "iperf3.Iperf3",
    "sysbench_cpu.SysbenchCpu",
    "sysbench_fileio.SysbenchFileio",
    "sysbench_memory.SysbenchMemory",
    "sysbench_mutex.SysbenchMutex",
    "sysbench_threads.SysbenchThreads",
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
