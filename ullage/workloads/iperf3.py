"""Workload `iperf3`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ByteSize, ConfigDict, Field, ValidationError

from ullage.runs import Curve, Metric, Scalar
from ullage.workloads.base import (
    Context,
    InvalidTrialError,
    Output,
    Parameters,
    Role,
    Task,
    Workload,
)
from ullage.workloads.outputs import ended, quoted

LONGEST_RESULT = 1 << 20
"""Characters: 128 streams without reports on the way take a sixth of it."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class Iperf3Parameters(Parameters):
    """Who talks to whom, how, and for how long."""

    peer: Literal["host", "second"] = Field(
        "host",
        description="the other end: a native one on the same bridge, or a second instance",
    )
    direction: Literal["send", "receive"] = Field(
        "send", description="what the instance does: send to the peer, or receive from it"
    )
    streams: int = Field(1, ge=1, le=128, strict=True, description="TCP connections at once")
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
    port: int = Field(5201, ge=1, le=65_535, strict=True, description="TCP port of the server")


class Iperf3(Workload[Iperf3Parameters]):
    """TCP throughput between an instance and the host, or a second instance (`iperf3`).

    The instance is always iperf3's client; with `direction: receive` the server sends. The figure
    is what the receiving end received. Congestion control is `reno` unless the plan says otherwise:
    every kernel has it and lets every user choose it, while the kernels' own defaults differ
    (`cubic`, `bbr`) and would be measured instead of the environment.
    """

    name = "iperf3"
    resource = "network"
    packages = ("iperf3",)
    programs = ("iperf3",)
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
            name="instance_cpu",
            unit="1",
            better="lower",
            description="CPU time of iperf3 in the instance per second: its own and the kernel's "
            "for it, not that of a hypervisor or of interrupts.",
        ),
        Metric(
            name="peer_cpu",
            unit="1",
            better="lower",
            description="CPU time of iperf3 at the other end per second.",
        ),
    )

    def roles(self, parameters: Iperf3Parameters) -> Sequence[Role]:
        """The client in the instance, the server at the peer."""
        return Role("client"), Role("server", parameters.peer)

    def title(self, parameters: Iperf3Parameters) -> str:
        """`network to the host, 1 stream`."""
        way = "to" if parameters.direction == "send" else "from"
        peer = "the host" if parameters.peer == "host" else "a second instance"
        streams = f"{parameters.streams} stream{'s' if parameters.streams > 1 else ''}"
        return f"network {way} {peer}, {streams}"

    def duration_s(self, parameters: Iperf3Parameters) -> float:
        """The measured time and the one before it."""
        return float(parameters.omit_s + parameters.time_s)

    def tasks(self, parameters: Iperf3Parameters, context: Context) -> Sequence[Task]:
        """A server for one test, and the client."""
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
        if parameters.direction == "receive":
            argv += ["-R"]
        if parameters.window is not None:
            argv += ["-w", str(int(parameters.window))]
        if parameters.congestion is not None:
            argv += ["-C", parameters.congestion]
        return tuple(argv)

    def check(self, parameters: Iperf3Parameters, outputs: Mapping[str, Output]) -> None:
        """The client ended well, without error, did the test as asked, and moved bytes.

        iperf3's exit status says nothing: with `-J` it is 0 after an error too.
        """
        output = ended(outputs, "client")
        error = _read(_Error, output.stdout).error
        if error is not None:
            raise InvalidTrialError(f"iperf3: {quoted(error)}")
        result = _read(_Result, output.stdout)
        for what, asked, found in _echoes(parameters, result):
            if asked != found:
                raise InvalidTrialError(f"{what}: asked for {asked}, found {quoted(str(found))}")
        received = result.end.sum_received
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

    def parse(
        self, parameters: Iperf3Parameters, outputs: Mapping[str, Output]
    ) -> dict[str, Scalar | Curve]:
        """The figures of a checked trial."""
        end = _read(_Result, outputs["client"].stdout).end
        cpu = end.cpu_utilization_percent
        figures: dict[str, Scalar | Curve] = {
            "throughput": end.sum_received.bits_per_second,
            "instance_cpu": cpu.host_total / 100,
            "peer_cpu": cpu.remote_total / 100,
        }
        if end.sum_sent.retransmits is not None:
            figures["retransmits"] = float(end.sum_sent.retransmits)
        return figures

    def facts(self, parameters: Iperf3Parameters, outputs: Mapping[str, Output]) -> dict[str, str]:
        """The version, and the congestion control that both ends used."""
        result = _read(_Result, outputs["client"].stdout)
        return {
            "version": result.start.version[:40],
            "sender_congestion": result.end.sender_tcp_congestion,
            "receiver_congestion": result.end.receiver_tcp_congestion,
        }


class _Part(BaseModel):
    """A part of iperf3's JSON; fields not named here do not matter to us."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class _Error(_Part):
    error: str | None = None


class _Peer(_Part):
    port: Count


class _Test(_Part):
    protocol: str
    num_streams: Count
    omit: Count
    duration: Count
    reverse: Count


class _Start(_Part):
    version: str = Field(pattern=r"^iperf 3\.[0-9A-Za-z.+-]+$")
    connecting_to: _Peer
    sock_bufsize: Count
    test_start: _Test


class _Sum(_Part):
    seconds: float = Field(gt=0)
    bytes: Count
    bits_per_second: float = Field(ge=0)
    retransmits: Count | None = None


class _Stream(_Part):
    receiver: _Sum


class _Cpu(_Part):
    host_total: float = Field(ge=0)
    remote_total: float = Field(ge=0)


class _End(_Part):
    streams: list[_Stream]
    sum_sent: _Sum
    sum_received: _Sum
    cpu_utilization_percent: _Cpu
    sender_tcp_congestion: str = Field(pattern=r"^[a-z][a-z0-9_]{0,15}$")
    receiver_tcp_congestion: str = Field(pattern=r"^[a-z][a-z0-9_]{0,15}$")


class _Result(_Part):
    start: _Start
    end: _End


M = TypeVar("M", bound=BaseModel)


def _read(model: type[M], text: str) -> M:
    if len(text) > LONGEST_RESULT:
        raise InvalidTrialError(f"printed {len(text)} characters, which is not its result")
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the whole"
        raise InvalidTrialError(
            f"its JSON is not a result: {where}: {fault['msg']}; begins {quoted(text, 60)}"
        ) from None


def _echoes(
    parameters: Iperf3Parameters, result: _Result
) -> list[tuple[str, int | str, int | str]]:
    """What was asked for beside what iperf3 says it did."""
    test, end = result.start.test_start, result.end
    echoes: list[tuple[str, int | str, int | str]] = [
        ("protocol", "TCP", test.protocol),
        ("port", parameters.port, result.start.connecting_to.port),
        ("streams", parameters.streams, test.num_streams),
        ("streams that ended", parameters.streams, len(end.streams)),
        ("seconds", parameters.time_s, test.duration),
        ("seconds left out", parameters.omit_s, test.omit),
        ("reverse", int(parameters.direction == "receive"), test.reverse),
        (
            "bytes over all streams",
            sum(stream.receiver.bytes for stream in end.streams),
            end.sum_received.bytes,
        ),
    ]
    if parameters.window is not None:
        echoes.append(("window", int(parameters.window), result.start.sock_bufsize))
    if parameters.congestion is not None:
        echoes.append(("congestion control", parameters.congestion, end.sender_tcp_congestion))
        echoes.append(("congestion control", parameters.congestion, end.receiver_tcp_congestion))
    return echoes
