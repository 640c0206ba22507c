"""The settings of a VM that matter for a workload, and those of them that this host can change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.common.errors import TUNE_NO_SETTING, UllageError
from ullage.environments.qemu import memory
from ullage.environments.qemu.command_line import VHOST
from ullage.environments.qemu.memory import Backing
from ullage.experiments.tuning import screening
from ullage.runs.records import Resource


@dataclass(frozen=True)
class TuneSetting:
    """One option of a VM with two values."""

    name: str
    """As in a plan: `disk.cache`."""
    as_it_was: Any
    changed: Any
    resources: frozenset[Resource]
    """Of workloads that may feel it."""
    lack: Callable[[TuneHost], str | None] = lambda _: None
    """Why this host cannot change it; None: it can."""
    excludes: frozenset[str] = frozenset()
    """Settings that mean nothing where it is changed."""

    def value(self, level: float) -> Any:
        """At −1 or +1 of a design."""
        return self.changed if level > 0 else self.as_it_was

    def __str__(self) -> str:
        """`disk.cache: writeback`."""
        return f"{self.name}: {_word(self.changed)}"


@dataclass(frozen=True)
class TuneHost:
    """What decides which settings there are."""

    cpus: int
    """Of the VM."""
    kvm: bool


@dataclass(frozen=True)
class Selection:
    """Settings to try, and why others are left out."""

    settings: tuple[TuneSetting, ...]
    absent: Mapping[str, str] = field(default_factory=dict)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _no_vhost(_: TuneHost) -> str | None:
    return None if VHOST.exists() else f"no {VHOST} here: `modprobe vhost_net`"


def _one_cpu(host: TuneHost) -> str | None:
    return None if host.cpus > 1 else "the VM has one CPU: give it more with `--cpus 2`"


def _no_pages(_: TuneHost) -> str | None:
    try:
        memory.check_host(Backing("2MiB"))
    except UllageError as error:
        return f"{error.message}; {error.hint}"
    return None


def _no_kvm(host: TuneHost) -> str | None:
    return None if host.kvm else "the VM is emulated"


_ALL: Final[frozenset[Resource]] = frozenset({"cpu", "memory", "disk", "network"})
_NETWORK: Final[frozenset[Resource]] = frozenset({"network"})
_DISK: Final[frozenset[Resource]] = frozenset({"disk"})

SETTINGS: Final[Sequence[TuneSetting]] = (
    TuneSetting("vhost", False, True, _NETWORK, _no_vhost),
    TuneSetting("queues", 1, 2, _NETWORK, _one_cpu),
    TuneSetting("offloads", True, False, _NETWORK),
    TuneSetting("disk.cache", "none", "writeback", _DISK),
    TuneSetting("disk.aio", "threads", "io_uring", _DISK),
    TuneSetting("disk.bus", "virtio", "scsi", _DISK),
    TuneSetting("io_thread", False, True, _DISK),
    TuneSetting(
        "nic",
        "virtio",
        "e1000e",
        _NETWORK,
        excludes=frozenset({"vhost", "queues", "offloads"}),
    ),
    TuneSetting("vcpus", "floating", "pinned", _ALL, _one_cpu),
    TuneSetting("hugepages", None, "2MiB", _ALL, _no_pages),
    TuneSetting("cpu_model", "host", "qemu64", _ALL, _no_kvm),
)
"""In the order in which they are dropped last where a design has no room for all."""


def select(resource: Resource, host: TuneHost, names: Sequence[str] = ()) -> Selection:
    """Those that a workload of the resource may feel and this host can change.

    names: just these, whatever the resource. TUNE_NO_SETTING where none is left, or one that was
    named cannot be changed.
    """
    absent: dict[str, str] = {}
    chosen: list[TuneSetting] = []
    for setting in SETTINGS:
        if setting.name not in names if names else resource not in setting.resources:
            continue
        others = [other.name for other in chosen if other.name in setting.excludes]
        if reason := setting.lack(host):
            absent[setting.name] = reason
        elif others:
            absent[setting.name] = f"with it {', '.join(others)} mean nothing: try it without them"
        elif len(chosen) == screening.MOST:
            absent[setting.name] = f"a design has room for {screening.MOST}"
        else:
            chosen.append(setting)
    unknown = [name for name in names if name not in {setting.name for setting in SETTINGS}]
    refused = {name: absent[name] for name in names if name in absent}
    if unknown or refused or not chosen:
        reasons = [f"{name}: no such setting" for name in unknown]
        reasons += [f"{name}: {reason}" for name, reason in (refused or absent).items()]
        raise UllageError(
            TUNE_NO_SETTING,
            reason="; ".join(reasons) or "none is of its resource",
            known=", ".join(setting.name for setting in SETTINGS),
        )
    return Selection(tuple(chosen), absent)
