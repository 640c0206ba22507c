"""Commands in a guest that is being made, and what to say of one that fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ullage.common.errors import UllageError
from ullage.common.text import printable
from ullage.environments.agent.process import Command
from ullage.host.network.bridge import INSIDE

if TYPE_CHECKING:
    from ullage.environments.agent.client import AgentClient
    from ullage.environments.qemu.options import Aggregation
    from ullage.environments.qemu.running import RunningVm


async def inside(vm: RunningVm, agent: AgentClient, *argv: str) -> bytes:
    """What a command in the guest prints; VM_FAILED when it fails."""
    done, stdout, stderr = await agent.run(Command(argv=argv, timeout_s=30))
    if done.status != 0:
        raise failed(vm, stderr.decode(errors="replace"), " ".join(argv))
    return stdout


def failed(vm: RunningVm, reason: str, step: str = "the network") -> UllageError:
    """VM_FAILED, of what was done inside."""
    return vm.failed(f"{step}, inside", printable(reason, 300))


# Format: Linux, Documentation/networking/bonding.rst, 4.2 "Querying Bonding Configuration".

_BOND_STATE: Final = f"/proc/net/bonding/{INSIDE}"
_MONITOR_MS: Final = "100"
_TRIES: Final = 50


async def join(vm: RunningVm, agent: AgentClient, aggregation: Aggregation) -> None:
    """eth0 is all of them from now on, with the first one's MAC. VM_FAILED when it is not."""
    names = [f"link{number}" for number in range(aggregation.links)]
    for number, name in enumerate(names):
        await inside(vm, agent, "ip", "link", "set", "dev", f"eth{number}", "name", name)
    # The module has made a `bond0` when it was loaded.
    await inside(vm, agent, "ip", "link", "set", "dev", "bond0", "name", INSIDE)
    how = ["mode", aggregation.mode, "miimon", _MONITOR_MS]
    if aggregation.mode == "balance-xor":
        how += ["xmit_hash_policy", "layer3+4"]
    await inside(vm, agent, "ip", "link", "set", "dev", INSIDE, "type", "bond", *how)
    for name in names:
        await inside(vm, agent, "ip", "link", "set", "dev", name, "master", INSIDE)
    await inside(vm, agent, "ip", "link", "set", "dev", INSIDE, "up")
    for _ in range(_TRIES):
        bond = (await inside(vm, agent, "cat", _BOND_STATE)).decode(errors="replace")
        if up(bond) == set(names):
            return
        await asyncio.sleep(int(_MONITOR_MS) / 1000)
    raise failed(vm, f"of {', '.join(names)}, these are up: {', '.join(sorted(up(bond)))}")


def up(bond: str) -> set[str]:
    """The NICs with a link, from what the kernel tells of a bond."""
    names = set()
    for part in bond.split("Slave Interface: ")[1:]:
        name, *lines = part.splitlines()
        if "MII Status: up" in lines:
            names.add(name.strip())
    return names
