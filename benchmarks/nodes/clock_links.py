"""How wrong a node's clock is taken for over links of several delays, and whether bounds hold.

Server and client are one process with one counter, so the truth is known: they are not apart. A
relay between them (`benchmarks/nodes/relay.py`) delays each way by a known time; synchronisations
are those of nodes (`ullage/nodes/clock.py`).
"""

from __future__ import annotations

import contextlib
import secrets
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.figures import Figure, main, median_interval
from benchmarks.nodes.relay import LOOPBACK
from ullage.host import clock
from ullage.nodes.clock import rules

LIMIT = 0.02
SURE = 0.999


@dataclass(frozen=True)
class Link:
    """One way of datagrams."""

    name: str
    there_us: float
    back_us: float
    times: int
    """Synchronisations; a tenth of it where it is to be quick."""

    @property
    def alike(self) -> bool:
        return self.there_us == self.back_us


LINKS: Sequence[Link] = (
    Link("the relay alone", 0, 0, 10_000),
    Link("100 µs", 50, 50, 10_000),
    Link("1 ms", 500, 500, 2_000),
    Link("10 ms", 5_000, 5_000, 500),
    Link("1 ms, 20 % there", 200, 800, 2_000),
)


@contextlib.contextmanager
def way(link: Link, port: int) -> Iterator[int]:
    """The port at this end of the link."""
    words = (str(port), str(link.there_us), str(link.back_us))
    argv = [sys.executable, "-m", "benchmarks.nodes.relay", *words]
    relay = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert relay.stdout is not None
        yield int(relay.stdout.readline())
    finally:
        relay.kill()
        relay.wait()


def fixes(link: Link, times: int) -> list[clock.Fix]:
    """What so many synchronisations say."""
    token = secrets.token_bytes(16)
    clock.Synced().lead()
    server = clock.UdpServer(f"{LOOPBACK}:0", token)
    try:
        with way(link, int(server.address.rpartition(":")[2])) as port:
            address = f"{LOOPBACK}:{port}"
            done = [clock.synchronise_udp(address, token, rules()) for _ in range(times)]
    finally:
        server.stop()
    return [outcome.fix for outcome in done]


def rows(link: Link, known: Sequence[clock.Fix]) -> Iterator[Figure]:
    """Its error beside its round trip, and how often the bounds hold."""
    shares = median_interval([abs(fix.offset_ns) / fix.rtt_ns for fix in known])
    rtt_us = statistics.median(fix.rtt_ns for fix in known) / 1e3
    hard_us = statistics.median(fix.half_ns for fix in known) / 1e3
    sure_us = statistics.median(fix.sure_ns for fix in known) / 1e3
    yield Figure(
        f"clock over {link.name}: error over the round trip",
        shares.estimate,
        "",
        shares.low,
        shares.high,
        reach=f"at most {LIMIT:g}" if link.alike else "",
        holds=shares.estimate <= LIMIT if link.alike else None,
        note=f"median round trip {rtt_us:.0f} µs, hard bound {hard_us:.1f} µs, "
        f"statistical bound {sure_us:.1f} µs; {len(known)} synchronisations",
    )
    hard = sum(abs(fix.offset_ns) <= fix.half_ns for fix in known) / len(known)
    yield Figure(
        f"clock over {link.name}: within the hard bound",
        hard,
        "",
        reach="all",
        holds=hard == 1,
    )
    sure = sum(abs(fix.offset_ns) <= fix.sure_ns for fix in known) / len(known)
    yield Figure(
        f"clock over {link.name}: within the statistical bound",
        sure,
        "",
        reach=f"at least {SURE:g}" if link.alike else "",
        holds=sure >= SURE if link.alike else None,
        note="" if link.alike else "it promises nothing where the ways are unlike",
    )


def measure(quick: bool) -> Iterator[Figure]:
    """Link by link."""
    for link in LINKS:
        yield from rows(link, fixes(link, link.times // 10 if quick else link.times))


if __name__ == "__main__":
    main(measure, __doc__ or "")
