"""Native instances with one resource slowed, and one with none."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from pydantic import Field

from ullage.common.commands import CommandError
from ullage.common.errors import CGROUP_DENIED, UllageError
from ullage.environments.base import Instance, InstanceSpec, Options
from ullage.environments.native import Native
from ullage.experiments.profile import disk, loopback
from ullage.experiments.profile.disk import Cap, DiskRequests
from ullage.host import cgroups

PERIOD_US: Final = 10_000
"""Of the CPU quota: a tenth of the usual one, so that short bursts of work are slowed too. A kernel
that ticks 250 times a second still keeps it to a few percent."""
LEAST_QUOTA_US: Final = 1_000
"""The kernel takes no less: under a tenth of a CPU, the period is longer."""


class HinderedOptions(Options):
    """What is slow, and how."""

    cpu: float | None = Field(None, gt=0, lt=1, description="share of its CPUs' time that it gets")
    disk: dict[Cap, int] = Field({}, description="what it may ask of the disk in a second")
    device: str | None = Field(None, description="`major:minor` of the disk that is looked at")
    link: int | None = Field(None, gt=0, description="bits in a second over its loopback")
    alone: bool = Field(False, description="in a network namespace with nothing but a loopback")


@dataclass(frozen=True)
class Traffic:
    """What went through an instance while it lived."""

    disk: DiskRequests
    network_bytes: int
    packets: int


class Hindered(Native):
    """The product's native environment, with one resource slowed for it and for nobody else.

    CPU: a quota of the control group. Disk: the same group's share of the disk. Network: a token
    bucket on the loopback of its own network namespace.
    """

    name: ClassVar[str] = "native, slowed"
    options_model: ClassVar[type[Options]] = HinderedOptions

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.traffic: Traffic | None = None
        """Set when the instance has been destroyed; None then: it could not be counted."""

    @property
    def hindrance(self) -> HinderedOptions:
        assert isinstance(self.options, HinderedOptions)
        return self.options

    def label(self) -> str:
        slow = self.hindrance
        if slow.cpu is not None:
            return f"CPU at {slow.cpu:.0%}"
        if slow.disk:
            return "disk throttled"
        return "network shaped" if slow.link is not None else "native"

    def treatments(self) -> dict[str, str]:
        slow = self.hindrance.model_dump(exclude_defaults=True, exclude={"alone", "device"})
        return {name: str(value) for name, value in slow.items()}

    async def create(self, spec: InstanceSpec) -> Instance:
        """As native; then it is slowed, before anything runs in it."""
        if self.hindrance.alone:
            spec = replace(spec, network=loopback.Loopback(spec.tag))
        instance = HinderedInstance(await super().create(spec), self)
        try:
            await self._hinder(spec)
        except BaseException:
            await instance.destroy()
            raise
        return instance

    async def _hinder(self, spec: InstanceSpec) -> None:
        slow, path = self.hindrance, cgroups.cgroup_path(spec.tag, spec.name)
        group = cgroups.Group.find(spec.tag, spec.name)
        if slow.cpu is not None:
            limit_cpu(group, slow.cpu * len(spec.cpu_ids))
        if (tree := disk.tree()) is not None:
            members = group.pids()
            place = disk.group(tree, path)
            for pid in members:
                (place / "cgroup.procs").write_text(str(pid))
            if slow.device is not None:
                disk.throttle(tree, path, slow.device, slow.disk or disk.FREE)
        if slow.link is not None:
            await loopback.shape(netns(spec), slow.link)

    async def look(self, spec: InstanceSpec) -> None:
        """Count what went through it."""
        tree = disk.tree()
        path = cgroups.cgroup_path(spec.tag, spec.name)
        requests = disk.requests(tree, path) if tree is not None else DiskRequests()
        sent = await loopback.traffic(netns(spec)) if self.hindrance.alone else (0, 0)
        self.traffic = Traffic(requests, *sent)


class HinderedInstance(Instance):
    """A native instance, and what beside it was made for it."""

    def __init__(self, inner: Instance, provider: Hindered) -> None:
        self.inner, self.provider = inner, provider
        self.name, self.spec, self.agent = inner.name, inner.spec, inner.agent
        self.address, self.data = inner.address, inner.data

    async def freeze(self) -> None:
        await self.inner.freeze()

    async def thaw(self) -> None:
        await self.inner.thaw()

    async def destroy(self) -> None:
        """Count what went through it, and remove it with the groups of the disk."""
        try:
            if self.provider.traffic is None:
                with contextlib.suppress(CommandError, OSError):  # then nothing is known of it
                    await self.provider.look(self.spec)
        finally:
            await self.inner.destroy()
            await cgroups.Group.find(self.spec.tag, self.spec.name).remove()


def netns(spec: InstanceSpec) -> str:
    return f"{spec.tag}-{spec.name}"


def limit_cpu(group: cgroups.Group, cpus: float) -> None:
    """A quota of so many CPUs' time, in short periods. CGROUP_DENIED."""
    period = max(PERIOD_US, round(LEAST_QUOTA_US / cpus))
    quota = round(cpus * period)
    files: Mapping[str, str] = {
        "cpu.cfs_period_us": str(period),
        "cpu.cfs_quota_us": str(quota),
        "cpu.max": f"{quota} {period}",
    }
    written = False
    for place in group.directories:
        for name, text in files.items():
            if (place / name).exists():
                try:
                    (place / name).write_text(text)
                except OSError as error:
                    reason = error.strerror or str(error)
                    raise UllageError(
                        CGROUP_DENIED, what=f"{name} to {text}", path=place, reason=reason
                    ) from error
                written = True
    if not written:
        raise UllageError(CGROUP_DENIED, what="a quota", path=group.path, reason="no `cpu` there")
