"""Native instances with something in their way, whose true cost is not exactly known.

Whatever is made carries the run's tag, or goes with a device that does, so that `ullage clean`
finds it after the worst of deaths.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import ClassVar, Final

from pydantic import Field

from benchmarks.statistics.injection.provider import Paced, PacedOptions
from ullage.common.commands import run
from ullage.environments.base import Instance, InstanceSpec, Options
from ullage.experiments.profile import disk
from ullage.host import cgroups, paths
from ullage.host.network.bridge import INSIDE

BURST_BYTES: Final = 256 << 10
QUEUE_BYTES: Final = 8 << 20


class Hindered(Instance):
    """A native instance with a companion that wakes, sleeps and goes with it."""

    def __init__(
        self,
        inner: Instance,
        *,
        signalled: Callable[[signal.Signals], None] = lambda _: None,
        own_groups: bool = False,
    ) -> None:
        self.inner = inner
        self.name, self.spec, self.agent = inner.name, inner.spec, inner.agent
        self.address, self.data = inner.address, inner.data
        self._signalled, self._own_groups = signalled, own_groups

    async def freeze(self) -> None:
        self._signalled(signal.SIGSTOP)
        await self.inner.freeze()

    async def thaw(self) -> None:
        self._signalled(signal.SIGCONT)
        await self.inner.thaw()

    async def destroy(self) -> None:
        """Both, and groups that the product did not make."""
        self._signalled(signal.SIGKILL)
        await self.inner.destroy()
        if self._own_groups:
            await cgroups.Group.find(self.spec.tag, self.spec.name).remove()


class ShapedOptions(PacedOptions):
    bits_per_second: int = Field(1_000_000_000, description="what the filter lets through")


class Shaped(Paced):
    """A token bucket filter (`tc … tbf`) on the way from the host's end to the instance."""

    name: ClassVar[str] = "native, link shaped"
    options_model: ClassVar[type[Options]] = ShapedOptions

    async def create(self, spec: InstanceSpec) -> Instance:
        """The filter sits on the bridge's port, and goes with it."""
        inner = await super().create(spec)
        assert isinstance(self.options, ShapedOptions)
        rate = self.options.bits_per_second
        try:
            listing = await run(
                ["ip", "-j", "-n", f"{spec.tag}-{spec.name}", "link", "show", INSIDE]
            )
            port = socket.if_indextoname(json.loads(listing)[0]["link_index"])
            how = f"rate {rate}bit burst {BURST_BYTES} limit {QUEUE_BYTES}"
            await run(["tc", "qdisc", "add", "dev", port, "root", "tbf", *how.split()])
        except BaseException:
            await inner.destroy()
            raise
        return inner


class ThrottledOptions(PacedOptions):
    bytes_per_second: int = Field(1 << 26, description="reads that the throttle lets through")


class Throttled(Paced):
    """Reads of the disk that holds the data, throttled by a cgroup: blkio (v1), else io (v2)."""

    name: ClassVar[str] = "native, disk throttled"
    options_model: ClassVar[type[Options]] = ThrottledOptions

    @staticmethod
    def tree() -> cgroups.Hierarchy | None:
        """That of the controller; None: this host has none."""
        return disk.tree()

    @classmethod
    def missing(cls) -> str | None:
        """Why this host cannot do it."""
        if cls.tree() is None:
            return "no controller blkio of cgroup v1, nor io of v2"
        data = paths.data_root()
        existing = next(path for path in (data, *data.parents) if path.exists())
        return None if disk.whole_disk(existing) else f"{existing} is on no block device"

    async def create(self, spec: InstanceSpec) -> Instance:
        """A group of the instance's own path in that tree, which all of the instance joins."""
        inner = await super().create(spec)
        assert isinstance(self.options, ThrottledOptions)
        tree, device = self.tree(), disk.whole_disk(spec.data_dir)
        assert tree is not None and device is not None
        members = cgroups.Group.find(spec.tag, spec.name).pids()
        instance = Hindered(inner, own_groups=True)
        try:
            path = cgroups.cgroup_path(spec.tag, spec.name)
            place = disk.throttle(tree, path, device, {"rbps": self.options.bytes_per_second})
            for pid in members:
                (place / "cgroup.procs").write_text(str(pid))
        except BaseException:
            await instance.destroy()
            raise
        return instance


class NeighbourOptions(PacedOptions):
    same_cpu: bool = Field(True, description="on the instance's CPU, else on another one")


class Neighbour(Paced):
    """A process that spins while the instance is awake."""

    name: ClassVar[str] = "native, neighbour"
    options_model: ClassVar[type[Options]] = NeighbourOptions

    async def create(self, spec: InstanceSpec) -> Instance:
        """In a session of its own, out of a Ctrl-C's reach; `ullage clean` knows it by its tag."""
        assert isinstance(self.options, NeighbourOptions)
        others = os.sched_getaffinity(0) - set(spec.cpu_ids)
        cpu = min(spec.cpu_ids) if self.options.same_cpu else max(others)
        inner = await super().create(spec)
        spinner = await asyncio.to_thread(
            subprocess.Popen,
            ["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "ULLAGE_TAG": spec.tag},
            start_new_session=True,
        )

        def signal_spinner(number: signal.Signals) -> None:
            if spinner.poll() is None:
                spinner.send_signal(number)
            if number is signal.SIGKILL:
                spinner.wait()

        return Hindered(inner, signalled=signal_spinner)
