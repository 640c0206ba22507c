"""Is a VM that runs the machine that the plan asked for? Seen from this host and from inside."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ullage.common.errors import VM_NOT_AS_ASKED, UllageError
from ullage.common.text import printable
from ullage.environments.qemu.cpus import FLAGS
from ullage.environments.qemu.memory import PAGE_BYTES, Backing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ullage.environments.agent.client import AgentClient
    from ullage.environments.qemu.process import QemuProcess

_NODES_ONLINE: Final = "/sys/devices/system/node/online"
_LONGEST: Final = 4 << 20
_SHOWN: Final = 60


async def pinned(vm: QemuProcess, cpu_ids: Sequence[int]) -> None:
    """VM_NOT_AS_ASKED unless each vCPU's thread may run on its one CPU only."""
    for thread, cpu in zip(await vm.vcpu_threads(), cpu_ids, strict=True):
        allowed = os.sched_getaffinity(thread)
        if allowed != {cpu}:
            shown = ", ".join(map(str, sorted(allowed)))
            _refuse(vm, f"a vCPU on CPU {cpu}", f"one on {shown}")


async def io_thread(vm: QemuProcess) -> None:
    """VM_NOT_AS_ASKED unless QEMU has one."""
    if not await vm.io_threads():
        _refuse(vm, "an I/O thread", "none, as QEMU tells")


def memory(vm: QemuProcess, backing: Backing, memory_bytes: int) -> None:
    """VM_NOT_AS_ASKED unless the kernel tells the same of QEMU's mappings."""
    sizes = backing.sizes(memory_bytes)
    if backing.page:
        text = Path(f"/proc/{vm.pid}/smaps").read_text(encoding="utf-8", errors="replace")
        huge = _mapped(text, PAGE_BYTES[backing.page])
        if huge < sum(sizes):
            _refuse(vm, f"{sum(sizes)} B in huge pages of {backing.page}", f"{huge} B in them")
    if backing.host:
        text = Path(f"/proc/{vm.pid}/numa_maps").read_text(encoding="utf-8", errors="replace")
        bound = {int(node) for node in re.findall(r"^\S+ bind:(\d+)\b", text, re.MULTILINE)}
        if not set(backing.host) <= bound:
            _refuse(vm, f"memory on the host's NUMA nodes {sorted(set(backing.host))}", f"{bound}")


def _mapped(smaps: str, page_bytes: int) -> int:
    """Bytes of the mappings that are made of such pages: proc(5), `smaps`."""
    total = 0
    for size, page in re.findall(r"^Size: +(\d+) kB\nKernelPageSize: +(\d+) kB$", smaps, re.M):
        if int(page) << 10 == page_bytes:
            total += int(size) << 10
    return total


async def nodes(vm: QemuProcess, agent: AgentClient, count: int) -> None:
    """VM_NOT_AS_ASKED unless so many NUMA nodes are online inside."""
    online = (await agent.get(_NODES_ONLINE, _LONGEST)).decode(errors="replace").strip()
    if online != f"0-{count - 1}":
        _refuse(vm, f"{count} NUMA nodes", f"{online} online")


async def nested(vm: QemuProcess, agent: AgentClient, *, able: bool) -> None:
    """VM_NOT_AS_ASKED unless the CPU inside can run VMs, or cannot."""
    cpuinfo = (await agent.get("/proc/cpuinfo", _LONGEST)).decode(errors="replace")
    flags = {
        flag for line in re.findall(r"^flags\s*:(.*)$", cpuinfo, re.M) for flag in line.split()
    }
    seen = sorted(flags & set(FLAGS))
    if bool(seen) != able:
        _refuse(
            vm,
            f"a CPU that can{'' if able else 'not'} run VMs",
            f"one with {', '.join(seen)}" if seen else "one with neither vmx nor svm",
        )


def _refuse(vm: QemuProcess, required: str, seen: str) -> None:
    raise UllageError(
        VM_NOT_AS_ASKED, instance=vm.name, asked=required, seen=printable(seen, _SHOWN)
    )
