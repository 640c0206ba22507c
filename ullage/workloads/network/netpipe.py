"""Workload `netpipe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, Outputs, Task
from ullage.workloads.network import endpoints, netpipe_report
from ullage.workloads.network.netpipe_report import NetpipeParameters
from ullage.workloads.output import output_of


class NetpipeTcpParameters(endpoints.PeerParameters, NetpipeParameters):
    """Between whom, which message sizes, how often."""

    port: int = Field(5002, ge=1, le=65_535, strict=True, description="TCP port of the receiver")


class Netpipe(endpoints.BetweenTwo[NetpipeTcpParameters]):
    """Throughput and latency by message size, over TCP (NetPIPE, `NPtcp`).

    A message goes there and back, `repeats` times, three times over; NetPIPE keeps the quickest of
    the three (Q. O. Snell, A. R. Mikler, J. L. Gustafson: "NetPIPE: A Network Protocol Independent
    Performance Evaluator", 1996). `network-pipeline` (2017, of [the
    studies](../../guide/studies.md)) went from 1 B to 10 MB (`largest: 10MB`) and left the number
    of exchanges to NetPIPE (`repeats: null`: about 0.25 s each, two minutes in all).

    TCP's congestion control and buffers are the kernel's own, since NPtcp cannot choose them: a
    guest with a kernel of its own may have others than the host (`cubic`, `bbr`); `iperf3` lets the
    plan choose.
    """

    name = "netpipe"
    resource = "network"
    ends = ("sender", "receiver")
    packages = ("netpipe-tcp", "netbase")  # whose /etc/protocols NPtcp needs
    source = (
        sources.NETPIPE,
        sources.NETWORK_PIPELINE,
    )
    parameters_model = NetpipeTcpParameters
    metrics = netpipe_report.METRICS

    def programs(self, parameters: NetpipeTcpParameters) -> Mapping[str, str]:
        return {"NPtcp": "netpipe-tcp"}

    def title(self, parameters: NetpipeTcpParameters) -> str:
        """`NetPIPE to the host, 1B to 1.0MiB`."""
        peer = endpoints.peer_in_words(parameters.peer)
        return f"NetPIPE to {peer}, {netpipe_report.title(parameters)}"

    def duration_s(self, parameters: NetpipeTcpParameters) -> float:
        """All sizes, as they go between two namespaces."""
        return netpipe_report.duration_s(parameters)

    def tasks(self, parameters: NetpipeTcpParameters, context: Context) -> Sequence[Task]:
        shared = ("-P", str(parameters.port))
        options = netpipe_report.options(parameters)
        argv = ("NPtcp", "-h", context.addresses["receiver"], *shared, *options)
        # An emulated guest takes some fifty times as long.
        timeout_s = 60.0 + 50 * self.duration_s(parameters)
        return (
            Task(
                "receiver",
                # It has to agree with the sender on the sizes.
                ("NPtcp", *shared, *options[2:]),
                service=True,
                ready="A bug in Linux doubles",
                timeout_s=timeout_s,
            ),
            Task("sender", argv, timeout_s=timeout_s),
        )

    def check(self, parameters: NetpipeTcpParameters, outputs: Outputs) -> None:
        """Every size was measured, and rates and times agree."""
        netpipe_report.read(parameters, output_of(outputs, "sender").stdout)

    def parse(self, parameters: NetpipeTcpParameters, outputs: Outputs) -> Figures:
        return netpipe_report.figures(parameters, outputs["sender"].stdout)
