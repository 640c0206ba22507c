"""Workload `service`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGTERM
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from ullage.host import binaries
from ullage.runs.records import Metric
from ullage.workloads import own_metrics, sources
from ullage.workloads.base import (
    Context,
    Figures,
    InvalidTrialError,
    Output,
    Outputs,
    Place,
    Role,
    Task,
    Workload,
)
from ullage.workloads.command import MOST_METRICS, Argument, MetricName, refuse_taken
from ullage.workloads.network.load_report import PROGRAM
from ullage.workloads.output import DoubleCount, ExactReportPart, output_of, quoted, read
from ullage.workloads.own_metrics import OwnMetric
from ullage.workloads.web import open_loop
from ullage.workloads.web.open_loop import HttpReport
from ullage.workloads.web.request import RequestParameters, UrlPath
from ullage.workloads.web.web_server import PLACES

LOOPBACK: Final = "127.0.0.1"
READY: Final = '{"ready":true'
STOP_S: Final = 10.0
"""Its minder kills it after 3 s; then it is the minder's turn."""
_OF_OURS: Final = frozenset(("method", "headers", "body", "body_file"))


class ServiceParameters(RequestParameters):
    """The server, when it is ready, and what is asked of it, how often and from where."""

    argv: list[Argument] = Field(
        [],
        max_length=1024,
        description="the server and its arguments, as a list; it stays in the foreground; absent: "
        "the entry point of your own container image",
    )
    port: int = Field(8080, ge=1, le=65_535, strict=True, description="TCP port of the server")
    ready: UrlPath | None = Field(
        None,
        description="it is ready only when it answers this path, asked by GET with `headers`, "
        "with a status from 200 to 399; absent: when its port can be connected to",
    )
    ready_output: str | None = Field(
        None, min_length=1, max_length=1000, description="and when it has printed this text"
    )
    ready_s: float = Field(
        30.0, gt=0, le=3600, description="it must be ready within so many seconds"
    )
    client: Literal["host", "second", "away", "beside"] = Field(
        "host",
        description="who loads it: a native place on the same bridge, a second instance, one on "
        "the other node, or a program beside it in the same instance, which comes to 127.0.0.1",
    )
    load: list[Argument] | None = Field(
        None,
        min_length=1,
        max_length=1024,
        description="a load generator of yours in place of ours: its arguments, in which `{host}` "
        "and `{port}` stand for where the server is; it ends by itself with the status 0",
    )
    load_timeout_s: float = Field(
        600, gt=0, le=86_400, description="seconds after which your load generator is ended"
    )
    metrics: dict[MetricName, OwnMetric] = Field(
        {},
        max_length=MOST_METRICS,
        description="figures that it prints: [how](../../guide/own-command.md#figures)",
    )

    @model_validator(mode="after")
    def _one_generator(self) -> ServiceParameters:
        if self.load is None and self.metrics:
            raise ValueError("metrics are of a load generator of yours: give load, too")
        if self.load is not None and not any(m.primary for m in self.metrics.values()):
            raise ValueError("one of the metrics of your load generator must be primary")
        if self.load is not None and (unused := _OF_OURS & self.model_fields_set):
            raise ValueError(f"{min(unused)} is of our load generator, and load names yours")
        refuse_taken(self.metrics, Service.metrics)
        return self


SERVER_METRICS: Final = (
    Metric(
        name="startup",
        unit="s",
        better="lower",
        description="From when the server was started until it was ready, looked at every 5 ms.",
    ),
    Metric(
        name="server_cpu",
        unit="1",
        better="lower",
        description="CPU time of all processes of the server over the time that it served: 1 is "
        "one CPU all the time. As the instance's kernel counts it: not that of a hypervisor. "
        "Absent when it counted none, or when one of the processes ignores the end of its children "
        "(SIGCHLD).",
        part=True,
    ),
    Metric(
        name="server_peak_memory",
        unit="B",
        better="lower",
        description="The most memory that each of its processes had (resident set), added up: what "
        "they share counts in each.",
    ),
)

ANSWER_METRICS: Final = (
    *open_loop.METRICS,
    Metric(
        name="latency_p95",
        unit="s",
        better="lower",
        description="95 % of the requests had their whole answer within this time from when they "
        "were due. Absent with fewer than 100 requests.",
    ),
    Metric(
        name="latency_max",
        unit="s",
        better="lower",
        description="The longest of these times: one event's tale. Absent where a request had no "
        "answer.",
    ),
    Metric(
        name="errors",
        unit="1",
        better="lower",
        description="Share of the requests without a good answer in time.",
    ),
    Metric(
        name="server_cpu_per_reply",
        unit="s",
        better="lower",
        description="CPU time of the server from when it was ready until it was told to end, over "
        "the good answers.",
        part=True,
    ),
    Metric(
        name="server_memory_per_reply",
        unit="B",
        better="lower",
        description="How much `server_peak_memory` grew from when it was ready, over the good "
        "answers: what a leak or a cache takes of each. Absent where a process with more had gone.",
    ),
)


class Service(Workload[ServiceParameters]):
    """A server of yours, from its start to its end, loaded at a stated rate.

    For each trial it is started anew, and waited for until it is ready. Then requests fall due at
    instants that are fixed beforehand, whatever became of those before (open loop), and each is
    timed from then until the last byte of its answer: what had to wait for a server that stands
    still has waited, and is not left out ("coordinated omission"). Or a load generator of yours
    runs, and `metrics` says where its figures stand.

    A server that does not get ready, ends by itself, runs out of memory or answers with another
    status than `status` has no figures, and the trial says which of these it was. The generator's
    own lateness is measured too: beyond `late_limit_s` the trial is invalid. To see how it bears
    more and more, vary the rate: `vary: {rate: [100, 200, 400]}`.
    """

    name = "service"
    resource = "network"
    packages = ()
    source = (sources.OMISSION, sources.OPEN_OR_CLOSED)
    parameters_model = ServiceParameters
    guards_memory = True
    metrics = (*ANSWER_METRICS, *SERVER_METRICS)
    scaling = ("rate",)

    def metrics_of(self, parameters: ServiceParameters) -> tuple[Metric, ...]:
        if parameters.load is None:
            return self.metrics
        own = (metric.metric(name) for name, metric in parameters.metrics.items())
        return (*own, *SERVER_METRICS)

    def roles(self, parameters: ServiceParameters) -> Sequence[Role]:
        place: Place = "instance" if parameters.client == "beside" else parameters.client
        return Role("server"), Role("client", place)

    def files(self, parameters: ServiceParameters) -> Mapping[str, Path]:
        return {PROGRAM: binaries.program(PROGRAM)}

    def runs_entry_point(self, parameters: ServiceParameters) -> bool:
        return not parameters.argv

    def title(self, parameters: ServiceParameters) -> str:
        """`server.py, 500 requests/s from the host`."""
        program = Path(parameters.argv[0]).name[:20] if parameters.argv else self.name
        place = PLACES.get(parameters.client, "beside it")
        if parameters.load is not None:
            return f"{program}, loaded by {Path(parameters.load[0]).name[:20]} from {place}"
        return f"{program}, {parameters.rate:g} requests/s from {place}"

    def duration_s(self, parameters: ServiceParameters) -> float:
        return parameters.time_s

    def tasks(self, parameters: ServiceParameters, context: Context) -> Sequence[Task]:
        """The server with its minder, and who loads it."""
        beside = parameters.client == "beside"
        host = LOOPBACK if beside else context.addresses["server"]
        client = _client(parameters, host, context)
        own = parameters.argv or (context.image.argv if context.image else ())
        minder = [f"{context.workspace}/{PROGRAM}", "service"]
        minder += ["--address", f"{host}:{parameters.port}", "--within", repr(parameters.ready_s)]
        minder += [] if parameters.ready is None else ["--http", parameters.ready]
        minder += [] if parameters.ready_output is None else ["--output", parameters.ready_output]
        if context.image and context.image.stop_signal != SIGTERM:
            minder += ["--stop-signal", str(context.image.stop_signal)]
        server = Task(
            "server",
            (*minder, "--", *own),
            env={} if parameters.ready is None else parameters.header_variables(),
            cwd=context.workspace,
            service=True,
            ready=READY,
            ready_s=parameters.ready_s + STOP_S,
            stop_s=STOP_S,
            timeout_s=parameters.ready_s + client.timeout_s + 60.0,
        )
        return server.of_image(context.image), client

    def check(self, parameters: ServiceParameters, outputs: Outputs) -> None:
        """The server served to the end, and whoever loaded it did as asked."""
        _served(outputs)
        if parameters.load is not None:
            own_metrics.read(parameters.metrics, output_of(outputs, "client"))
            return
        hint = ": set `path:` or `status:`"
        answers = open_loop.report(outputs, hint)
        open_loop.check(parameters, answers, *parameters.request_echoes(answers), hint=hint)

    def parse(self, parameters: ServiceParameters, outputs: Outputs) -> Figures:
        startup_s, served = _served(outputs)
        figures: Figures = {"startup": startup_s}
        if served.peak_bytes:  # of a process that had gone nobody knows
            figures["server_peak_memory"] = float(served.peak_bytes)
        if served.cpu_s:
            figures["server_cpu"] = served.cpu_s / served.seconds
        if parameters.load is not None:
            return {**figures, **own_metrics.read(parameters.metrics, outputs["client"])}
        answers = open_loop.report(outputs)
        figures |= open_loop.figures(parameters, answers) | _of_answers(answers)
        if served.cpu_s:
            figures["server_cpu_per_reply"] = served.cpu_s / answers.answered
        grown = served.peak_bytes - served.ready_peak_bytes
        if grown >= 0 and served.ready_peak_bytes and served.peak_bytes:  # else one has gone
            figures["server_memory_per_reply"] = grown / answers.answered
        return figures

    def steps(self, parameters: ServiceParameters, outputs: Outputs) -> dict[str, float]:
        if parameters.load is None:
            return {}
        return own_metrics.steps(parameters.metrics, outputs["client"])


def _client(parameters: ServiceParameters, host: str, context: Context) -> Task:
    if parameters.load is None:
        address = f"{host}:{parameters.port}"
        argv = open_loop.arguments(parameters, address, parameters.path, context.seed)
        argv += parameters.request_arguments()
        timeout_s = open_loop.timeout_s(parameters)
        return Task("client", tuple(argv), parameters.request_variables(), timeout_s=timeout_s)
    port = str(parameters.port)
    own = [argument.replace("{host}", host).replace("{port}", port) for argument in parameters.load]
    own_generator = Task("client", tuple(own), timeout_s=parameters.load_timeout_s)
    return own_generator.of_image(context.image)


def _of_answers(answers: HttpReport) -> dict[str, Any]:
    errors = sum(answers.errors.values())
    figures: dict[str, Any] = {"errors": errors / answers.due}
    if not errors:
        figures["latency_max"] = answers.latency.max_s
    if (p95 := dict(answers.quantiles).get(0.95)) is not None:
        figures["latency_p95"] = p95
    return figures


class _Ready(ExactReportPart):
    ready: Literal[True]
    startup_s: float = Field(gt=0, lt=1e9)


class _Served(ExactReportPart):
    seconds: float = Field(gt=0, lt=1e9)
    cpu_s: float | None = Field(ge=0, lt=1e9)
    """None: what some of its processes used is not known."""
    ready_peak_bytes: DoubleCount
    peak_bytes: DoubleCount
    processes: int = Field(ge=0, lt=1 << 22)
    ended: str | None


def _served(outputs: Outputs) -> tuple[float, _Served]:
    """The time to its start, and how it served: to the end."""
    output = output_of(outputs, "server")
    lines = output.stdout[:2000].split("\n")
    if len(lines) != 3 or lines[2]:
        raise InvalidTrialError(f"server: two lines were expected, found {quoted(output.stdout)}")
    ready, served = read(_Ready, lines[0], "server"), read(_Served, lines[1], "server")
    if served.ended is not None:
        raise InvalidTrialError(
            f"the service ended by itself with {quoted(served.ended)}, {served.seconds:.3g} s "
            f"after it was ready{_memory(output)}{_last_words(output)}"
        )
    if output.memory_kills:
        raise InvalidTrialError(f"the service lost a process{_memory(output)}")
    return ready.startup_s, served


def _memory(output: Output) -> str:
    if not output.memory_kills:
        return ""
    return ": the instance ran out of memory, and the kernel killed it"


def _last_words(output: Output) -> str:
    printed = output.stderr.rstrip()
    return f"; it last printed {quoted(printed[-100:])}" if printed else ""
