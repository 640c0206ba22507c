"""The workloads. A new one is a file in this folder and a line in this list."""

from __future__ import annotations

from ullage.workloads.base import Workload
from ullage.workloads.registry import REGISTRY, AnyWorkload

WORKLOADS: tuple[type[AnyWorkload], ...] = REGISTRY.load(
    "b_eff_io.BEffIo",
    "command.Command",
    "connections.Connections",
    "dedup.Dedup",
    "ferret.Ferret",
    "flood_ping.FloodPing",
    "httperf.Httperf",
    "iperf3.Iperf3",
    "mpi_pingpong.MpiPingpong",
    "nas.Nas",
    "netpipe.Netpipe",
    "netpipe_mpi.NetpipeMpi",
    "nqueens.NQueens",
    "oltp.Oltp",
    "provisioning.Provisioning",
    "streaming.Streaming",
    "sysbench_cpu.SysbenchCpu",
    "sysbench_fileio.SysbenchFileio",
    "sysbench_memory.SysbenchMemory",
    "sysbench_mutex.SysbenchMutex",
    "sysbench_threads.SysbenchThreads",
    "testdfsio.DfsIo",
    "web_latency.WebLatency",
    "wrk.Wrk",
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
