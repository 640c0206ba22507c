"""The file descriptors that many machines and instances take of this process, which may have so
many and no more: said, and seen to, before any of them is reached.
"""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from typing import Final

from ullage.common.errors import HOST_DESCRIPTORS, UllageError

_OWN: Final = 128
"""What a run has open beside them: its journal, its meters, what it reads for a moment."""
_CHANNEL: Final = 5 if sys.version_info >= (3, 12) else 4
"""Three pipes to the program that reaches it, what that says in a file, and, in newer Pythons, the
program itself."""
_OUTPUTS: Final = 4
"""Standard output and error of two programs of an instance."""
_HERE: Final = 4
"""What a VM's provider has open beside that: its monitor, its console, its network."""


@dataclass(frozen=True)
class Descriptors:
    """What a run takes at the most."""

    nodes: int
    """Other machines."""
    instances: int
    here: int
    """Those of them on this machine."""
    working: int
    """Those that work at the same time."""

    @property
    def needed(self) -> int:
        """In all."""
        channels = self.nodes + self.instances
        return _OWN + _CHANNEL * channels + _HERE * self.here + _OUTPUTS * self.working

    def check(self) -> None:
        """HOST_DESCRIPTORS when this process can never have so many."""
        if (limit := most()) < self.needed:
            raise UllageError(
                HOST_DESCRIPTORS,
                instances=self.instances,
                nodes=self.nodes,
                needed=self.needed,
                limit=limit,
            )

    def provide(self) -> None:
        """Let this process have them, and no more: what it starts inherits that, and some programs
        do work for each that they could have. HOST_DESCRIPTORS."""
        self.check()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < self.needed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.needed, hard))


def most() -> int:
    """What this process may raise its limit to."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]
