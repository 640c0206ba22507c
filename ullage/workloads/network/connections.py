"""Workload `connections`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from ullage.host import binaries
from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import (
    Context,
    Figures,
    InvalidTrialError,
    Output,
    Outputs,
    Task,
    counted,
)
from ullage.workloads.network import endpoints, load_report
from ullage.workloads.network.load_report import LoadReport, Time, TimeDistribution
from ullage.workloads.output import QUANTILE, Count, Echo, ReportPart, check_echoes, output_of, read

DRAIN_S = 5.0
"""What is due by the end may still begin so long after it: the program's own default."""


class ConnectionsParameters(endpoints.PeerParameters):
    """To whom, with how many threads, how fast, and for how long."""

    threads: int = Field(
        4, ge=1, le=1024, strict=True, description="client threads, each with one connection"
    )
    rate: float | None = Field(
        None,
        gt=0,
        le=1e7,
        allow_inf_nan=False,
        description="connections a second at instants fixed beforehand (open loop); absent: each "
        "thread makes the next one when it has ended one (closed loop)",
    )
    spacing: Literal["poisson", "constant"] = Field(
        "poisson", description="how the instants of the open loop lie"
    )
    time_s: float = Field(
        1.0, ge=0.1, le=86_400, allow_inf_nan=False, description="length in seconds"
    )
    connections: int | None = Field(
        None, ge=1, le=10**9, strict=True, description="end after so many; absent: no such end"
    )
    echo: bool = Field(False, description="one byte there and back on each connection")
    close: Literal["server", "client", "reset"] = Field(
        "server",
        description="which side ends a connection, and so keeps its port for a minute; `reset`: "
        "the client, so that nobody keeps one",
    )
    error_limit: float = Field(
        0.0, ge=0, lt=1, description="share of the connections that may fail"
    )
    late_limit_s: float = Field(
        0.01,
        gt=0,
        le=10,
        description="of the open loop: the generator itself may wake so late for 1 % of the "
        "connections",
    )
    port: int = Field(7000, ge=1, le=65_535, strict=True, description="TCP port of the server")

    @model_validator(mode="after")
    def _countable(self) -> ConnectionsParameters:
        if self.close == "client" and self.rate is None and self.connections is None:
            raise ValueError(
                "where the client closes, each connection keeps a port for a minute: give rate "
                "or connections, so that it is known beforehand how many"
            )
        return self


class Connections(endpoints.BetweenTwo[ConnectionsParameters]):
    """TCP connections made and ended, as fast as they go or at a stated rate.

    Each is a socket, a connect, one byte there and back if `echo`, and a close: what servers do
    that are asked once by each client, and what a packet filter, an address translation or a
    virtual switch pays for. Client and server are ours (`ullage-load connect` and `listen`), since
    the program of the study `network-pipeline` (2017, of [the studies](../../guide/studies.md)),
    uperf with its connection profile, is in no Debian. It let 1, 2, 4 … 32 threads run for 90 s
    (`vary: {threads: [1, 2, 4, 8, 16, 32]}`, `time_s: 90`). The server has a thread for each of its
    cores. Its figure is another: uperf prints operations a second, and counts a connection twice,
    as a connect and a disconnect; its server has a thread for each of the client's; and whoever
    comes first closes. Whether the study printed operations or connections it does not say.

    By default the server closes first, as a web server does after `Connection: close`: then the
    client, which waits for it, keeps no port and the number of connections has no limit; and each
    one was accepted by the program, not only by its kernel. Where the client closes, Linux keeps
    each port for 60 s. The generator works out before it starts how many ports and descriptors it
    will need, and refuses if there are not enough.

    In the open loop a connection is timed from when it was due, so that one that had to wait for a
    stalled server counts with its waiting time (G. Tene's "coordinated omission"). What was late
    because the generator itself woke late makes the trial invalid beyond `late_limit_s`.
    """

    name = "connections"
    resource = "network"
    ends = ("client", "server")
    packages = ()
    source = (
        sources.NETWORK_PIPELINE,
        "uperf, whose connection profile that study ran: <https://www.uperf.org/>",
        sources.OMISSION,
    )
    scaling = ("threads",)
    parameters_model = ConnectionsParameters
    metrics = (
        Metric(
            name="connections_per_second",
            unit="1/s",
            better="higher",
            primary=True,
            description="Connections ended, both ways, in a second of the time asked for.",
        ),
        Metric(
            name="latency",
            unit="s",
            better="lower",
            coordinate=QUANTILE,
            description="Time from when a connection was due (closed loop: begun) until it was "
            "closed, that this share of them did not exceed.",
        ),
        Metric(
            name="median_connect",
            unit="s",
            better="lower",
            description="Median time from then until the connection stood.",
        ),
        Metric(
            name="errors",
            unit="1",
            better="lower",
            description="Share of the connections that failed.",
        ),
        Metric(
            name="instance_cpu",
            unit="s",
            better="lower",
            description="CPU time of the client for each connection: its own and the kernel's for "
            "it, not that of a hypervisor or of interrupts.",
        ),
        Metric(
            name="peer_cpu",
            unit="s",
            better="lower",
            description="CPU time of the server for each connection, from its start to its end.",
        ),
    )

    def files(self, parameters: ConnectionsParameters) -> Mapping[str, Path]:
        """Both ends are one program."""
        return {load_report.PROGRAM: binaries.program(load_report.PROGRAM)}

    def title(self, parameters: ConnectionsParameters) -> str:
        """`connections to the host, 4 threads`; `…, 4 threads at 1000/s`."""
        threads = counted(parameters.threads, "thread")
        rate = "" if parameters.rate is None else f" at {parameters.rate:g}/s"
        return f"connections to {endpoints.peer_in_words(parameters.peer)}, {threads}{rate}"

    def duration_s(self, parameters: ConnectionsParameters) -> float:
        return parameters.time_s

    def tasks(self, parameters: ConnectionsParameters, context: Context) -> Sequence[Task]:
        shared = ("--close", parameters.close, *(("--echo",) if parameters.echo else ()))
        timeout_s = 60.0 + parameters.time_s + 2 * DRAIN_S
        listen = (f"./{load_report.PROGRAM}", "listen", "--port", str(parameters.port), *shared)
        return (
            Task("server", listen, service=True, ready="listening on", timeout_s=timeout_s),
            Task("client", (*self._client(parameters, context), *shared), timeout_s=timeout_s),
        )

    def _client(self, parameters: ConnectionsParameters, context: Context) -> tuple[str, ...]:
        server = f"{context.addresses['server']}:{parameters.port}"
        argv = [f"./{load_report.PROGRAM}", "connect", server]
        argv += ["--threads", str(parameters.threads), "--time", repr(parameters.time_s)]
        if parameters.rate is not None:
            argv += ["--rate", repr(parameters.rate), "--spacing", parameters.spacing]
            argv += ["--seed", str(context.seed), "--late-limit", repr(parameters.late_limit_s)]
        if parameters.connections is not None:
            argv += ["--connections", str(parameters.connections)]
        return tuple(argv)

    def check(self, parameters: ConnectionsParameters, outputs: Outputs) -> None:
        """Made as asked, every one accounted for, at both ends, and all but a few well."""
        report = read(_Client, output_of(outputs, "client").stdout)
        load_report.check_valid(report)
        check_echoes(*_echoes(parameters, report))
        if report.unsent:
            raise InvalidTrialError(
                f"{report.unsent} connections were due and never begun: {parameters.rate}/s is "
                "more than goes here"
            )
        failed = report.started - report.completed
        if failed > parameters.error_limit * report.started:
            raise InvalidTrialError(
                f"{failed} of {report.started} connections failed: {report.errors.in_words}"
            )
        load_report.check_distribution("latency", report.latency, report.completed)
        load_report.check_distribution("established", report.established, report.completed)
        _check_rate(parameters, report)
        _check_served(parameters, report, output_of(outputs, "server"))

    def parse(self, parameters: ConnectionsParameters, outputs: Outputs) -> Figures:
        report = read(_Client, outputs["client"].stdout)
        assert report.latency is not None and report.established is not None
        figures: Figures = {
            "connections_per_second": report.connections_per_second,
            "latency": report.latency.curve,
            "median_connect": report.established.median,
            "errors": (report.started - report.completed) / report.started,
        }
        for name, role in (("instance_cpu", "client"), ("peer_cpu", "server")):
            if cpu_s := outputs[role].cpu_s:
                figures[name] = cpu_s / report.completed
        return figures


class _Errors(ReportPart):
    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))

    refused: Count
    timed_out: Count
    reset: Count
    unreachable: Count
    no_port: Count
    no_descriptor: Count
    not_as_agreed: Count
    other: Count

    @property
    def counts(self) -> dict[str, int]:
        """Kind → how often."""
        return self.model_dump(by_alias=True)

    @property
    def in_words(self) -> str:
        """`12 refused, 1 timed-out`."""
        return ", ".join(f"{count} {kind}" for kind, count in self.counts.items() if count)


class _Client(LoadReport):
    loop: str
    threads: Count
    rate: float | None
    spacing: str | None
    echo: bool
    close: str
    time_s: Time
    seconds: Time
    started: Count
    completed: Count
    in_time: Count
    connections_per_second: float = Field(ge=0)
    unsent: Count
    errors: _Errors
    latency: TimeDistribution | None
    established: TimeDistribution | None


class _Server(ReportPart):
    mode: str
    threads: Count
    accepted: Count
    answered: Count
    failed: Count


def _echoes(parameters: ConnectionsParameters, report: _Client) -> list[Echo]:
    """What was asked for beside what the client says it did."""
    opened = parameters.rate is not None
    most = report.started if parameters.connections is None else parameters.connections
    return [
        ("mode", "connect", report.mode),
        ("loop", "open" if opened else "closed", report.loop),
        ("threads", parameters.threads, report.threads),
        ("rate", parameters.rate, report.rate),
        ("spacing", parameters.spacing if opened else None, report.spacing),
        ("echo", parameters.echo, report.echo),
        ("close", parameters.close, report.close),
        ("seconds", parameters.time_s, report.time_s),
        ("no more than the connections", True, report.started <= most),
        ("started", report.completed + sum(report.errors.counts.values()), report.started),
    ]


def _check_rate(parameters: ConnectionsParameters, report: _Client) -> None:
    """The rate is that of the connections that ended in the time asked for."""
    whole = parameters.connections is None or report.started < parameters.connections
    if report.seconds > report.time_s or (whole and report.seconds < report.time_s):
        raise InvalidTrialError(
            f"{report.time_s} s were asked for, {report.seconds} s were measured"
        )
    if not 0 < report.in_time <= report.completed:
        raise InvalidTrialError(f"{report.in_time} of {report.completed} connections were in time")
    rate = report.in_time / report.seconds
    if abs(rate - report.connections_per_second) > 1e-6 * rate:
        raise InvalidTrialError(
            f"{report.in_time} connections in {report.seconds} s are not "
            f"{report.connections_per_second} in each"
        )


def _check_served(parameters: ConnectionsParameters, report: _Client, output: Output) -> None:
    """The server saw what the client says it made."""
    served = read(_Server, output.stdout)
    check_echoes(("mode", "listen", served.mode))
    # Where the client closes at once, the server may not have come to the last of them.
    reached = served.answered if parameters.echo else served.accepted
    if (parameters.echo or parameters.close == "server") and reached < report.completed:
        raise InvalidTrialError(
            f"{report.completed} connections were made, the server saw {reached} of them"
        )
