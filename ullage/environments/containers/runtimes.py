"""The OCI runtimes: programs that make a container of a bundle, and how their command lines differ.

All take `run --bundle DIR NAME` and `delete --force NAME`. Seen on the real ones: crun, runc, runsc
(gVisor). youki's follows its documentation. Kata has had no such program since its version 2.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import HOST_MISSING, HOST_NO_ANSWER, UllageError
from ullage.common.packages import install_command

RuntimeKind = Literal["crun", "runc", "youki", "runsc"]
Platform = Literal["systrap", "ptrace", "kvm"]
"""How gVisor catches the system calls of what runs in it."""

_INSTALLED_BY: Final[Mapping[str, str]] = {
    "runc": install_command("runc"),
    "youki": "its release, from github.com/containers/youki",
    "runsc": "gVisor, as gvisor.dev/docs/user_guide/install says",
}
_VERSION: Final = re.compile(r"(crun|runc|youki|runsc) version:? *(\S+)")
UNIFIED: Final = Path("/sys/fs/cgroup/unified")
"""Where a host with cgroup v1 controllers has its v2 tree."""


@dataclass(frozen=True)
class Runtime:
    """A runtime of this host."""

    kind: RuntimeKind
    program: str
    """Its path."""
    version: str
    platform: Platform
    """Of runsc alone."""

    @property
    def title(self) -> str:
        """`crun`, `gVisor (runsc, systrap)`: for tables and sentences."""
        return f"gVisor, {self.platform}" if self.kind == "runsc" else self.kind

    @property
    def own_kernel(self) -> bool:
        """Are system calls answered by a kernel of its own, which tells CPUs and memory too?"""
        return self.kind == "runsc"

    def command(self, root: Path, *, rootless: bool) -> list[str]:
        """The beginning of a call. root: where it keeps what it knows of its containers."""
        argv = [self.program, "--root", str(root)]
        if self.kind == "crun":
            argv += [f"--cgroup-manager={'disabled' if rootless else 'cgroupfs'}"]
        elif self.kind == "runsc":
            # Files are the host's: the root is read-only, and nothing is kept in memory over it.
            argv += [f"--platform={self.platform}", "--overlay2=none"]
            argv += ["--rootless", "--ignore-cgroups"] if rootless else []
        return argv


def expected(name: str, platform: Platform) -> Runtime:
    """What a name or path is taken for before it was asked; of an unknown one runc's twin."""
    base = Path(name).name
    kinds: tuple[RuntimeKind, ...] = get_args(RuntimeKind)
    kind: RuntimeKind = next((one for one in kinds if one == base), "runc")
    return Runtime(kind, name, "unknown", platform)


async def find(name: str, platform: Platform) -> Runtime:
    """The runtime of that name or path. HOST_MISSING, HOST_NO_ANSWER."""
    program = name if name.startswith("/") else _program(name)
    try:
        printed = await run([program, "--version"])
    except CommandError as error:
        raise UllageError(
            HOST_NO_ANSWER, what=name, reason=error.reason, command=f"`{name} --version` must work"
        ) from error
    version = _VERSION.match(printed)
    if version is None:
        known = ", ".join(get_args(RuntimeKind))
        raise UllageError(
            HOST_NO_ANSWER,
            what=name,
            reason=f"its --version names none of {known}",
            command="`runtime:` takes the path of one of these",
        )
    kind = next(one for one in get_args(RuntimeKind) if one == version[1])
    return Runtime(kind, program, version[2], platform)


def hybrid() -> bool:
    """Does this host's v2 tree have a controller of its own beside those of v1 (often `hugetlb`)?

    crun refuses to start anything then, though it would use none.
    """
    controllers = UNIFIED / "cgroup.controllers"
    return controllers.is_file() and bool(controllers.read_text(encoding="ascii").strip())


def hiding(agent: Path) -> list[str]:
    """The beginning of a command that must not see that tree; nobody else misses it."""
    return [str(agent), "hide", str(UNIFIED)]


def _program(name: str) -> str:
    if name == "crun":  # the default, and the demo's
        return needed("crun", "crun")
    program = shutil.which(name)
    if program is None:
        raise UllageError(HOST_MISSING, what=name, command=_INSTALLED_BY[name])
    return program
