"""The JSON that iperf3 prints, as far as it matters to us (`iperf3 -J`, as of 3.12)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import Field

from ullage.workloads.jsonreport import Count, Part

_VERSION: Final = re.compile(r"iperf 3\.([0-9]{1,3})(?![0-9])")
_WORKS: Final = 12
"""Of 3.x: Debian 12's."""

LONGEST_RESULT: Final = 1 << 20
"""Characters: 128 streams without reports on the way take a sixth of it."""

Congestion = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,15}$")]


class Opening(Part):
    """What tells whether the rest can be read."""

    error: str | None = None
    """What there is when it could not work."""
    start: dict[str, Any] = Field(default_factory=dict)

    def too_old(self) -> str | None:
        """The version, where it is one that does not repeat the rate that it was asked for."""
        version, test = self.start.get("version"), self.start.get("test_start")
        if not isinstance(version, str) or not isinstance(test, dict) or "target_bitrate" in test:
            return None
        found = _VERSION.match(version)
        return version if found and int(found[1]) < _WORKS else None


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
