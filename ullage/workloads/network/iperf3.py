"""Workload `iperf3`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import ByteSize, Field, model_validator

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
from ullage.workloads.network import endpoints
from ullage.workloads.output import Count, Echo, ReportPart, check_echoes, output_of, quoted, read

_VERSION: Final = re.compile(r"iperf 3\.([0-9]{1,3})(?![0-9])")
_WORKS: Final = 12
"""Of 3.x: Debian 12's."""

LONGEST_RESULT: Final = 1 << 20
"""Characters: 128 streams without reports on the way take a sixth of it."""

Congestion = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,15}$")]


class Opening(ReportPart):
    """What tells whether the rest can be read."""

    error: str | None = None
    """What there is when it could not work."""
    start: dict[str, Any] = Field(default_factory=dict)

    def too_old(self) -> str | None:
        """The version, where it is one that does not repeat the rate that it was asked for."""
        version, test = self.start.get("version"), self.start.get("test_start")
        if not isinstance(version, str) or not isinstance(test, dict) or "target_bitrate" in test:
            return None
        match = _VERSION.match(version)
        return version if match and int(match[1]) < _WORKS else None


class ConnectedTo(ReportPart):
    """Where the client connected to."""

    port: Count


class TestSettings(ReportPart):
    """The test as both ends agreed on it."""

    __test__ = False
    protocol: str
    num_streams: Count
    blksize: Count
    omit: Count
    duration: Count
    reverse: Count
    target_bitrate: Count


class Start(ReportPart):
    """What is known before the test."""

    version: str = Field(pattern=r"^iperf 3\.[0-9A-Za-z.+-]+$")
    connecting_to: ConnectedTo
    sock_bufsize: Count
    test_start: TestSettings


class Sum(ReportPart):
    """What one end counted, over all streams or of one."""

    seconds: float = Field(gt=0)
    bytes: Count
    bits_per_second: float = Field(ge=0)
    retransmits: Count | None = None


class Datagrams(Sum):
    """The same of UDP: its receiver numbers what arrives."""

    jitter_ms: float = Field(ge=0)
    lost_packets: Count
    packets: Count


class TcpStream(ReportPart):
    receiver: Sum


class UdpStream(ReportPart):
    """One flow of datagrams."""

    udp: Datagrams


class CpuShares(ReportPart):
    """Of iperf3 itself, percent of one CPU."""

    host_total: float = Field(ge=0)
    remote_total: float = Field(ge=0)


class TcpEnd(ReportPart):
    """What a test with TCP came to."""

    streams: list[TcpStream]
    sum_sent: Sum
    sum_received: Sum
    cpu_utilization_percent: CpuShares
    sender_tcp_congestion: Congestion
    receiver_tcp_congestion: Congestion


class UdpEnd(ReportPart):
    """What a test with UDP came to."""

    streams: list[UdpStream]
    sum: Datagrams
    sum_sent: Datagrams
    sum_received: Datagrams
    cpu_utilization_percent: CpuShares


class TcpResult(ReportPart):
    """The whole, with TCP."""

    start: Start
    end: TcpEnd


class UdpResult(ReportPart):
    """The whole, with UDP."""

    start: Start
    end: UdpEnd


DATAGRAM = 1448
"""Bytes: what fits into an Ethernet frame of 1,500 with the headers of IPv4 and UDP, as it would
with TCP's."""


class Iperf3Parameters(endpoints.PeerParameters):
    """Who talks to whom, how, and for how long."""

    direction: Literal["send", "receive"] = Field(
        "send", description="what the instance does: send to the peer, or receive from it"
    )
    protocol: Literal["tcp", "udp"] = Field("tcp", description="the transport")
    streams: int = Field(
        1, ge=1, le=128, strict=True, description="TCP connections, or flows of UDP, at once"
    )
    bitrate: int | None = Field(
        None,
        ge=1000,
        le=10**12,
        strict=True,
        description="bit/s that each stream offers; absent: as many as go",
    )
    datagram: ByteSize | None = Field(
        None,
        ge=16,
        le=65_507,
        description=f"bytes of payload in a datagram of UDP; absent: {DATAGRAM}",
    )
    time_s: int = Field(1, ge=1, le=86_400, strict=True, description="measured length in seconds")
    omit_s: int = Field(
        0, ge=0, le=60, strict=True, description="seconds before it that do not count"
    )
    window: ByteSize | None = Field(
        None,
        ge=4096,
        le=512 << 20,
        description="socket buffers of both ends in bytes; absent: the kernel's own tuning",
    )
    congestion: str | None = Field(
        "reno",
        pattern=r"^[a-z][a-z0-9_]{0,15}$",
        description="TCP congestion control of both ends; null: each kernel's own",
    )
    port: int = Field(5201, ge=1, le=65_535, strict=True, description="port of the server")

    @model_validator(mode="after")
    def _fits(self) -> Iperf3Parameters:
        if self.protocol == "tcp" and self.datagram is not None:
            raise ValueError("datagram is for protocol udp: TCP has no datagrams")
        return self


class Iperf3(endpoints.BetweenTwo[Iperf3Parameters]):
    """Throughput between an instance and another end, with TCP or UDP (`iperf3`).

    The instance is always iperf3's client; with `direction: receive` the server sends. The figure
    is what the receiving end received. Congestion control is `reno` unless the plan says otherwise:
    every kernel has it and lets every user choose it, while the kernels' own defaults differ
    (`cubic`, `bbr`) and would be measured instead of the environment.

    UDP has no congestion control: without `bitrate` the sender sends what it can and most of it
    may be lost, so that the throughput is what the receiver's side keeps up with. Jitter and loss
    are of interest at a `bitrate` below that. The jitter is that of RFC 3550, section 6.4.1, as
    iperf3 smooths it, and the mean over the streams.

    `peer: {environment: KEY}` sends to an instance of another environment: with `vary: {peer:
    [{environment: native}, {environment: vm}]}` every environment of the plan meets each of those:
    the matrix of `cmu-overhead` (2015, of [the studies](../../guide/studies.md)).
    """

    name = "iperf3"
    resource = "network"
    ends = ("client", "server")
    packages = ("iperf3",)
    source = (
        "ESnet, iperf3: its manual, <https://software.es.net/iperf/>",
        "RFC 3550, section 6.4.1 (jitter): <https://www.rfc-editor.org/rfc/rfc3550>",
        sources.CMU_OVERHEAD,
    )
    parameters_model = Iperf3Parameters
    metrics = (
        Metric(
            name="throughput",
            unit="bit/s",
            better="higher",
            primary=True,
            description="Bits of payload received in a second, over all streams.",
        ),
        Metric(
            name="retransmits",
            unit="1",
            better="lower",
            description="TCP segments sent again during the measured time, over all streams.",
        ),
        Metric(
            name="loss",
            unit="1",
            better="lower",
            description="Share of the datagrams that did not arrive. With UDP alone.",
        ),
        Metric(
            name="jitter",
            unit="s",
            better="lower",
            description="Mean change in the time that a datagram takes, from one to the next "
            "(RFC 3550). With UDP alone.",
        ),
        Metric(
            name="per_instance_cpu",
            unit="bit/s",
            better="higher",
            description="Bits of payload received for each second of CPU time of iperf3 in the "
            "instance: its own and the kernel's for it, not that of a hypervisor or of interrupts.",
        ),
        Metric(
            name="per_peer_cpu",
            unit="bit/s",
            better="higher",
            description="The same for iperf3 at the other end.",
        ),
    )

    def programs(self, parameters: Iperf3Parameters) -> Mapping[str, str]:
        return {"iperf3": "iperf3"}

    def title(self, parameters: Iperf3Parameters) -> str:
        """`network to the host, 1 stream`; `UDP to vm, 10 streams of 100 Mbit/s`."""
        transport = "network" if parameters.protocol == "tcp" else "UDP"
        way = "to" if parameters.direction == "send" else "from"
        streams = counted(parameters.streams, "stream")
        if parameters.bitrate is not None:
            streams += f" of {parameters.bitrate / 1e6:g} Mbit/s"
        return f"{transport} {way} {endpoints.peer_in_words(parameters.peer)}, {streams}"

    def duration_s(self, parameters: Iperf3Parameters) -> float:
        return float(parameters.omit_s + parameters.time_s)

    def tasks(self, parameters: Iperf3Parameters, context: Context) -> Sequence[Task]:
        port = str(parameters.port)
        serve = ("iperf3", "-s", "-1", "--forceflush", "-i", "0", "-p", port)
        timeout_s = 60.0 + self.duration_s(parameters)
        return (
            Task(
                "server",
                serve,
                cwd="/",
                service=True,
                ready="Server listening",
                timeout_s=timeout_s,
            ),
            Task("client", self._client(parameters, context), cwd="/", timeout_s=timeout_s),
        )

    def _client(self, parameters: Iperf3Parameters, context: Context) -> tuple[str, ...]:
        argv = ["iperf3", "-J", "-c", context.addresses["server"], "-p", str(parameters.port)]
        argv += ["--connect-timeout", "5000", "-P", str(parameters.streams)]
        # Without reports on the way: they would grow with streams × seconds, and nobody reads them.
        argv += ["-t", str(parameters.time_s), "-O", str(parameters.omit_s), "-i", "0"]
        # Of UDP, iperf3's own default is 1 Mbit/s.
        argv += ["-b", str(parameters.bitrate or 0)]
        if parameters.protocol == "udp":
            argv += ["-u", "-l", str(_datagram(parameters))]
        elif parameters.congestion is not None:
            argv += ["-C", parameters.congestion]
        if parameters.direction == "receive":
            argv += ["-R"]
        if parameters.window is not None:
            argv += ["-w", str(int(parameters.window))]
        return tuple(argv)

    def check(self, parameters: Iperf3Parameters, outputs: Outputs) -> None:
        """The client ended well, without error, did the test as asked, and moved bytes.

        iperf3's exit status says nothing: with `-J` it is 0 after an error too.
        """
        output = output_of(outputs, "client")
        opening = read(Opening, output.stdout, longest=LONGEST_RESULT)
        if opening.error is not None:
            raise InvalidTrialError(f"iperf3: {quoted(opening.error)}")
        if version := opening.too_old():
            raise InvalidTrialError(
                f"{quoted(version)} is too old: it does not repeat the rate it was asked for; "
                "3.12 works"
            )
        result = _result(parameters, output)
        moved = _tcp_moved(result) if isinstance(result, TcpResult) else _udp_moved(result)
        check_echoes(*_echoes(parameters, result), *moved)
        _check_rate(parameters, result.end.sum_received)

    def parse(self, parameters: Iperf3Parameters, outputs: Outputs) -> Figures:
        result = _result(parameters, outputs["client"])
        cpu = result.end.cpu_utilization_percent
        rate = result.end.sum_received.bits_per_second
        figures: Figures = {"throughput": rate}
        # A slow network takes less CPU time in a second: only with what was moved does it tell.
        for end, percent in (("instance", cpu.host_total), ("peer", cpu.remote_total)):
            if percent > 0:
                figures[f"per_{end}_cpu"] = rate / (percent / 100)
        if isinstance(result, UdpResult):
            received = result.end.sum_received
            figures["loss"] = received.lost_packets / received.packets
            figures["jitter"] = received.jitter_ms / 1e3
        elif result.end.sum_sent.retransmits is not None:
            figures["retransmits"] = float(result.end.sum_sent.retransmits)
        return figures

    def facts(self, parameters: Iperf3Parameters, outputs: Outputs) -> dict[str, str]:
        result = _result(parameters, outputs["client"])
        facts = {"version": result.start.version[:40]}
        if isinstance(result, TcpResult):
            facts["sender_congestion"] = result.end.sender_tcp_congestion
            facts["receiver_congestion"] = result.end.receiver_tcp_congestion
        return facts


def _datagram(parameters: Iperf3Parameters) -> int:
    return int(parameters.datagram or DATAGRAM)


def _result(parameters: Iperf3Parameters, output: Output) -> TcpResult | UdpResult:
    if parameters.protocol == "tcp":
        return read(TcpResult, output.stdout, longest=LONGEST_RESULT)
    return read(UdpResult, output.stdout, longest=LONGEST_RESULT)


def _echoes(parameters: Iperf3Parameters, result: TcpResult | UdpResult) -> list[Echo]:
    """What was asked for beside what iperf3 says it did."""
    test, end = result.start.test_start, result.end
    echoes: list[Echo] = [
        ("protocol", parameters.protocol.upper(), test.protocol),
        ("port", parameters.port, result.start.connecting_to.port),
        ("streams", parameters.streams, test.num_streams),
        ("streams that ended", parameters.streams, len(end.streams)),
        ("bit/s of a stream", parameters.bitrate or 0, test.target_bitrate),
        ("seconds", parameters.time_s, test.duration),
        ("seconds left out", parameters.omit_s, test.omit),
        ("reverse", int(parameters.direction == "receive"), test.reverse),
    ]
    if parameters.window is not None:
        echoes.append(("window", int(parameters.window), result.start.sock_bufsize))
    if parameters.protocol == "udp":
        echoes.append(("bytes of a datagram", _datagram(parameters), test.blksize))
    elif parameters.congestion is not None and isinstance(result, TcpResult):
        control, used = parameters.congestion, result.end
        echoes.append(("congestion control", control, used.sender_tcp_congestion))
        echoes.append(("congestion control", control, used.receiver_tcp_congestion))
    return echoes


def _tcp_moved(result: TcpResult) -> list[Echo]:
    """What the streams received is what all received."""
    received = sum(stream.receiver.bytes for stream in result.end.streams)
    return [("bytes over all streams", received, result.end.sum_received.bytes)]


def _udp_moved(result: UdpResult) -> list[Echo]:
    """Datagrams received, by their number, are the bytes received."""
    streams = [stream.udp for stream in result.end.streams]
    received, size = result.end.sum_received, result.start.test_start.blksize
    if not 0 <= received.lost_packets <= received.packets:
        raise InvalidTrialError(
            f"{received.lost_packets} of {received.packets} datagrams cannot be lost"
        )
    return [
        ("lost over all streams", sum(s.lost_packets for s in streams), received.lost_packets),
        ("bytes received", (received.packets - received.lost_packets) * size, received.bytes),
    ]


def _check_rate(parameters: Iperf3Parameters, received: Sum) -> None:
    """Bytes came, in the time asked for, and make the rate."""
    if not received.bytes > 0:
        raise InvalidTrialError("no byte was received")
    if abs(received.seconds - parameters.time_s) > max(1.0, 0.2 * parameters.time_s):
        raise InvalidTrialError(
            f"{parameters.time_s} s were asked for, {received.seconds} s were measured"
        )
    rate = received.bytes * 8 / received.seconds
    if abs(rate - received.bits_per_second) > 1e-3 * rate:
        raise InvalidTrialError(
            f"{received.bytes} bytes in {received.seconds} s are not "
            f"{received.bits_per_second} bit/s"
        )
