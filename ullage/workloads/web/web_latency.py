"""Workload `web-latency`."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ByteSize, Field

from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, Outputs, Task
from ullage.workloads.web import open_loop
from ullage.workloads.web.open_loop import OpenLoopParameters
from ullage.workloads.web.web_server import PLACES, SERVER_CPU, Web, WebParameters


class WebLatencyParameters(OpenLoopParameters, WebParameters):
    """What is asked for, beside how often and where."""

    document: ByteSize = Field(
        ByteSize(1024), ge=1, le=1 << 26, description="bytes of the document that is asked for"
    )


class WebLatency(Web[WebLatencyParameters]):
    """Latency of a web server at a stated rate, from when a request was due (`ullage-load http`).

    Requests fall due at instants that are fixed beforehand, whatever became of those before (open
    loop), and each is timed from then until the last byte of its answer: a request that had to wait
    because all connections were still busy has waited. A closed loop, as of `wrk`, leaves just that
    out ("coordinated omission": G. Tene, How NOT to Measure Latency, 2013;
    https://github.com/giltene/wrk2). Every answer must have the status 200 and every byte of the
    document. Connections are open before the first request where they are kept.

    The generator's own lateness (its processor's, when it should have woken) is part of these times
    and is measured too: see `generator_late_p99`, and judge no latency that is not well above it.
    A request without an answer counts as longer than any other: quantiles that lie among these are
    left out.
    """

    name = "web-latency"
    packages = ("nginx", "apache2")
    source = (sources.OMISSION, sources.OPEN_OR_CLOSED)
    parameters_model = WebLatencyParameters
    metrics = (*open_loop.METRICS, SERVER_CPU)

    def title(self, parameters: WebLatencyParameters) -> str:
        """`nginx, 500 requests/s from the host`."""
        place = PLACES[parameters.client]
        return f"{parameters.server}, {parameters.rate:g} requests/s from {place}"

    def duration_s(self, parameters: WebLatencyParameters) -> float:
        return parameters.time_s

    def documents(self, parameters: WebLatencyParameters) -> Sequence[int]:
        return (int(parameters.document),)

    def client(self, parameters: WebLatencyParameters, context: Context) -> Task:
        """The requests; their instants differ from block to block."""
        length = int(parameters.document)
        server = f"{context.addresses['server']}:{parameters.port}"
        argv = open_loop.arguments(parameters, server, f"/{length}", context.seed)
        argv += ["--bytes", str(length)]
        return Task("client", tuple(argv), timeout_s=open_loop.timeout_s(parameters))

    def check_client(self, parameters: WebLatencyParameters, outputs: Outputs) -> None:
        report = open_loop.report(outputs)
        open_loop.check(parameters, report, ("bytes", int(parameters.document), report.bytes))

    def replies(self, parameters: WebLatencyParameters, outputs: Outputs) -> int:
        """Those answered in full."""
        return open_loop.report(outputs).answered

    def figures(self, parameters: WebLatencyParameters, outputs: Outputs) -> Figures:
        return open_loop.figures(parameters, open_loop.report(outputs))
