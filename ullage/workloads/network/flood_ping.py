"""Workload `flood-ping`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from ullage.host import binaries
from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, InvalidTrialError, Outputs, Task, counted
from ullage.workloads.network import endpoints, load_report
from ullage.workloads.network.load_report import LoadReport, Time, TimeDistribution
from ullage.workloads.output import QUANTILE, Count, check_echoes, output_of, read

NATIVE_S = 3e-5
"""Of one exchange between two namespaces, for the estimate."""


class FloodPingParameters(endpoints.PeerParameters):
    """Whom to probe, with what, and how often."""

    count: int = Field(5000, ge=100, le=10_000_000, strict=True, description="echo requests")
    size: int = Field(
        12,
        ge=0,
        le=65_507,
        strict=True,
        description="bytes of payload, after the 8 of the ICMP header",
    )
    loss_limit: float = Field(
        0.01, ge=0, lt=1, description="share of the requests that may stay without an answer"
    )


class FloodPing(endpoints.BetweenTwo[FloodPingParameters]):
    """Round-trip times of ICMP echo, the next request when the reply came (a flood ping).

    Ours instead of `ping -f`, because Debian's ping gives no times for payloads under 16 bytes and
    never a distribution. It does the same: a request, then the next as soon as the reply is there
    or after 10 ms. A round trip is from just before the request is sent until the kernel has the
    reply, as ping tells it; with payloads of 16 and 56 bytes the two agree. The answers come from
    the other end's kernel, so nothing runs there. `mpi-degradation` (2012, of [the
    studies](../../guide/studies.md)) sent 10,000 requests (`count: 10000`) of 12 bytes.

    Quantiles are told as far out as at least five requests lie above them: 0.99 of 500, 0.999 of
    5,000.
    """

    name = "flood-ping"
    resource = "network"
    ends = ("prober", "peer")
    packages = ()
    source = (
        "ping(8) of iputils, `-f`: "
        "<https://manpages.debian.org/bookworm/iputils-ping/ping.8.en.html>",
        sources.MPI_DEGRADATION,
    )
    parameters_model = FloodPingParameters
    metrics = (
        Metric(
            name="median_rtt",
            unit="s",
            better="lower",
            primary=True,
            description="Half of the round trips took no longer.",
            part=True,
        ),
        Metric(
            name="rtt",
            unit="s",
            better="lower",
            coordinate=QUANTILE,
            description="Round-trip time that this share of them did not exceed.",
        ),
        Metric(
            name="median_rtt_user",
            unit="s",
            better="lower",
            description="Median round trip until the program had the reply: with the time that "
            "its waking took.",
        ),
        Metric(
            name="loss",
            unit="1",
            better="lower",
            description="Share of the requests that were never answered.",
        ),
        Metric(
            name="late",
            unit="1",
            better="lower",
            description="Share of the requests that were answered after the next was sent.",
        ),
    )

    def files(self, parameters: FloodPingParameters) -> Mapping[str, Path]:
        return {load_report.PROGRAM: binaries.program(load_report.PROGRAM)}

    def title(self, parameters: FloodPingParameters) -> str:
        """`flood ping to the host, 12 bytes`."""
        size = counted(parameters.size, "byte")
        return f"flood ping to {endpoints.peer_in_words(parameters.peer)}, {size}"

    def duration_s(self, parameters: FloodPingParameters) -> float:
        """As it is between two namespaces."""
        return parameters.count * NATIVE_S

    def tasks(self, parameters: FloodPingParameters, context: Context) -> Sequence[Task]:
        argv = [f"./{load_report.PROGRAM}", "icmp", context.addresses["peer"]]
        argv += ["--count", str(parameters.count), "--size", str(parameters.size)]
        # Each request may take the 10 ms after which the next overtakes it.
        return (Task("prober", tuple(argv), timeout_s=60.0 + 0.02 * parameters.count),)

    def check(self, parameters: FloodPingParameters, outputs: Outputs) -> None:
        """All were sent, as large as asked, and all but a few answered, unchanged."""
        probes = read(_Probes, output_of(outputs, "prober").stdout)
        load_report.check_valid(probes)
        check_echoes(
            ("mode", "icmp", probes.mode),
            ("requests", parameters.count, probes.sent),
            ("bytes", parameters.size, probes.size),
            ("answered or lost", probes.sent, probes.received + probes.lost),
        )
        if probes.corrupt:
            raise InvalidTrialError(f"{probes.corrupt} replies were not what was sent")
        if probes.lost > parameters.loss_limit * probes.sent:
            raise InvalidTrialError(f"{probes.lost} of {probes.sent} requests were not answered")
        if probes.late > probes.received:
            raise InvalidTrialError(f"{probes.late} of {probes.received} replies cannot be late")
        rtt = load_report.check_distribution("rtt", probes.rtt, probes.received)
        user = load_report.check_distribution("rtt_user", probes.rtt_user, probes.received)
        if rtt.median > user.median * (1 + load_report.PRECISION):
            raise InvalidTrialError("the program had the replies before the kernel")

    def parse(self, parameters: FloodPingParameters, outputs: Outputs) -> Figures:
        probes = read(_Probes, outputs["prober"].stdout)
        assert probes.rtt is not None and probes.rtt_user is not None
        return {
            "median_rtt": probes.rtt.median,
            "rtt": probes.rtt.curve,
            "median_rtt_user": probes.rtt_user.median,
            "loss": probes.lost / probes.sent,
            "late": probes.late / probes.sent,
        }

    def facts(self, parameters: FloodPingParameters, outputs: Outputs) -> dict[str, str]:
        """By which kind of socket it probed, and what came twice."""
        probes = read(_Probes, outputs["prober"].stdout)
        return {"socket": probes.socket[:10], "duplicates": str(probes.duplicates)}


class _Probes(LoadReport):
    socket: str
    size: Count
    sent: Count
    received: Count
    lost: Count
    late: Count
    duplicates: Count
    corrupt: Count
    seconds: Time
    rtt: TimeDistribution | None
    rtt_user: TimeDistribution | None
