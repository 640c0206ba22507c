"""Commands in a guest that is being made, and what to say of one that fails."""

from __future__ import annotations

from ullage.agent import AgentClient, Command
from ullage.environments.qemu_process import QemuProcess
from ullage.errors import UllageError
from ullage.printable import printable


async def inside(vm: QemuProcess, agent: AgentClient, *argv: str) -> bytes:
    """What a command in the guest prints; VM_FAILED when it fails."""
    done, stdout, stderr = await agent.run(Command(argv=argv, timeout_s=30))
    if done.status != 0:
        raise failed(vm, stderr.decode(errors="replace"), " ".join(argv))
    return stdout


def failed(vm: QemuProcess, reason: str, what: str = "the network") -> UllageError:
    """VM_FAILED, of what was done inside."""
    return vm.failed(f"{what}, inside", printable(reason, 300))
