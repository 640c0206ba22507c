"""What the engine asks of a provider, and what it gets."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import exact_bytes
from ullage.host import storage
from ullage.host.storage import DiskRequest, FileSystem
from ullage.host.swap.request import SwapRequest

if TYPE_CHECKING:
    from ullage.environments.agent.client import AgentClient
    from ullage.host.cgroups import Group, Limits
    from ullage.host.disks import DiskFormat
    from ullage.host.image import Image
    from ullage.host.network.bridge import Network


class Grown(BaseModel):
    """Fields of a plan of which some came later."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    later: ClassVar[frozenset[str]] = frozenset()
    """Left out of records while they have their default: so a run from before reads as the same."""

    @model_serializer(mode="wrap")
    def _as_before(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        defaults = {name: self.__class__.model_fields[name].default for name in self.later}
        return {
            name: value
            for name, value in whole(self).items()
            if name not in defaults or getattr(self, name) != defaults[name]
        }


class Options(Grown):
    """The fields of an environment in the plan that belong to its provider."""


class DataDisk(Grown):
    """Where `/data` stands."""

    later: ClassVar[frozenset[str]] = frozenset({"path", "file_system"})

    path: Path | None = Field(
        None,
        description="directory of this host on whose disk `/data` stands, or an empty block device;"
        " left out: where ullage keeps its own (`ULLAGE_DATA_DIR`)",
    )
    file_system: FileSystem | None = Field(
        None,
        description="`/data` is `ext4`, `xfs` or `btrfs`: made on a device and in a VM, asked of a"
        " directory; left out: as it is, where it is made ext4",
    )

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_absolute():
            raise ValueError("an absolute path, such as /mnt/ssd")
        return path


class DataOptions(Options):
    """Of a provider whose `/data` is on a disk of this host."""

    later: ClassVar[frozenset[str]] = frozenset({"disk"})

    disk: DataDisk = Field(DataDisk(), description="where `/data` stands: `{path: /mnt/ssd}`")


class ProcessOptions(DataOptions):
    """Of a provider whose programs run on this host's kernel, in a cgroup of ours."""

    later: ClassVar[frozenset[str]] = DataOptions.later | {"swap"}

    swap: SwapRequest | None = Field(
        None,
        description="what each instance may swap beyond its memory, `{on: zram, size: 512MiB}`;"
        " absent: nothing",
    )


Stage = Literal["requested", "chosen", "copied", "booting", "addressed", "reached"]
"""What a provider tells of an instance while it makes it: its disks are laid out; the program that
boots it starts; its address can be reached, as far as the network is concerned. Of a cloud's:
the cloud has taken the request, it has chosen a host, it runs the instance (`copied`), which has an
address, and lets us in."""

StageListener = Callable[[Stage, str], None]
"""Called with a stage at the moment when it is reached; with `addressed` comes the address."""


def ignore_stage(stage: Stage, address: str) -> None:
    """A listener for where nobody wants to know."""


@dataclass(frozen=True)
class InstanceSpec:
    """One instance to make."""

    tag: str
    """The run's tag: every name, cgroup, tap, mount and process of the run carries it."""
    name: str
    """`vm-0`: unique in the run, safe as a file name."""
    cpu_ids: tuple[int, ...]
    """Host CPUs that the instance may use; a VM gets as many vCPUs."""
    cpu_quota: float | None
    """CPUs' worth of time when less than len(cpu_ids); None: no quota."""
    memory_bytes: int
    image: Image | None
    """None: the host's own userland (native and container only)."""
    agent: Path
    """The static agent binary on the host."""
    state_dir: Path
    """Private directory for configuration, sockets and console logs (on /run)."""
    data_dir: Path
    """Private directory on a real disk: `/data` inside, or the place of the VM's data disk."""
    network: Network | None
    """The run's bridge; None: no network was asked for, or we are not root."""
    on_stage: StageListener = ignore_stage
    """Hears how the making goes on, from the event itself."""


class Instance(ABC):
    """One running copy of an environment, reached through its agent."""

    name: str
    spec: InstanceSpec
    agent: AgentClient
    address: str | None
    """IPv4 address on the run's bridge."""
    data: str = "/data"
    """The data directory as seen inside."""
    program_suffix: str = ""
    """What the files of our own programs end with, that are built for its system: `.exe`."""
    kernel_ns: int | None = None
    """When its kernel began, on this host's clock; None: nobody asked it."""
    own_kernel: bool = False
    """True for a VM: CPU times are told by a kernel that does not know of waiting for its vCPU."""
    unseen: UllageError | None = None
    """Why nobody has seen it go, though `destroy` has returned: its machine is gone."""

    @abstractmethod
    async def freeze(self) -> None:
        """Stop every process of the instance, so that it loads nobody."""

    @abstractmethod
    async def thaw(self) -> None:
        """Undo `freeze`."""

    @abstractmethod
    async def destroy(self) -> None:
        """Remove the instance and all that it left; what is gone already is no failure."""

    async def memory_kills(self) -> int:
        """How many of its processes the kernel has killed, ever, as its memory ran out.

        0 where nobody can tell.
        """
        return 0

    @property
    def alive(self) -> bool:
        """False once the agent's channel has closed."""
        return not self.agent.closed

    async def why_gone(self) -> UllageError | None:
        """A better reason for the end of its agent's channel than the channel knows, if any."""
        return None


class Provider(ABC):
    """Makes instances of one kind of environment.

    A subclass is one file, and one line in `ullage/environments/__init__.py`. Its docstring becomes
    its page in the docs.
    """

    name: ClassVar[str]
    options_model: ClassVar[type[Options]]
    host_image: ClassVar[bool] = False
    """Can it run from the host's own userland (`image: host`)?"""

    keeps_memory: ClassVar[bool] = False
    """Does an idle instance keep the memory that it has once used (a VM)?"""

    stands_on: ClassVar[Literal["root", "disk"]] = "root"
    """What of an image its instances run from: the unpacked tree, or the disk made of it."""

    elsewhere: ClassVar[bool] = False
    """Do its instances stand on machines of which we know nothing, a cloud's?"""

    optional: ClassVar[bool] = False
    """Does it need what is no part of ullage's own installation? Nobody misses it then."""

    last_seen: ClassVar[str] = ""
    """On which real part trials of it last had figures, and when; empty: nobody has told."""

    provision_s: ClassVar[float] = 1.0
    """Seconds to make one: a first guess for the estimate, replaced by what is seen."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    async def check(self) -> None:
        """Raise UllageError (HOST_MISSING, HOST_NEEDS_ROOT …) when this host cannot do it."""

    async def check_at_once(self) -> None:
        """The same as far as it can be told at once: nothing is fetched or booted."""
        await self.check()

    @property
    def removal_s(self) -> float:
        """So long may another machine take to remove an instance, which no signal of ours hastens.

        0: its processes are this host's.
        """
        return 0.0

    @abstractmethod
    async def create(self, spec: InstanceSpec) -> Instance:
        """Make one instance and say hello to its agent. On failure nothing is left behind."""

    def packages(self) -> tuple[str, ...]:
        """Debian packages that the image needs for this provider, such as an init system."""
        return ()

    @abstractmethod
    def label(self) -> str:
        """What tables and sentences call it, `qemu-tcg (emulated)`; valid after `check`."""

    @property
    def overhead_bytes(self) -> int:
        """Memory that an instance may take on the host beside its own; valid after `check`."""
        return 0

    def userland(self) -> str | None:
        """What its instances run in place of the image, so that it must be allowed; None: that."""
        return None

    def pinning(self) -> str | None:
        """Who decides which CPUs an instance runs on, where that is not the plan; None: it is."""
        return None

    def writable_root(self) -> str:
        """What holds what an instance writes to its root, where the plan lets it."""
        return "overlayfs over the image"

    @property
    def image_format(self) -> DiskFormat:
        """Of the image's disk, for one that stands on a disk."""
        return "raw"

    def own_copy(self) -> str | None:
        """Why an instance cannot run from a copy of the image of its own; None: it can.

        What is copied is on this host, and so is what reads it.
        """
        return "it stands on a machine of its own" if self.elsewhere else None

    @property
    def data_request(self) -> DiskRequest:
        """The disk that the plan chose for `/data`; without a path: ullage's own."""
        if not isinstance(self.options, DataOptions):
            return DiskRequest()
        disk = self.options.disk
        return DiskRequest(disk.path, disk.file_system, own=self.stands_on == "disk")

    @property
    def swap_request(self) -> SwapRequest | None:
        """What the plan lets its instances swap."""
        return self.options.swap if isinstance(self.options, ProcessOptions) else None

    def data_treatments(self) -> dict[str, str]:
        """That disk, and swap, where the plan chose one. DISK_UNUSABLE."""
        request = self.data_request
        swapping = {"swap": str(self.swap_request)} if self.swap_request else {}
        if (path := request.path) is None:
            return swapping
        if storage.is_device(path):
            return {**swapping, "data on": str(storage.device(path, request.file_system))}
        return {**swapping, "data on": f"{path}: {storage.disk(path)}"}

    @property
    def on_network(self) -> bool:
        """Do instances stand on the run's network, where a plan has one?"""
        return True

    @property
    def emulated(self) -> bool:
        """True when instructions are emulated, so that no user would see these figures."""
        return False

    @property
    def why_emulated(self) -> str:
        """What stood in the way of the hardware; empty: nothing did, or nobody asked for it."""
        return ""

    @abstractmethod
    def treatments(self) -> dict[str, str]:
        """What differs from native on purpose: device models, formats, cache modes …"""


_DATA: Final = "/data"
_LONGEST_MOUNTINFO: Final = 1 << 20
_QUOTA_TOLERANCE: Final = 0.01
_VM_MEMORY_LEAST: Final = 0.75
"""A guest's kernel and firmware keep some of its memory to themselves."""


def verify_limits(
    spec: InstanceSpec, facts: Mapping[str, Any], *, virtual_machine: bool = False
) -> None:
    """LIMIT_NOT_APPLIED unless what the agent saw inside is what the instance was to get.

    In a VM the vCPUs and the memory of the machine count, and what holds QEMU on the host is
    another question (`verify_group`); elsewhere the CPUs that a process may run on, the CPU quota,
    and the tightest memory limit or else the memory of the machine.
    """
    if virtual_machine:
        _verify_machine(spec, facts)
    else:
        _verify_cpus(spec, facts)
        _verify_quota(spec, facts)
        _verify_memory(spec, facts)


async def verify_data(instance: Instance, request: DiskRequest) -> None:
    """LIMIT_NOT_APPLIED unless `/data` inside is on the disk and the file system that were chosen.

    A VM's is a disk of its own, whose file was made there.
    """
    if instance.data != _DATA or (instance.own_kernel and not request.own):
        return
    mounts = await instance.agent.get("/proc/self/mountinfo", _LONGEST_MOUNTINFO)
    inside = dict(storage.mounted(mounts)).get(Path(_DATA))
    shown = f"{inside or 'no mount of its own'}"
    if request.file_system and (inside is None or inside.file_system != request.file_system):
        _refuse(instance.spec, f"{_DATA} of {request.file_system}", shown)
    if request.path is None or request.own:
        return
    chosen = storage.disk(instance.spec.data_dir)
    if inside is None or inside.number != chosen.number:
        _refuse(instance.spec, f"{_DATA} on {chosen}", shown)


def verify_group(spec: InstanceSpec, limits: Limits, group: Group, pid: int) -> None:
    """LIMIT_NOT_APPLIED unless the process is in the group, and the group has these limits."""
    if not group.holds(pid):
        _refuse(spec, f"all of it in the cgroup {group.path}", "a part that is not")
    actual = group.limits()
    if limits.cpu_ids is not None and sorted(limits.cpu_ids) != sorted(actual.cpu_ids or ()):
        _refuse(spec, f"CPUs {_cpus(limits.cpu_ids)}", f"{_cpus(actual.cpu_ids)} in its cgroup")
    if not _same_quota(limits.cpu_quota, actual.cpu_quota):
        required = f"a quota of {_show(limits.cpu_quota)}"
        _refuse(spec, required, f"a quota of {_show(actual.cpu_quota)} in its cgroup")
    if limits.memory_bytes is not None and not _is_limit(actual.memory_bytes, limits.memory_bytes):
        required = f"a limit of {exact_bytes(limits.memory_bytes)}"
        _refuse(spec, required, f"a limit of {_size(actual.memory_bytes)} in its cgroup")


def _verify_machine(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    online = facts.get("cpus_online")
    if online != len(spec.cpu_ids):
        _refuse(spec, f"{len(spec.cpu_ids)} vCPUs", f"{online} online")
    total, memory = _number(facts, "memory_total_bytes"), spec.memory_bytes
    if total is None or not _VM_MEMORY_LEAST * memory <= total <= memory:
        _refuse(spec, f"{exact_bytes(memory)} of memory", f"{_size(total)} in all")


def _verify_cpus(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    cpu_ids = facts.get("cpus_allowed")
    allowed = cpu_ids if isinstance(cpu_ids, list) else None
    if allowed is None or sorted(allowed) != sorted(spec.cpu_ids):
        _refuse(spec, f"CPUs {_cpus(spec.cpu_ids)}", f"{_cpus(allowed)} allowed")


def _verify_quota(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    quota = _number(facts, "cpu_quota")
    if spec.cpu_quota is None:
        if quota is not None and quota < len(spec.cpu_ids):
            _refuse(spec, f"{len(spec.cpu_ids)} CPUs without a quota", f"a quota of {quota:g}")
    elif not _same_quota(spec.cpu_quota, quota):
        _refuse(spec, f"a quota of {spec.cpu_quota:g} CPUs", f"{_show(quota)}")


def _verify_memory(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    memory = spec.memory_bytes
    limit, total = _number(facts, "memory_limit_bytes"), _number(facts, "memory_total_bytes")
    # What exceeds the machine limits nothing.
    unlimited = limit is None or limit >= memory
    if not _is_limit(limit, memory) and not (unlimited and total is not None and total <= memory):
        inside = f"a limit of {_size(limit)}, {_size(total)} in all"
        _refuse(spec, f"{exact_bytes(memory)} of memory", inside)


def _same_quota(required: float | None, actual: float | None) -> bool:
    if required is None or actual is None:
        return required is actual
    return abs(actual / required - 1) <= _QUOTA_TOLERANCE


def _is_limit(actual: float | None, required: int) -> bool:
    """Is it the limit that was asked for? The kernel counts in pages."""
    return actual is not None and required - os.sysconf("SC_PAGE_SIZE") < actual <= required


def _cpus(cpu_ids: Collection[object] | None) -> str:
    return ", ".join(map(str, cpu_ids)) if cpu_ids else "none"


def _number(facts: Mapping[str, Any], name: str) -> float | None:
    """A fact from inside, where anything may stand."""
    value = facts.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _show(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"


def _size(value: float | None) -> str:
    """A guest may tell of more than there are numbers for."""
    if value is None or not float(value).is_integer():
        return _show(value)
    return exact_bytes(int(value))


def _refuse(spec: InstanceSpec, required: str, actual: str) -> NoReturn:
    raise UllageError(errors.LIMIT_NOT_APPLIED, instance=spec.name, asked=required, seen=actual)
