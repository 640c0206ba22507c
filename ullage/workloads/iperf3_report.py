"""The JSON that iperf3 prints, as far as it matters to us (`iperf3 -J`, 3.9 and later)."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.workloads.base import InvalidTrialError
from ullage.workloads.outputs import quoted

LONGEST_RESULT: Final = 1 << 20
"""Characters: 128 streams without reports on the way take a sixth of it."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Congestion = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,15}$")]


class Part(BaseModel):
    """A part of iperf3's JSON; fields not named here do not matter to us."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class Error(Part):
    """What there is when it could not work."""

    error: str | None = None


class Peer(Part):
    """Where the client connected to."""

    port: Count


class Test(Part):
    """The test as both ends agreed on it."""

    __test__ = False
    protocol: str
    num_streams: Count
    blksize: Count
    omit: Count
    duration: Count
    reverse: Count
    target_bitrate: Count


class Start(Part):
    """What is known before the test."""

    version: str = Field(pattern=r"^iperf 3\.[0-9A-Za-z.+-]+$")
    connecting_to: Peer
    sock_bufsize: Count
    test_start: Test


class Sum(Part):
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


class TcpStream(Part):
    """One connection."""

    receiver: Sum


class UdpStream(Part):
    """One flow of datagrams."""

    udp: Datagrams


class Cpu(Part):
    """Of iperf3 itself, percent of one CPU."""

    host_total: float = Field(ge=0)
    remote_total: float = Field(ge=0)


class TcpEnd(Part):
    """What a test with TCP came to."""

    streams: list[TcpStream]
    sum_sent: Sum
    sum_received: Sum
    cpu_utilization_percent: Cpu
    sender_tcp_congestion: Congestion
    receiver_tcp_congestion: Congestion


class UdpEnd(Part):
    """What a test with UDP came to."""

    streams: list[UdpStream]
    sum: Datagrams
    sum_sent: Datagrams
    sum_received: Datagrams
    cpu_utilization_percent: Cpu


class TcpResult(Part):
    """The whole, with TCP."""

    start: Start
    end: TcpEnd


class UdpResult(Part):
    """The whole, with UDP."""

    start: Start
    end: UdpEnd


M = TypeVar("M", bound=BaseModel)


def read(model: type[M], text: str) -> M:
    """The JSON as that model; raises InvalidTrialError with the first fault."""
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
