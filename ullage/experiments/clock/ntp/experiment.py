"""The NTP experiment: how large are the corrections that a real NTP daemon makes?

One host has one clock. So chrony disciplines the clock of an emulated guest whose oscillator is
off by a known frequency error, and the server is a chronyd that serves this host's clock and
never touches it. What chrony decided is read from its own logs. What was really done to the clock
is measured without it, by readings of the guest's clocks and of the kernel's clock discipline.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from ullage.environments.agent.client import Command
from ullage.environments.agent.process import Process
from ullage.experiments.clock.ntp import beside, logs
from ullage.experiments.clock.ntp.guest import (
    SAMPLER,
    SERVER_STRATUM,
    Lab,
    NtpServer,
    SkewedGuest,
    cpuinfo_khz,
    failed,
)
from ullage.experiments.clock.ntp.logs import LogError
from ullage.experiments.clock.ntp.outcome import (
    ChronyOutput,
    IntervalOutcome,
    NtpOptions,
    NtpOutcome,
    evaluate,
)
from ullage.experiments.clock.ntp.series import ClockExchange, ClockReadings, SeriesError

__all__ = ["NtpOptions", "NtpOutcome", "experiment", "measure", "poll_exponent"]

SHORTEST_POLL: Final = -7
"""chrony.conf(5), `minpoll`: 2^-7 s is the shortest polling interval there is."""

_REFERENCE_S: Final = 10.0
_SAMPLE_NS: Final = 10_000_000
_EXCHANGE_EVERY_S: Final = 5.0
_SILENCE_S: Final = 30.0
_TOLERANCE_PPM: Final = 20.0
_STEPPED_NS: Final = 1_000_000
_MARGIN_S: Final = 300.0
_LOGS: Final = "/data/chrony"
_LOG_LIMIT: Final = 256 << 20
CLIENT_CONF: Final = """\
server {address} port {port} iburst minpoll {poll} maxpoll {poll}
maxupdateskew 100.0
makestep 1 3
cmdport 0
logdir {logs}
log tracking measurements
logbanner 0
"""
"""What Debian sets of how the clock is corrected, and one server at a fixed polling interval."""

Say = Callable[[str], None]

T = TypeVar("T")


def measure(options: NtpOptions, progress: Say) -> NtpOutcome:
    """Make the experiment. Ctrl-C ends it in order: no guest, daemon or bridge is left.

    Needs root, for the bridge. Raises HOST_MISSING, HOST_NEEDS_ROOT, VM_NEVER_BOOTED,
    CLOCK_NTP_FAILED, and what images and agents may raise.
    """
    return asyncio.run(experiment(options, progress))


async def experiment(options: NtpOptions, progress: Say) -> NtpOutcome:
    """The same within a running event loop; cancel it to end it."""
    async with Lab.open(progress) as lab, lab.server() as server:
        progress("measuring how fast the guest's counter really is")
        true_khz = await _counter_khz(lab)
        khz = round(true_khz / (1 + options.frequency_error_ppm / 1e6))
        outcomes = [
            await _interval(
                lab, server, khz, asked_s=interval_s, options=options, progress=progress
            )
            for interval_s in options.intervals_s
        ]
        return NtpOutcome(
            options=options,
            counter_khz=true_khz,
            server=f"chronyd -x on this host: its local clock at stratum {SERVER_STRATUM}, "
            f"{server.address} on a bridge",
            versions={
                "chrony, server": server.version,
                "chrony, client": lab.image.packages["chrony"],
                "guest kernel": lab.provider.kernel.package,
                "hypervisor": f"{lab.provider.treatments()['hypervisor']}, {lab.provider.label()}",
            },
            intervals=outcomes,
        )


def poll_exponent(interval_s: float) -> int:
    """The power of two that is nearest, as a ratio; 0 s is the shortest there is."""
    return max(SHORTEST_POLL, round(math.log2(interval_s))) if interval_s > 0 else SHORTEST_POLL


async def _counter_khz(lab: Lab) -> float:
    """What a kernel that takes its counter for one of R kHz sees the host's clock do."""
    async with lab.guest(cpuinfo_khz()) as guest:
        exchanges: list[ClockExchange] = []
        async with _sampling(guest, _REFERENCE_S):
            await _exchange_for(guest, _REFERENCE_S, exchanges, every_s=1.0)
        rate = _understood(lambda: _series(guest).rate(exchanges))
        return guest.khz * (1 + rate.error_ppb / 1e9)


async def _interval(
    lab: Lab,
    server: NtpServer,
    khz: int,
    *,
    asked_s: float,
    options: NtpOptions,
    progress: Say,
) -> IntervalOutcome:
    poll = poll_exponent(asked_s)
    progress(f"polling interval {asked_s:g} s (2^{poll} s): booting the guest")
    async with lab.guest(khz) as guest:
        exchanges: list[ClockExchange] = []
        await guest.set_clock()
        apart_ns = time.time_ns() - time.monotonic_ns()
        async with (
            _sampling(guest, options.observe_s),
            _client(guest, server, poll, options) as ntp,
        ):
            await _answered(guest, server)

            def look(left_s: float) -> None:
                server.require()
                if not ntp.running:
                    raise failed("chronyd, inside", ntp.stderr.decode(errors="replace"))
                progress(f"polling interval {asked_s:g} s (2^{poll} s): {left_s:.0f} s left")

            await _exchange_for(guest, options.observe_s, exchanges, look=look)
            output = ChronyOutput(
                await guest.call("chronyc", "-c", "tracking"),
                await _log(guest, "tracking"),
                await _log(guest, "measurements"),
            )
        if abs(time.time_ns() - time.monotonic_ns() - apart_ns) > _STEPPED_NS:
            raise failed("the server's clock", "this host's clock was stepped meanwhile")
        series = _understood(lambda: _series(guest))
        outcome = _understood(lambda: evaluate(asked_s, options, series, exchanges, output))
    if abs(outcome.error_ppb / 1e3 - options.frequency_error_ppm) > _TOLERANCE_PPM:
        raise failed(
            "the frequency error", f"the guest runs off by {outcome.error_ppb / 1e3:.1f} ppm"
        )
    return beside.joined(outcome, series, exchanges, apart_ns)


@asynccontextmanager
async def _sampling(guest: SkewedGuest, seconds: float) -> AsyncIterator[None]:
    command = ("python3", SAMPLER, "sample", str(_SAMPLE_NS))
    sampler = await guest.agent.spawn(
        Command(argv=command, timeout_s=seconds + _MARGIN_S), stdout_path=guest.dir / "samples"
    )
    await sampler.started()
    try:
        yield
        if not sampler.running:
            raise failed("the sampler, inside", sampler.stderr.decode(errors="replace"))
    finally:
        await _stop(guest, sampler)


@asynccontextmanager
async def _client(
    guest: SkewedGuest, server: NtpServer, poll: int, options: NtpOptions
) -> AsyncIterator[Process]:
    conf = CLIENT_CONF.format(address=server.address, port=server.port, poll=poll, logs=_LOGS)
    await guest.agent.put(conf.encode(), "/data/chrony.conf")
    argv = ("chronyd", "-d", "-f", "/data/chrony.conf")
    chronyd = await guest.agent.spawn(Command(argv=argv, timeout_s=options.observe_s + _MARGIN_S))
    await chronyd.started()
    try:
        yield chronyd
    finally:
        await _stop(guest, chronyd)


async def _stop(guest: SkewedGuest, process: Process) -> None:
    if not guest.agent.closed:
        await process.kill()
        await process.wait()


async def _answered(guest: SkewedGuest, server: NtpServer) -> None:
    """Wait for the first answer of the server; an error when there is none in time."""
    until = time.monotonic() + _SILENCE_S
    while time.monotonic() < until:
        server.require()
        done, stdout, _ = await guest.agent.run(
            Command(argv=("chronyc", "-c", "sources"), timeout_s=10)
        )
        if done.status == 0 and logs.reached(stdout.decode(errors="replace")):
            return
        await asyncio.sleep(0.5)
    where = f"{server.address}, port {server.port}"
    raise failed(
        "NTP", f"no answer from {where} within {_SILENCE_S:g} s; it said: {server.log_end}"
    )


async def _exchange_for(
    guest: SkewedGuest,
    seconds: float,
    exchanges: list[ClockExchange],
    *,
    every_s: float = _EXCHANGE_EVERY_S,
    look: Callable[[float], None] = lambda _: None,
) -> None:
    """Let time pass, and exchange clocks meanwhile."""
    until = time.monotonic() + seconds
    while (left_s := until - time.monotonic()) > 0:
        look(left_s)
        await asyncio.sleep(min(every_s, left_s))
        exchanges.append(await guest.exchange())


async def _log(guest: SkewedGuest, name: str) -> str:
    return (await guest.agent.get(f"{_LOGS}/{name}.log", _LOG_LIMIT)).decode(errors="replace")


def _series(guest: SkewedGuest) -> ClockReadings:
    return ClockReadings.load(guest.dir / "samples")


def _understood(work: Callable[[], T]) -> T:
    """The result; an error of the experiment when what came from the guest is not to be read."""
    try:
        return work()
    except (SeriesError, LogError) as error:
        raise failed("what came from the guest", str(error)) from error
