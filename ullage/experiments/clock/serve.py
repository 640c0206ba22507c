"""`ullage clock serve`: answers others with this clock, or with the time that it follows."""

from __future__ import annotations

import time
from collections.abc import Callable

from ullage.common.clock_model import FrozenModel
from ullage.common.errors import CLOCK_CANNOT_SERVE, UllageError
from ullage.common.quantities import many
from ullage.experiments.clock.peer import ServerAddress, synchronise
from ullage.experiments.clock.view import View, span
from ullage.host import clock
from ullage.host.clock import Rules, Served, Synced, TcpServer, UdpServer

FOLLOW_EVERY_S = 10.0
"""Between two synchronisations of a server that follows another."""
_LOOK_S = 0.2


class ServeReport(FrozenModel):
    address: str
    protocol: str
    seconds: float
    answered: int
    malformed: int
    """What came and was no request; not answered."""
    foreign: int
    """Requests with another token; not answered."""
    follows: str | None
    synchronisations: int
    """With the server that it follows."""
    failed: int
    """Of these, how many came to nothing; the bound went on growing."""
    stratum: int
    """Synchronisations between it and the root; 0 is the root."""
    hard_ns: int | None
    bound_ns: int | None
    reasons: list[str]


class Follower:
    """Learns another server's time, at the start and now and then."""

    def __init__(
        self, server: ServerAddress, key: bytes, *, tcp: bool, warn: Callable[[str], None]
    ):
        self.server = server
        self.done = self.failed = 0
        self._key = key
        self._tcp = tcp
        self._warn = warn
        self._next_s = 0.0
        self._lost = False

    def begin(self) -> None:
        """The first time, which must succeed. As `ullage.experiments.clock.peer.synchronise`."""
        self._once()

    def go_on(self) -> None:
        """Again, if it is time; failures are counted, and warned of once until one succeeds."""
        if time.monotonic() < self._next_s:
            return
        try:
            self._once()
        except (UllageError, clock.ContradictionError) as error:
            self.failed += 1
            self._next_s = time.monotonic() + FOLLOW_EVERY_S
            if not self._lost:
                reason = error.message if isinstance(error, UllageError) else str(error)
                self._warn(
                    f"{reason}; the bound goes on growing, and it is tried again every"
                    f" {FOLLOW_EVERY_S:g} s"
                )
            self._lost = True
        else:
            if self._lost:
                self._warn(f"{self.server} answers again")
            self._lost = False

    def _once(self) -> None:
        synced = Synced()
        disruptions = synced.disruptions()
        self.done += 1
        outcome = synchronise(self.server, self._key, Rules(), tcp=self._tcp)
        synced.learn(outcome, disruptions=disruptions)
        self._next_s = time.monotonic() + FOLLOW_EVERY_S


def serve(
    address: ServerAddress,
    key: bytes,
    *,
    follower: Follower | None,
    tcp: bool,
    seconds: float | None,
    ready: Callable[[str], None],
    stopped: Callable[[], bool],
) -> ServeReport:
    """Answer until `stopped`, or for so many seconds. CLOCK_CANNOT_SERVE, and as `synchronise`."""
    synced, began = Synced(), time.monotonic()
    if follower is None:
        synced.lead()
    else:
        follower.begin()
    server = _listen(address, key, tcp=tcp)
    ready(server.address)
    while server.running and not stopped():
        if seconds is not None and time.monotonic() - began >= seconds:
            break
        if follower is not None:
            follower.go_on()
        time.sleep(_LOOK_S)
    _, standing = synced.serve()
    return _report(server, _served(server), follower, standing, began, tcp=tcp)


def _listen(address: ServerAddress, key: bytes, *, tcp: bool) -> UdpServer | TcpServer:
    try:
        return TcpServer(str(address), key) if tcp else UdpServer(str(address), key)
    except OSError as error:
        reason = error.strerror or error
        raise UllageError(CLOCK_CANNOT_SERVE, address=address, reason=reason) from error


def _served(server: UdpServer | TcpServer) -> Served:
    try:
        return server.stop()
    except OSError as error:
        reason = error.strerror or error
        raise UllageError(CLOCK_CANNOT_SERVE, address=server.address, reason=reason) from error


def _report(
    server: UdpServer | TcpServer,
    served: Served,
    follower: Follower | None,
    standing: clock.Standing,
    began: float,
    *,
    tcp: bool,
) -> ServeReport:
    return ServeReport(
        address=server.address,
        protocol="TCP" if tcp else "UDP",
        seconds=time.monotonic() - began,
        answered=served.answered,
        malformed=served.malformed,
        foreign=served.foreign,
        follows=None if follower is None else str(follower.server),
        synchronisations=0 if follower is None else follower.done,
        failed=0 if follower is None else follower.failed,
        stratum=standing.stratum,
        hard_ns=standing.hard_ns,
        bound_ns=standing.bound_ns,
        reasons=list(standing.reasons),
    )


def view(report: ServeReport) -> View:
    """Requests answered, refused, and how right the served time was."""
    lines = [
        f"{many(report.answered, 'request')} answered at {report.address} over"
        f" {report.protocol} in {span(report.seconds * 1e9)}.",
        f"Not answered: {report.foreign:,} with another token, {report.malformed:,} that were no"
        " requests.",
    ]
    if report.follows is not None:
        lines.append(
            f"It followed {report.follows}:"
            f" {many(report.synchronisations, 'synchronisation')},"
            f" {report.failed} of which failed; in the end it was right to {_bounds(report)}."
        )
    return View("A served clock", tuple(lines), ())


def _bounds(report: ServeReport) -> str:
    hard = f"{span(report.hard_ns)} (hard)"
    if report.bound_ns == report.hard_ns:
        return hard
    return f"{span(report.bound_ns)} (99.9 %), {hard}"
