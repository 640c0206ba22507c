"""Where the memory of a VM lies: huge pages, NUMA nodes inside, NUMA nodes of this host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ullage.common.errors import VM_NO_HUGE_PAGES, VM_NO_NUMA_NODE, UllageError
from ullage.common.quantities import exact_bytes

HugePage = Literal["2MiB", "1GiB"]

PAGE_BYTES: Final[dict[HugePage, int]] = {"2MiB": 2 << 20, "1GiB": 1 << 30}
RAM_STEP: Final = 8192
"""QEMU rounds the guest's memory up to it: all of a host's would be more than the host has."""
MOST_NODES: Final = 8

_POOLS: Final = Path("/sys/kernel/mm/hugepages")
_NODES: Final = Path("/sys/devices/system/node")


class Numa(BaseModel):
    """NUMA nodes that a VM has, and those of this host that its memory lies on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: int = Field(
        1,
        ge=1,
        le=MOST_NODES,
        strict=True,
        description="NUMA nodes inside, each with an equal part of the memory and of the vCPUs",
    )
    host: tuple[int, ...] = Field(
        (),
        max_length=MOST_NODES,
        description="nodes of this host: the first holds the memory of the first node inside, …;"
        " a single one holds all; left out: the kernel chooses",
    )

    @model_validator(mode="after")
    def _one_for_each(self) -> Numa:
        if self.host and len(self.host) not in {1, self.nodes}:
            raise ValueError(
                f"`host` has {len(self.host)} nodes: one for all of the VM's memory, or one for"
                f" each of its {self.nodes} nodes"
            )
        return self


@dataclass(frozen=True)
class Backing:
    """How QEMU gets the guest's memory."""

    page: HugePage | None = None
    """None: ordinary pages."""
    nodes: int = 1
    host: tuple[int, ...] = ()

    @classmethod
    def of(cls, page: HugePage | None, numa: Numa | None) -> Backing:
        return cls(page, numa.nodes, numa.host) if numa else cls(page)

    @property
    def is_default(self) -> bool:
        return self == ORDINARY

    @property
    def step(self) -> int:
        """The memory of each node is a multiple of it."""
        return PAGE_BYTES[self.page] if self.page else RAM_STEP

    def sizes(self, memory_bytes: int) -> list[int]:
        """Of the nodes inside, in their order; what does not divide is the first one's."""
        units = memory_bytes // self.step
        rest = units % self.nodes
        return [(units // self.nodes + (node < rest)) * self.step for node in range(self.nodes)]

    def host_of(self, node: int) -> int | None:
        """The node of this host that holds the memory of a node inside."""
        return self.host[node if len(self.host) > 1 else 0] if self.host else None

    def __str__(self) -> str:
        """`huge pages of 2MiB, 2 NUMA nodes, on the host's 0, 1`."""
        words = [f"huge pages of {self.page}"] if self.page else []
        words += [f"{self.nodes} NUMA nodes"] if self.nodes > 1 else []
        words += [f"on the host's NUMA node {', '.join(map(str, self.host))}"] if self.host else []
        return ", ".join(words) or "ordinary pages"


ORDINARY: Final = Backing()


def sockets(backing: Backing, vcpus: int) -> int:
    """No socket spans two NUMA nodes: Linux would not believe it."""
    if backing.nodes == 1:
        return 1
    return vcpus if vcpus % backing.nodes else backing.nodes


def arguments(backing: Backing, memory_bytes: int, vcpus: int) -> list[str]:
    """QEMU's, beside `-m`; the machine takes `memory-backend=ram0` where there is one node."""
    argv: list[str] = []
    first = 0
    for node, size in enumerate(backing.sizes(memory_bytes)):
        argv += ["-object", _object(backing, node, size)]
        count = vcpus // backing.nodes + (node < vcpus % backing.nodes)
        if backing.nodes > 1:
            cpus = f",cpus={first}-{first + count - 1}" if count else ""
            argv += ["-numa", f"node,nodeid={node}{cpus},memdev=ram{node}"]
        first += count
    return argv


def _object(backing: Backing, node: int, size: int) -> str:
    kind = "memory-backend-ram"
    more = ""
    if backing.page:  # reserved at once: a page that is not there would kill QEMU when touched
        kind = "memory-backend-memfd"
        more = f",hugetlb=on,hugetlbsize={PAGE_BYTES[backing.page]},prealloc=on"
    host = backing.host_of(node)
    bound = "" if host is None else f",host-nodes={host},policy=bind"
    return f"{kind},id=ram{node},size={size}{more}{bound}"


def check_host(backing: Backing) -> None:
    """VM_NO_HUGE_PAGES, VM_NO_NUMA_NODE where this host has no such pages or nodes."""
    if backing.page and not _count(backing.page, "nr_hugepages"):
        raise _no_pages(backing.page, "a VM", "this host has reserved none")
    nodes = host_nodes() if backing.host else []
    absent = sorted(set(backing.host) - set(nodes))
    if absent:
        here = ", ".join(map(str, nodes))
        reason = f"with memory this host has {here}"
        raise UllageError(VM_NO_NUMA_NODE, node=absent[0], reason=reason)
    if len(nodes) == 1:
        reason = "this host has no other, so it would change nothing"
        raise UllageError(VM_NO_NUMA_NODE, node=nodes[0], reason=reason)


def check_room(backing: Backing, name: str, memory_bytes: int) -> None:
    """VM_NO_HUGE_PAGES where the memory is not made of whole pages, or fewer are free."""
    if backing.page is None:
        return
    size = PAGE_BYTES[backing.page]
    whole, rest = divmod(memory_bytes, size)
    free = _count(backing.page, "free_hugepages")
    if rest:
        reason = f"{exact_bytes(memory_bytes)} are no whole number of them"
    elif whole < backing.nodes:
        reason = f"{whole} are fewer than its {backing.nodes} NUMA nodes"
    elif whole > free:
        reason = f"it needs {whole}, and {free} are free"
    else:
        return
    raise _no_pages(backing.page, name, reason)


def _no_pages(page: HugePage, name: str, reason: str) -> UllageError:
    return UllageError(VM_NO_HUGE_PAGES, instance=name, page=page, reason=reason, pool=_pool(page))


def host_nodes() -> list[int]:
    """NUMA nodes of this host that have memory."""
    nodes = []
    for path in _NODES.glob("node[0-9]*"):
        try:
            total = (path / "meminfo").read_text(encoding="ascii").split("MemTotal:")[1]
        except (OSError, IndexError):
            continue
        if int(total.split()[0]):
            nodes.append(int(path.name.removeprefix("node")))
    return sorted(nodes)


def _pool(page: HugePage) -> Path:
    return _POOLS / f"hugepages-{PAGE_BYTES[page] >> 10}kB"


def _count(page: HugePage, name: str) -> int:
    """0 where the kernel has no such pages."""
    try:
        return int((_pool(page) / name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
