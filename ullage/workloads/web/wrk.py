"""Workload `wrk`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import ByteSize, Field, model_validator

from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, InvalidTrialError, Outputs, Task, counted
from ullage.workloads.output import (
    QUANTILE,
    SAMPLES_ABOVE,
    DoubleCount,
    ReportPart,
    output_of,
    read,
)
from ullage.workloads.web.web_server import PLACES, SERVER_CPU, Web, WebParameters

SCRIPT = Path(__file__).with_name("wrk.lua")

PERCENTS = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
"""As `wrk.lua` asks for them."""

FEWEST_A_SECOND = 250
"""The quantiles of a trial are those that so few replies a second would support, so that all trials
have the same ones; a trial with fewer has no curve beyond its own."""

LONGEST_HEAD = 1024
"""Bytes of an answer's head: 250 in fact."""

DESCRIPTORS = 16
"""Of a thread of wrk, beside its connections."""


class WrkParameters(WebParameters):
    """How many connections ask, and for how long."""

    document: ByteSize = Field(
        ByteSize(1024), ge=1, le=1 << 30, description="bytes of the document that is asked for"
    )
    connections: int = Field(
        16, ge=1, le=4096, strict=True, description="connections that are open all the time"
    )
    threads: int = Field(
        1, ge=1, le=256, strict=True, description="threads of wrk, which share the connections"
    )
    time_s: int = Field(2, ge=1, le=86_400, strict=True, description="length in seconds")
    timeout_s: int = Field(
        2, ge=1, le=3600, strict=True, description="an answer that takes longer is an error"
    )
    errors_allowed: float = Field(
        0.0, ge=0, lt=0.5, description="errors that are allowed, as a share of the replies"
    )

    @model_validator(mode="after")
    def _possible(self) -> WrkParameters:
        if self.connections % self.threads:
            raise ValueError(
                f"connections must be a multiple of threads: wrk would open "
                f"{self.connections // self.threads * self.threads} of {self.connections}"
            )
        return self


class Wrk(Web[WrkParameters]):
    """Requests that a web server answers in a second, asked as fast as it answers (`wrk`).

    Each connection sends its next request when it has its answer (closed loop), so throughput is
    what is measured here. The latencies are those of a saturated server, and leave out what a
    server that stalls keeps users from sending ("coordinated omission"); wrk adds guessed times
    for those after the fact (`stats_correct` in its `src/wrk.c`, https://github.com/wg/wrk). For
    latency use `web-latency`. wrk tells a status of 400 or more, socket errors and answers that
    took too long; it looks at no content, so that the mean length of the answers is checked
    instead, and it says nothing of a connection that the server closes between two requests.
    """

    name = "wrk"
    packages = ("nginx", "apache2", "wrk")
    source = (
        "W. Glozer, wrk 4.1.0: its manual, <https://github.com/wg/wrk>",
        sources.OMISSION,
    )
    parameters_model = WrkParameters
    metrics = (
        Metric(
            name="requests_per_second",
            unit="1/s",
            better="higher",
            primary=True,
            description="Replies in a second, over all connections.",
        ),
        Metric(
            name="latency_mean",
            unit="s",
            better="lower",
            description="Mean time from a request to its whole reply, wrk's guesses included.",
        ),
        Metric(
            name="latency",
            unit="s",
            better="lower",
            coordinate=QUANTILE,
            description="The distribution of these times, as far as there are at least 5 above "
            "each point.",
        ),
        SERVER_CPU,
    )
    scaling = ("connections",)

    def programs(self, parameters: WrkParameters) -> Mapping[str, str]:
        return {**super().programs(parameters), "wrk": "wrk"}

    def title(self, parameters: WrkParameters) -> str:
        """`nginx, 16 connections from the host`."""
        many = counted(parameters.connections, "connection")
        return f"{parameters.server}, {many} from {PLACES[parameters.client]}"

    def duration_s(self, parameters: WrkParameters) -> float:
        return float(parameters.time_s)

    def documents(self, parameters: WrkParameters) -> Sequence[int]:
        return (int(parameters.document),)

    def files(self, parameters: WrkParameters) -> Mapping[str, Path]:
        return {**super().files(parameters), SCRIPT.name: SCRIPT}

    def client(self, parameters: WrkParameters, context: Context) -> Task:
        """wrk, with as many descriptors as it needs."""
        needed = parameters.connections + parameters.threads * DESCRIPTORS
        argv = ["prlimit", f"--nofile={max(1024, needed)}", "wrk", "-s", SCRIPT.name]
        argv += ["-t", str(parameters.threads), "-c", str(parameters.connections)]
        argv += ["-d", f"{parameters.time_s}s", "--timeout", f"{parameters.timeout_s}s"]
        argv += [_url(parameters, context.addresses["server"])]
        return Task("client", tuple(argv), timeout_s=60.0 + parameters.time_s)

    def check_client(self, parameters: WrkParameters, outputs: Outputs) -> None:
        """As many threads and connections for as long as asked, and good answers."""
        result = _result(parameters, outputs)
        took_s = result.duration_us / 1e6
        if abs(took_s - parameters.time_s) > max(1.0, 0.2 * parameters.time_s):
            raise InvalidTrialError(f"{parameters.time_s} s were asked for, it took {took_s} s")
        if result.errors > parameters.errors_allowed * result.requests:
            raise InvalidTrialError(
                f"{result.requests} replies, and errors: connect {result.connect}, "
                f"read {result.read}, write {result.write}, status {result.status}, "
                f"timeout {result.timeout}"
            )
        # What is on its way at the end is counted with the bytes, and not with the replies.
        length = int(parameters.document)
        least, most = (
            length * result.requests,
            (length + LONGEST_HEAD) * (result.requests + parameters.connections),
        )
        if not parameters.errors_allowed and not least < result.bytes < most:
            raise InvalidTrialError(
                f"{result.requests} documents of {length} bytes are not {result.bytes} bytes"
            )
        times = [result.min_us, *(time for _, time in result.points), result.max_us]
        if times != sorted(times) or not result.min_us <= result.mean_us <= result.max_us:
            raise InvalidTrialError("its latencies contradict each other")

    def replies(self, parameters: WrkParameters, outputs: Outputs) -> int:
        """All, but those with an error's status."""
        result = _result(parameters, outputs)
        return result.requests - result.status

    def figures(self, parameters: WrkParameters, outputs: Outputs) -> Figures:
        result = _result(parameters, outputs)
        return {
            "requests_per_second": (result.requests - result.status) / (result.duration_us / 1e6),
            "latency_mean": result.mean_us / 1e6,
            "latency": [
                (percent / 100, time / 1e6) for percent, time in _supported(parameters, result)
            ],
        }


class _Wrk(ReportPart):
    duration_us: int = Field(gt=0, lt=1 << 53)
    requests: int = Field(gt=0, lt=1 << 53)
    bytes: DoubleCount
    connect: DoubleCount
    read: DoubleCount
    write: DoubleCount
    status: DoubleCount
    timeout: DoubleCount
    min_us: int = Field(gt=0, lt=1 << 53)
    mean_us: float = Field(gt=0, lt=1e15)
    max_us: int = Field(gt=0, lt=1 << 53)
    points: list[tuple[float, Annotated[int, Field(gt=0, lt=1 << 53)]]] = Field(max_length=20)

    @property
    def errors(self) -> int:
        return self.connect + self.read + self.write + self.status + self.timeout


def _result(parameters: WrkParameters, outputs: Outputs) -> _Wrk:
    """The JSON object at the end; before it what wrk was asked for, and its own rounded figures."""
    text = output_of(outputs, "client").stdout
    head, _, last = text.rstrip("\n").rpartition("\n")
    settings = f"  {parameters.threads} threads and {parameters.connections} connections"
    if settings not in head[:4096].split("\n"):
        raise InvalidTrialError(f"wrk does not say {settings.strip()!r}")
    result = read(_Wrk, last, "wrk")
    if tuple(percent for percent, _ in result.points) != PERCENTS:
        raise InvalidTrialError("wrk: not the quantiles that were asked for")
    if result.status >= result.requests:
        raise InvalidTrialError(f"all {result.requests} replies have an error's status")
    return result


def _supported(parameters: WrkParameters, result: _Wrk) -> list[tuple[float, int]]:
    fewest = min(result.requests, FEWEST_A_SECOND * parameters.time_s)
    return [
        (percent, time)
        for percent, time in result.points
        if percent == PERCENTS[0] or fewest * (100 - percent) / 100 >= SAMPLES_ABOVE
    ]


def _url(parameters: WrkParameters, address: str) -> str:
    return f"http://{address}:{parameters.port}/{int(parameters.document)}"
