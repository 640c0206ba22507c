"""A guest whose oscillator is off by a known frequency error, and a server with the host's clock.

An emulated guest reads the host's counter. Told a false frequency of it (`tsc_early_khz=`), with
no other clock to find that out by (no HPET, no ACPI timer), its kernel runs all its clocks, the
raw one too, off by exactly that error. It must be emulated: with KVM it would ask the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common import processes
from ullage.common.cleanup import Undo
from ullage.common.commands import needed, run
from ullage.common.errors import CLOCK_NTP_FAILED, UllageError
from ullage.common.text import printable
from ullage.environments.agent import client as agents
from ullage.environments.agent.client import AgentClient, Command
from ullage.environments.base import InstanceSpec
from ullage.environments.qemu.build import Builder
from ullage.environments.qemu.options import QemuOptions
from ullage.environments.qemu.provider import Qemu
from ullage.experiments.clock.ntp import sampler
from ullage.experiments.clock.ntp.series import ClockExchange
from ullage.host import claims, clock, image, leftovers, paths
from ullage.host.network.bridge import Network

GUEST: Final = "ntp-client"
PACKAGES: Final = ("chrony", "python3")
SAMPLER: Final = "/data/ntp_sampler.py"
SERVER_STRATUM: Final = 10
_MEMORY: Final = 512 << 20
_PATIENCE_S: Final = 5.0
_CLOCKSOURCE: Final = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_NO_OTHER_CLOCK: Final = ("tsc=reliable", "hpet=disable", "pmtmr=0")
_MHZ: Final = re.compile(r"^cpu MHz\s*: ([0-9.]+)$", re.MULTILINE)
SERVER_CONF: Final = """\
port {port}
bindaddress {address}
allow {subnet}
local stratum {stratum}
cmdport 0
bindcmdaddress /
pidfile {pidfile}
"""


def failed(step: str, reason: str) -> UllageError:
    """The experiment went wrong, in the guest or at its server."""
    printed = printable(reason.strip(), 600) or "no reason given"
    return UllageError(CLOCK_NTP_FAILED, what=step, reason=printed)


@dataclass(frozen=True)
class NtpServer:
    """The chronyd that serves this host's clock. It never touches that clock (`-x`)."""

    address: str
    port: int
    version: str
    process: asyncio.subprocess.Process
    log: Path

    def require(self) -> None:
        """An error when it is gone."""
        if self.process.returncode is not None:
            raise failed("chronyd on the host", f"it ended: {self.log_end}")

    @property
    def log_end(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-400:]


@dataclass(frozen=True)
class SkewedGuest:
    """A running guest, with the sampler in it."""

    agent: AgentClient
    khz: int
    """What its kernel was told of the counter."""
    dir: Path
    """On the host, for what comes out of it."""

    async def call(self, *argv: str, timeout_s: float = 30) -> str:
        """Run a program inside to its end; an error unless it says that all went well."""
        done, stdout, stderr = await self.agent.run(Command(argv=argv, timeout_s=timeout_s))
        if done.status != 0:
            raise failed(f"{argv[0]}, inside", (stderr + stdout).decode(errors="replace"))
        return stdout.decode(errors="replace")

    async def exchange(self) -> ClockExchange:
        """Look at both clocks at once."""
        instants = await self.monotonic()
        return ClockExchange(*instants, fix=self.agent.looks[-1].mirrored())

    async def set_clock(self) -> None:
        """Set its clock by the host's: from its RTC it has whole seconds only."""
        here_ns, inside_ns, _ = await self.monotonic()
        ahead_ns = here_ns - inside_ns + time.time_ns() - time.monotonic_ns()
        await self.call("python3", SAMPLER, "set", str(ahead_ns))

    async def monotonic(self) -> tuple[int, int, int]:
        """The host's CLOCK_MONOTONIC and the guest's at one moment, and how far off that may be.

        The agent's own clock is another one, which nobody slews.
        """
        await self.agent.sync()
        inside = await self.agent.sample()
        then = self.agent.clock.to_controller(inside["ns"])
        since_ns = clock.ordered_ns() - then.ns
        bound_ns = then.hard_ns + inside["width_ns"]
        return time.monotonic_ns() - since_ns, inside["mono_ns"], bound_ns


class Lab:
    """Network, image and provider of one experiment. Made by `open`, which also takes it down."""

    def __init__(self, tag: str, provider: Qemu, built: image.Image, network: Network) -> None:
        self.provider = provider
        self.image = built
        self._tag = tag
        self._network = network
        self._guests = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, progress: Callable[[str], None]) -> AsyncIterator[Lab]:
        """What is needed, checked before anything is made.

        HOST_MISSING, HOST_NEEDS_ROOT, and what images and guest kernels may raise.
        """
        provider = await check()
        built = await image.build(PACKAGES, on_progress=progress)
        tag = paths.new_tag()
        claims.claim(tag, "clock ntp")
        try:
            network = await Network.create(tag)
            try:
                yield cls(tag, provider, built, network)
            finally:
                await network.destroy()
        finally:
            await asyncio.to_thread(_sweep, tag)

    @asynccontextmanager
    async def server(self) -> AsyncIterator[NtpServer]:
        """A chronyd that answers on the bridge, on a port of its own."""
        program = needed("chronyd", "chrony")
        version = (await run([program, "--version"])).strip()
        directory = paths.state_dir(self._tag)
        address = self._network.gateway
        port = _free_port(address)
        text = SERVER_CONF.format(
            port=port,
            address=address,
            subnet=self._network.subnet,
            stratum=SERVER_STRATUM,
            pidfile=directory / "chronyd.pid",
        )
        conf, log = directory / "chronyd.conf", directory / "chronyd.log"
        conf.write_text(text, encoding="ascii")
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                program,
                "-x",
                "-d",
                "-f",
                str(conf),
                env={**os.environ, "LC_ALL": "C", "ULLAGE_TAG": self._tag},
                stdin=asyncio.subprocess.DEVNULL,
                stderr=output,
                stdout=output,
                start_new_session=True,
            )
        try:
            yield NtpServer(address, port, version, process, log)
        finally:
            await _end(process)

    @asynccontextmanager
    async def guest(self, khz: int) -> AsyncIterator[SkewedGuest]:
        """A guest whose kernel takes its counter for one of so many kHz."""
        self._guests += 1
        name = f"{GUEST}-{self._guests}"
        state, data = paths.state_dir(self._tag) / name, paths.data_dir(self._tag) / name
        state.mkdir()
        data.mkdir()
        spec = InstanceSpec(
            tag=self._tag,
            name=name,
            cpu_ids=(max(os.sched_getaffinity(0)),),
            cpu_quota=None,
            memory_bytes=_MEMORY,
            image=self.image,
            agent=agents.binary(),
            state_dir=state,
            data_dir=data,
            network=self._network,
        )
        provider = self.provider
        options = provider.options
        assert isinstance(options, QemuOptions)
        words = (f"tsc_early_khz={khz}", *_NO_OTHER_CLOCK)
        vm = Builder(
            options, provider.accelerator, provider.cpu_model, provider.kernel, spec, words
        )
        async with Undo() as undo:
            agent = (await vm.build(undo)).agent
            await agent.put(Path(sampler.__file__), SAMPLER)
            source = (await agent.get(_CLOCKSOURCE)).decode(errors="replace").strip()
            if source not in {"tsc", "tsc-early"}:  # the same counter at the same rate
                raise failed("the frequency error", f"the guest's clock is {source}, not its TSC")
            yield SkewedGuest(agent, khz, data)


async def check() -> Qemu:
    """What is needed on this host, as a provider of such guests. HOST_MISSING, HOST_NEEDS_ROOT."""
    needed("chronyd", "chrony")
    disk = {"size": "1GiB", "cache": "writeback"}
    options = {"accel": "tcg", "network": "tap", "disk": disk}
    provider = Qemu(QemuOptions.model_validate(options))
    await provider.check()
    return provider


def cpuinfo_khz() -> int:
    """About how fast the host's counter is, as /proc/cpuinfo has it: a first guess, no more."""
    frequency = _MHZ.search(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    if frequency is None or not float(frequency[1]) > 0:
        raise failed("the frequency error", "/proc/cpuinfo tells no `cpu MHz`")
    return round(float(frequency[1]) * 1000)


def _free_port(address: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    await processes.ended(process, _PATIENCE_S)
    await processes.end(process)


def _sweep(tag: str) -> None:
    """Remove whatever still carries the tag, its directories first of all."""
    for leftover, why in leftovers.remove(leftovers.find(tag, own=True)):
        raise failed("taking the experiment down", f"{leftover.kind} {leftover.name}: {why}")
