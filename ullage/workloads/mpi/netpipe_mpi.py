"""Workload `netpipe-mpi`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import model_validator

from ullage.host.binaries import Mpi
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, Outputs, Task
from ullage.workloads.mpi import mpi
from ullage.workloads.network import netpipe_report
from ullage.workloads.network.netpipe_report import NetpipeParameters

PROGRAMS: Final[Mapping[Mpi, str]] = {"openmpi": "NPopenmpi", "mpich": "NPmpich2"}


class NetpipeMpiParameters(mpi.MpiParameters, NetpipeParameters):
    """Which MPI, between whom, which message sizes, how often."""

    @model_validator(mode="after")
    def _two(self) -> NetpipeMpiParameters:
        if self.peer == "each":
            raise ValueError("NetPIPE is between two ranks: peer cannot be each")
        return self


class NetpipeMpi(mpi.MpiWorkload[NetpipeMpiParameters]):
    """Throughput and latency by message size, between two ranks of MPI (NetPIPE, `NPopenmpi`).

    The same as `netpipe`, over MPI's messages instead of TCP's stream: a message goes there and
    back, `repeats` times, three times over, and the quickest of the three counts. With
    `peer: none` both ranks are in the instance and talk through its memory; else over TCP. The
    ranks are bound to no CPU, and wait for messages by asking again and again: give each a CPU, or
    a time slice of the scheduler is measured. NetPIPE verifies nothing; `mpi-pingpong` does.
    """

    name = "netpipe-mpi"
    resource = "network"
    packages = (*mpi.MpiWorkload.packages, "netpipe-openmpi", "netpipe-mpich2")
    source = (
        sources.NETPIPE,
        sources.OPEN_MPI,
    )
    parameters_model = NetpipeMpiParameters
    metrics = netpipe_report.METRICS

    def programs(self, parameters: NetpipeMpiParameters) -> Mapping[str, str]:
        netpipe = {"openmpi": "netpipe-openmpi", "mpich": "netpipe-mpich2"}[parameters.mpi]
        return {**super().programs(parameters), PROGRAMS[parameters.mpi]: netpipe}

    def title(self, parameters: NetpipeMpiParameters) -> str:
        """`NetPIPE over openmpi to a second instance, 1B to 1.0MiB`."""
        sizes = netpipe_report.title(parameters)
        return f"NetPIPE over {parameters.mpi}{mpi.peer_in_words(parameters)}, {sizes}"

    def duration_s(self, parameters: NetpipeMpiParameters) -> float:
        """All sizes, as they go between two namespaces, and the start of MPI."""
        return 1.0 + netpipe_report.duration_s(parameters)

    def tasks(self, parameters: NetpipeMpiParameters, context: Context) -> Sequence[Task]:
        argv = (PROGRAMS[parameters.mpi], *netpipe_report.options(parameters))
        # An emulated guest takes some fifty times as long.
        timeout_s = 60.0 + 50 * self.duration_s(parameters)
        return (self.launch(parameters, context, 2, argv, timeout_s),)

    def check(self, parameters: NetpipeMpiParameters, outputs: Outputs) -> None:
        """Every size was measured, and rates and times agree."""
        netpipe_report.read(parameters, mpi.finished(outputs).stdout)

    def parse(self, parameters: NetpipeMpiParameters, outputs: Outputs) -> Figures:
        return netpipe_report.figures(parameters, outputs["main"].stdout)
