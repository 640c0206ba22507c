"""The system's own ssh: its command lines, and what its words mean.

The user's configuration and known hosts count. Nothing is ever asked for (`BatchMode`), no shell
reads what a plan says, and all that a node needs goes through one connection.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from ullage.common.commands import needed
from ullage.common.errors import (
    NODE_KEY_CHANGED,
    NODE_KEY_REFUSED,
    NODE_KEY_UNKNOWN,
    NODE_NO_PYTHON,
    NODE_SUDO,
    NODE_UNKNOWN_HOST,
    NODE_UNREACHABLE,
    ErrorKind,
    UllageError,
)
from ullage.common.text import printable
from ullage.nodes.reach.tree import PYTHON

CONNECT_S: Final = 10
FAILED: Final = 255
"""What ssh itself ends with, when it was not the command there."""
_OPTIONS: Final = (
    "BatchMode=yes",
    f"ConnectTimeout={CONNECT_S}",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RequestTTY=no",
)
ACCOUNTS: Final[tuple[tuple[str, ErrorKind], ...]] = (
    ("sudo: a password is required", NODE_SUDO),
    ("sudo: a terminal is required", NODE_SUDO),
    (f"{PYTHON}: not found", NODE_NO_PYTHON),
)
"""What is printed there, once one is in → what that means."""
_WORDS: Final[tuple[tuple[str, ErrorKind], ...]] = (
    ("HOST IDENTIFICATION HAS CHANGED", NODE_KEY_CHANGED),
    ("Could not resolve hostname", NODE_UNKNOWN_HOST),
    ("Host key verification failed", NODE_KEY_UNKNOWN),
    ("Permission denied", NODE_KEY_REFUSED),
    ("Too many authentication failures", NODE_KEY_REFUSED),
)
"""What ssh itself prints → what that means; the first that fits. What runs there may say the same
of its own affairs, such as a file."""


@dataclass(frozen=True)
class Target:
    """A machine, as the user names it."""

    node: str
    address: str
    config: Path | None = None
    sudo: bool = False
    program: ClassVar[str] = "ssh"
    """What reaches it, in words."""

    def argv(self, words: Sequence[str], *options: str) -> list[str]:
        """The command line that runs these words there."""
        argv = [needed("ssh", "openssh-client"), "-T"]
        if self.config is not None:
            argv += ["-F", str(self.config)]
        for option in (*_OPTIONS, *options):
            argv += ["-o", option]
        command = shlex.join((*(("sudo", "-n") if self.sudo else ()), *words))
        return [*argv, "--", self.address, command]

    def first(self, words: Sequence[str], control: Path) -> list[str]:
        """The same, with a connection that others may share."""
        return self.argv(words, "ControlMaster=yes", f"ControlPath={control}", "ControlPersist=no")

    def further(self, words: Sequence[str], control: Path) -> list[str]:
        """The same, over that connection."""
        return self.argv(words, "ControlMaster=no", f"ControlPath={control}")

    def refusal(self, output: bytes, status: int | None) -> UllageError | None:
        """What these last words mean, with the status of the end; None: nothing that is known."""
        return self.known(output, (*(_WORDS if status == FAILED else ()), *ACCOUNTS))

    def known(self, output: bytes, meanings: Sequence[tuple[str, ErrorKind]]) -> UllageError | None:
        """The first of these meanings that it has."""
        text = output.decode(errors="replace")
        for words, kind in meanings:
            if words in text:
                return UllageError(kind, node=self.node, address=self.address, python=PYTHON)
        return None

    def unreachable(self, output: bytes, status: int | None) -> UllageError:
        """The complaint, whatever was said."""
        return self.refusal(output, status) or UllageError(
            NODE_UNREACHABLE, node=self.node, address=self.address, reason=last_words(output)
        )


def last_words(output: bytes) -> str:
    """The last line that it printed, for a message."""
    lines = output.decode(errors="replace").strip().splitlines()
    return printable(lines[-1], 300) if lines else "it said nothing"
