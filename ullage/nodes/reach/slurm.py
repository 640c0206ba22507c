"""Slurm's own srun: the machines of an allocation, reached from inside it.

Each channel is a step of its own beside the others (`--overlap`). The job's own rules count: what
it was not given, no step has.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import ClassVar, Final

from ullage.common.commands import needed
from ullage.common.errors import NODE_ALLOCATION, UllageError
from ullage.nodes.reach.openssh import ACCOUNTS, Target, last_words

PREFIX: Final = "slurm:"
"""Before the host's name, where a command names such a machine."""
_PACKAGE: Final = "slurm-client"
_ASK_S: Final = 30.0
_OPTIONS: Final = (
    "--overlap",
    "--nodes=1",
    "--ntasks=1",
    "--cpu-bind=none",
    "--unbuffered",
    "--quiet",
    "--mpi=none",
    "--export=HOME,USER,LOGNAME,SHELL,PATH,LANG,LC_ALL,TZ",
)
"""Of the environment only what ssh would give: in the rest are passwords, and `SSH_CONNECTION`, the
address of the machine that ullage runs on."""
_ENDED: Final = (
    "Invalid job id",
    "already completing or completed",
    "has expired",
    "Expired or invalid job",
    "Job is no longer running",
    "allocation has been revoked",
    "Requested node configuration is not available",
    "not in this job",
    "not in the allocation",
)
"""What srun prints of an allocation that has ended, or that has no such host."""


@dataclass(frozen=True)
class SlurmTarget(Target):
    """A machine of the allocation; its address is `slurm:HOST`."""

    program: ClassVar[str] = "srun"

    @property
    def host(self) -> str:
        """As Slurm calls it."""
        return self.address.removeprefix(PREFIX)

    def argv(self, words: Sequence[str], *options: str) -> list[str]:
        """srun's command line; it begins in the home directory there, as ssh does."""
        inside = shlex.join((*(("sudo", "-n") if self.sudo else ()), *words))
        argv = [needed("srun", _PACKAGE), *_OPTIONS, f"--nodelist={self.host}", *options]
        return [*argv, "sh", "-c", f"cd && exec {inside}"]

    def first(self, words: Sequence[str], control: Path) -> list[str]:
        """A step."""
        return self.argv(words)

    def further(self, words: Sequence[str], control: Path) -> list[str]:
        """A step beside it."""
        return self.argv(words)

    def refusal(self, output: bytes, status: int | None) -> UllageError | None:
        """What srun says of the allocation, and what is said inside it."""
        text = output.decode(errors="replace")
        if "SLURM_JOB_ID" not in os.environ:
            return self._outside("ullage runs outside of one")
        if any(words in text for words in _ENDED):
            return self._outside(last_words(output))
        return self.known(output, ACCOUNTS)

    def _outside(self, reason: str) -> UllageError:
        return UllageError(NODE_ALLOCATION, node=self.node, address=self.host, reason=reason)


def hosts(node: str, count: int) -> tuple[str, ...]:
    """The first hosts of this allocation. NODE_ALLOCATION when it has fewer, or there is none."""
    listed = os.environ.get("SLURM_JOB_NODELIST", "")
    if not listed:
        reason = "ullage runs outside of one"
        raise UllageError(NODE_ALLOCATION, node=node, address="any", reason=reason)
    argv = [needed("scontrol", _PACKAGE), "show", "hostnames", listed]
    try:
        done = subprocess.run(argv, capture_output=True, check=True, timeout=_ASK_S)
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(error)[-300:]
        raise UllageError(NODE_ALLOCATION, node=node, address="any", reason=reason) from error
    names = tuple(done.stdout.decode(errors="replace").split())
    if len(names) < count:
        reason = f"it has {len(names)} machines, and the plan names {count}"
        raise UllageError(NODE_ALLOCATION, node=node, address="any", reason=reason)
    return names[:count]


def addresses_of(hosts: Sequence[str]) -> list[str | None]:
    """Their IPv4 addresses, as this machine knows the names; None: it does not.

    Many a machine knows its own name as 127.0.1.1, where no other reaches it: it has the address
    that it speaks to the others from.
    """
    from ullage.host.network.between import address_towards  # noqa: PLC0415

    known = [_address_of(host) for host in hosts]
    others = [address for address in known if address and not _is_loopback(address)]
    own: str | None = None
    if others:
        with suppress(UllageError):
            own = address_towards(others[0])
    return [own if address and _is_loopback(address) else address for address in known]


def _address_of(host: str) -> str | None:
    with suppress(OSError):
        return socket.gethostbyname(host)
    return None


def _is_loopback(address: str) -> bool:
    return IPv4Address(address).is_loopback
