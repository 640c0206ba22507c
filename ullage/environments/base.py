"""What the engine asks of a provider, and what it gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from ullage.agent import AgentClient
from ullage.image import Image
from ullage.network import Network


class Options(BaseModel):
    """The fields of an environment in the plan that belong to its provider."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Stage = Literal["copied", "booting", "addressed"]
"""What a provider tells of an instance while it makes it: its disks are laid out; the program that
boots it starts; its address can be reached, as far as the network is concerned."""

Told = Callable[[Stage, str], None]
"""Told a stage at the moment when it is reached; with `addressed` comes the address."""


def nobody(stage: Stage, what: str) -> None:
    """Where nobody wants to know."""


@dataclass(frozen=True)
class InstanceSpec:
    """One instance to make."""

    tag: str
    """The run's tag: every name, cgroup, tap, mount and process of the run carries it."""
    name: str
    """`vm-0`: unique in the run, safe as a file name."""
    cpus: tuple[int, ...]
    """Host CPUs that the instance may use; a VM gets as many vCPUs."""
    cpu_quota: float | None
    """CPUs' worth of time when less than len(cpus); None: no quota."""
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
    told: Told = nobody
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
    own_kernel: bool = False
    """True for a VM: CPU times are told by a kernel that does not know of waiting for its vCPU."""

    @abstractmethod
    async def freeze(self) -> None:
        """Stop every process of the instance, so that it loads nobody."""

    @abstractmethod
    async def thaw(self) -> None:
        """Undo `freeze`."""

    @abstractmethod
    async def destroy(self) -> None:
        """Remove the instance and all that it left; what is gone already is no failure."""

    @property
    def alive(self) -> bool:
        """False once the agent's channel has closed."""
        return not self.agent.closed


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

    provision_s: ClassVar[float] = 1.0
    """Seconds to make one: a first guess for the estimate, replaced by what is seen."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    async def check(self) -> None:
        """Raise UllageError (HOST_MISSING, HOST_NEEDS_ROOT …) when this host cannot do it."""

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

    def own_copy(self) -> str | None:
        """Why an instance cannot run from a copy of the image of its own; None: it can."""
        return None

    @property
    def emulated(self) -> bool:
        """True when instructions are emulated, so that no user would see these figures."""
        return False

    @abstractmethod
    def treatments(self) -> dict[str, str]:
        """What differs from native on purpose: device models, formats, cache modes …"""
