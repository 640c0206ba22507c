"""Requests over HTTP at a stated rate (open loop), by `ullage-load http`: what may be asked of it,
its report, and its figures."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from ullage.runs.records import Metric
from ullage.workloads.base import Figures, InvalidTrialError, Outputs, Parameters
from ullage.workloads.network.load_report import LoadReport, TimeDistribution, check_valid
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
from ullage.workloads.web.web_server import LOAD

QUANTILES: Final = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)

QuantileLevel = Annotated[float, Field(gt=0, lt=1)]
StatusCode = Annotated[int, Field(ge=100, le=999)]


class OpenLoopParameters(Parameters):
    """How often, over how many connections, and how long an answer may take."""

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
    def _possible(self) -> OpenLoopParameters:
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


METRICS: Final = (
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
)


def arguments(parameters: OpenLoopParameters, address: str, path: str, seed: int) -> list[str]:
    """The client, that asks `ADDRESS:PORT` for a path."""
    argv = [LOAD, "http", address, "--path", path, "--seed", str(seed)]
    argv += ["--rate", repr(parameters.rate), "--spacing", parameters.spacing]
    argv += ["--time", repr(parameters.time_s), "--connections", str(parameters.connections)]
    argv += ["--think", repr(parameters.think_s), "--deadline", repr(parameters.deadline_s)]
    argv += ["--late-limit", repr(parameters.late_limit_s)]
    return argv + ([] if parameters.keep_alive else ["--close"])


def timeout_s(parameters: OpenLoopParameters) -> float:
    """What is due when the time is over is sent for another deadline."""
    return 60.0 + parameters.time_s + 3 * parameters.deadline_s + parameters.think_s


class _Late(ReportPart):
    woken: TimeDistribution | None


class HttpReport(LoadReport):
    mode: Literal["http"]
    rate: float
    spacing: str
    time_s: float
    connections: int
    close: bool
    think_s: float
    deadline_s: float
    late_limit_s: float
    bytes: int | None
    status: int = 200
    """Reports of before tell neither it nor the next two."""
    method: str = "GET"
    body_bytes: DoubleCount = 0
    seconds: float = Field(gt=0, lt=1e9)
    due: DoubleCount
    answered: int = Field(ge=1, lt=1 << 53)
    errors: dict[str, DoubleCount] = Field(max_length=20)
    other_status: StatusCode | None = None
    """The first that was not `status`, if any was another."""
    opened: DoubleCount | None = None
    """Connections in all, those in place of ended ones too; reports of before do not tell it."""
    latency: TimeDistribution
    exchange: TimeDistribution
    quantiles: list[tuple[QuantileLevel, Annotated[float, Field(gt=0, lt=1e9)]]] = Field(
        max_length=20
    )
    lateness: _Late


class _Failed(ReportPart):
    due: DoubleCount
    answered: Literal[0]
    errors: dict[str, DoubleCount] = Field(max_length=20)
    status: int = 200
    other_status: StatusCode | None = None


def report(outputs: Outputs, hint: str = "") -> HttpReport:
    """`hint`: what to do about answers of another status."""
    text = output_of(outputs, "client").stdout
    try:
        none = read(_Failed, text, "client")
    except InvalidTrialError:
        return read(HttpReport, text, "client")
    raise InvalidTrialError(f"none of {none.due} requests had an answer: {_kinds(none, hint)}")


def check(
    parameters: OpenLoopParameters, answers: HttpReport, *echoes: Echo, hint: str = ""
) -> None:
    """The requests as asked, all accounted for, in time, and answered."""
    check_echoes(*_echoes(parameters, answers), *echoes)
    check_valid(answers)
    errors = sum(answers.errors.values())
    if answers.answered + errors != answers.due or answers.latency.count != answers.answered:
        raise InvalidTrialError(
            f"{answers.due} requests were due, {answers.answered} were answered, {errors} not"
        )
    if abs(answers.due - parameters.requests) > parameters.requests - parameters.fewest + 1:
        raise InvalidTrialError(
            f"{parameters.requests:g} requests were asked for, {answers.due} were due"
        )
    if errors > parameters.errors_allowed * answers.due:
        raise InvalidTrialError(f"{errors} of {answers.due} had no answer: {_kinds(answers, hint)}")
    _quantiles(parameters, answers)


def figures(parameters: OpenLoopParameters, answers: HttpReport) -> Figures:
    """Of a checked report, by `METRICS`."""
    points = _quantiles(parameters, answers)
    values: Figures = {
        "latency_p50": points[0.5],
        "latency": list(points.items()),
        "exchange_p50": answers.exchange.median,
        "replies_per_second": answers.answered / answers.seconds,
    }
    if 0.99 in points:
        values["latency_p99"] = points[0.99]
    late = dict(answers.lateness.woken.quantiles) if answers.lateness.woken else {}
    if 0.99 in late:
        values["generator_late_p99"] = late[0.99]
    return values


def _kinds(result: HttpReport | _Failed, hint: str) -> str:
    """`'status' 111 (answered 302, not 200)`."""
    kinds = ", ".join(f"{quoted(kind)} {n}" for kind, n in result.errors.items() if n)[:200]
    if result.other_status is None:
        return kinds
    return f"{kinds} (answered {result.other_status}, not {result.status}{hint})"


def _echoes(parameters: OpenLoopParameters, result: HttpReport) -> list[Echo]:
    return [
        ("rate", parameters.rate, result.rate),
        ("spacing", parameters.spacing, result.spacing),
        ("seconds", parameters.time_s, result.time_s),
        ("connections", parameters.connections, result.connections),
        ("keep-alive", parameters.keep_alive, not result.close),
        ("think time", parameters.think_s, result.think_s),
        ("deadline", parameters.deadline_s, result.deadline_s),
        ("limit of lateness", parameters.late_limit_s, result.late_limit_s),
    ]


def _quantiles(parameters: OpenLoopParameters, result: HttpReport) -> dict[float, float]:
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
