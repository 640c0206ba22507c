"""Workload `web-latency`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import ByteSize, Field, model_validator

from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, InvalidTrialError, Outputs, Task
from ullage.workloads.network.load_report import Distribution, LoadReport, check_valid
from ullage.workloads.output import (
    QUANTILE,
    SAMPLES_ABOVE,
    DoubleCount,
    Echo,
    ReportPart,
    check_echoes,
    output_of,
    quoted,
    read,
)
from ullage.workloads.web.web_server import LOAD, PLACES, SERVER_CPU, Web, WebParameters

QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)

Quantile = Annotated[float, Field(gt=0, lt=1)]


class WebLatencyParameters(WebParameters):
    """How often, over how many connections, and what counts as an answer."""

    document: ByteSize = Field(
        ByteSize(1024), ge=1, le=1 << 26, description="bytes of the document that is asked for"
    )
    rate: float = Field(500.0, gt=0, le=1e6, description="requests a second, over all connections")
    spacing: Literal["poisson", "constant"] = Field(
        "poisson",
        description="how the instants at which requests are due lie: as many independent users "
        "make them, or all the same time apart",
    )
    time_s: float = Field(2.0, gt=0, le=86_400, description="length in seconds")
    connections: int = Field(
        16, ge=1, le=1024, strict=True, description="no more connections at once"
    )
    keep_alive: bool = Field(True, description="false: a connection for each request")
    think_s: float = Field(
        0.0,
        ge=0,
        le=3600,
        description="seconds that a connection rests after an answer before it carries another "
        "request",
    )
    deadline_s: float = Field(
        2.0, gt=0, le=3600, description="seconds that a request may take from when it is sent"
    )
    late_limit_s: float = Field(
        0.01,
        gt=0,
        le=60,
        description="the generator may itself be so late, in seconds, with one request in a "
        "hundred; beyond it the trial is invalid",
    )
    errors_allowed: float = Field(
        0.0, ge=0, lt=0.5, description="share of the requests that may go without an answer"
    )

    @model_validator(mode="after")
    def _possible(self) -> WebLatencyParameters:
        if self.requests < 2 * SAMPLES_ABOVE:
            raise ValueError(
                f"rate x time_s gives {self.requests:g} requests: not enough for a median"
            )
        if self.rate * self.think_s > self.connections:
            raise ValueError(
                f"{self.connections} connections that rest {self.think_s:g} s after each answer "
                f"cannot make {self.rate:g} requests a second"
            )
        return self

    @property
    def requests(self) -> float:
        """How many will be due; with `poisson` in the mean."""
        return self.rate * self.time_s

    @property
    def fewest(self) -> float:
        """So many are due at least: 5 standard deviations of a Poisson count below the mean."""
        return self.requests - 5 * math.sqrt(self.requests)


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
    source = (
        sources.OMISSION,
        "B. Schroeder, A. Wierman, M. Harchol-Balter: Open Versus Closed: A Cautionary Tale, "
        "NSDI 2006, "
        "<https://www.usenix.org/conference/nsdi-06/open-versus-closed-cautionary-tale>",
    )
    parameters_model = WebLatencyParameters
    metrics = (
        Metric(
            name="latency_p50",
            unit="s",
            better="lower",
            primary=True,
            description="Half of the requests had their whole answer within this time from when "
            "they were due.",
            part=True,
        ),
        Metric(
            name="latency_p99",
            unit="s",
            better="lower",
            description="99 % of the requests had their whole answer within this time. Absent with "
            "fewer than about 625 requests.",
        ),
        Metric(
            name="latency",
            unit="s",
            better="lower",
            coordinate=QUANTILE,
            description="The distribution, as far as there are at least 5 times above each point.",
        ),
        Metric(
            name="exchange_p50",
            unit="s",
            better="lower",
            description="Median from when a request was sent: without its wait for a free "
            "connection, and without the generator's lateness.",
        ),
        Metric(
            name="replies_per_second",
            unit="1/s",
            better="higher",
            description="Answers over the time until the last of them: below `rate` where the "
            "server did not keep up.",
        ),
        Metric(
            name="generator_late_p99",
            unit="s",
            better="lower",
            description="Of the requests that a free connection waited to send, 1 % were sent "
            "later than this after they were due. Absent with fewer than 500 of these.",
        ),
        SERVER_CPU,
    )

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
        argv = [LOAD, "http", f"{context.addresses['server']}:{parameters.port}"]
        argv += ["--path", f"/{length}", "--bytes", str(length), "--seed", str(context.seed)]
        argv += ["--rate", repr(parameters.rate), "--spacing", parameters.spacing]
        argv += ["--time", repr(parameters.time_s), "--connections", str(parameters.connections)]
        argv += ["--think", repr(parameters.think_s), "--deadline", repr(parameters.deadline_s)]
        argv += ["--late-limit", repr(parameters.late_limit_s)]
        argv += [] if parameters.keep_alive else ["--close"]
        # What is due when the time is over is sent for another deadline.
        longest_s = parameters.time_s + 3 * parameters.deadline_s + parameters.think_s
        return Task("client", tuple(argv), timeout_s=60.0 + longest_s)

    def check_client(self, parameters: WebLatencyParameters, outputs: Outputs) -> None:
        """The requests as asked, all accounted for, in time, and answered."""
        result = _result(outputs)
        check_echoes(*_echoes(parameters, result))
        check_valid(result)
        errors = sum(result.errors.values())
        if result.answered + errors != result.due or result.latency.count != result.answered:
            raise InvalidTrialError(
                f"{result.due} requests were due, {result.answered} were answered, {errors} not"
            )
        if abs(result.due - parameters.requests) > parameters.requests - parameters.fewest + 1:
            raise InvalidTrialError(
                f"{parameters.requests:g} requests were asked for, {result.due} were due"
            )
        if errors > parameters.errors_allowed * result.due:
            kinds = ", ".join(f"{quoted(k)} {n}" for k, n in result.errors.items() if n)
            raise InvalidTrialError(f"{errors} of {result.due} had no answer: {kinds[:200]}")
        _quantiles(parameters, result)

    def replies(self, parameters: WebLatencyParameters, outputs: Outputs) -> int:
        """Those answered in full."""
        return _result(outputs).answered

    def figures(self, parameters: WebLatencyParameters, outputs: Outputs) -> Figures:
        result = _result(outputs)
        points = _quantiles(parameters, result)
        figures: Figures = {
            "latency_p50": points[0.5],
            "latency": list(points.items()),
            "exchange_p50": result.exchange.median,
            "replies_per_second": result.answered / result.seconds,
        }
        if 0.99 in points:
            figures["latency_p99"] = points[0.99]
        late = dict(result.lateness.woken.quantiles) if result.lateness.woken else {}
        if 0.99 in late:
            figures["generator_late_p99"] = late[0.99]
        return figures


class _Late(ReportPart):
    woken: Distribution | None


class _Http(LoadReport):
    mode: Literal["http"]
    rate: float
    spacing: str
    time_s: float
    connections: int
    close: bool
    think_s: float
    deadline_s: float
    late_limit_s: float
    bytes: int
    seconds: float = Field(gt=0, lt=1e9)
    due: DoubleCount
    answered: int = Field(ge=1, lt=1 << 53)
    errors: dict[str, DoubleCount] = Field(max_length=20)
    latency: Distribution
    exchange: Distribution
    quantiles: list[tuple[Quantile, Annotated[float, Field(gt=0, lt=1e9)]]] = Field(max_length=20)
    lateness: _Late


class _Failed(ReportPart):
    due: DoubleCount
    answered: Literal[0]
    errors: dict[str, DoubleCount] = Field(max_length=20)


def _result(outputs: Outputs) -> _Http:
    text = output_of(outputs, "client").stdout
    try:
        none = read(_Failed, text, "client")
    except InvalidTrialError:
        return read(_Http, text, "client")
    kinds = ", ".join(f"{quoted(kind)} {n}" for kind, n in none.errors.items() if n)
    raise InvalidTrialError(f"none of {none.due} requests had an answer: {kinds[:200]}")


def _echoes(parameters: WebLatencyParameters, result: _Http) -> list[Echo]:
    return [
        ("rate", parameters.rate, result.rate),
        ("spacing", parameters.spacing, result.spacing),
        ("seconds", parameters.time_s, result.time_s),
        ("connections", parameters.connections, result.connections),
        ("keep-alive", parameters.keep_alive, not result.close),
        ("think time", parameters.think_s, result.think_s),
        ("deadline", parameters.deadline_s, result.deadline_s),
        ("limit of lateness", parameters.late_limit_s, result.late_limit_s),
        ("bytes", int(parameters.document), result.bytes),
    ]


def _quantiles(parameters: WebLatencyParameters, result: _Http) -> dict[float, float]:
    """Those that every trial with these parameters supports, so that trials have the same ones."""
    measured = dict(result.quantiles)
    fewest = max(parameters.fewest, 2 * SAMPLES_ABOVE)
    expected = [q for q in QUANTILES if fewest * (1 - q) >= SAMPLES_ABOVE or q == QUANTILES[0]]
    if parameters.errors_allowed:
        expected = [q for q in expected if q in measured]
    points = {q: measured[q] for q in expected if q in measured}
    if not points or len(points) != len(expected):
        raise InvalidTrialError(f"quantiles {expected} were expected, {list(measured)} were told")
    times = list(points.values())
    if times != sorted(times):
        raise InvalidTrialError("its quantiles do not rise")
    return points
