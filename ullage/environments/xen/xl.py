"""What `xl` tells: of this Xen, of its dom0, of a domain.

Format: xl(1), of Xen 4.17.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ullage.common.commands import CommandError, needed, run, tail
from ullage.common.errors import (
    HOST_NEEDS_ROOT,
    XEN_NO_MODE,
    XEN_NOT_HERE,
    XEN_NOT_PINNED,
    UllageError,
)

if TYPE_CHECKING:
    from ullage.environments.xen.options import Mode

PROGRAM: Final = "xl"
PACKAGE: Final = "xen-utils-common"
_TYPE: Final = Path("/sys/hypervisor/type")
_CAPABILITIES: Final = Path("/proc/xen/capabilities")
_DOM0: Final = "control_d"
_NEEDED: Final[Mapping[Mode, str]] = {"pv": "pv", "pvh": "hvm", "hvm": "hvm"}
_PATIENCE_S: Final = 60.0
_ALWAYS: Final = "Primary console has invalid configuration"
"""What 4.17 says of each domain that has a channel."""
_VCPU: Final = re.compile(r"^.+?\s+\d+\s+(\d+)\s+\S+\s+\S+\s+[\d.]+\s+(\S+) / (\S+)\s*$")
_CAP: Final = re.compile(r"\s(\d+)\s+(\d+)\s+(\d+)\s*$")


async def ask(*words: str, timeout_s: float = _PATIENCE_S) -> str:
    """What `xl` prints. HOST_MISSING, CommandError."""
    argv = (needed(PROGRAM, PACKAGE), *words)
    return await run(argv, timeout_s=timeout_s, reason=first_lines)


def first_lines(text: str) -> str:
    """Of its standard error: what failed comes first, then what could not be undone any more."""
    lines = [line.strip() for line in text.splitlines() if "error" in line and _ALWAYS not in line]
    return "; ".join(lines[:3])[:600] or tail(text)


def check_dom0() -> None:
    """XEN_NOT_HERE unless this is dom0 of a Xen that runs."""
    kind, able = _text(_TYPE), _text(_CAPABILITIES)
    if kind != "xen":
        reason = f"its hypervisor is {kind}" if kind else "no hypervisor is below its kernel"
        raise UllageError(XEN_NOT_HERE, reason=reason)
    if _DOM0 not in able.split():
        raise UllageError(XEN_NOT_HERE, reason=f"{_CAPABILITIES} does not say {_DOM0}")


def refuse_plain_user(euid: int) -> None:
    """HOST_NEEDS_ROOT."""
    if euid != 0:
        raise UllageError(HOST_NEEDS_ROOT, what="Xen's dom0", otherwise="write `provider: qemu`")


async def facts() -> dict[str, str]:
    """What `xl info` says of this Xen. XEN_NOT_HERE."""
    try:
        text = await ask("info")
    except CommandError as error:
        raise UllageError(XEN_NOT_HERE, reason=f"`xl info`: {error.reason}") from error
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def check_mode(mode: Mode, info: Mapping[str, str]) -> None:
    """XEN_NO_MODE unless this machine has what the mode needs."""
    able = info.get("virt_caps", "")
    if _NEEDED[mode] not in able.split():
        raise UllageError(XEN_NO_MODE, mode=mode, able=able or "nothing")


async def check_pinned() -> None:
    """XEN_NOT_PINNED unless the CPUs that dom0 sees are those of the machine.

    The plan's CPUs are given to dom0's programs and to domains alike.
    """
    for vcpu, cpus in (await affinity("0")).items():
        if cpus != {vcpu}:
            raise UllageError(XEN_NOT_PINNED, vcpu=vcpu, cpus=ranges(cpus))


async def affinity(domain: str) -> dict[int, set[int] | None]:
    """vCPU → the CPUs that it may run on; None: any."""
    lines = (await ask("vcpu-list", domain)).splitlines()
    rows = [match for match in map(_VCPU.match, lines) if match]
    return {int(row[1]): cpu_set(row[2]) for row in rows}


async def cap(domain: str) -> int | None:
    """Percent of one CPU that credit2 lets it have; None: as much as there is."""
    lines = (await ask("sched-credit2", "-d", domain)).splitlines()
    row = _CAP.search(lines[-1]) if lines else None
    return int(row[3]) or None if row else None


async def domain_id(uuid: str) -> int | None:
    """Of the domain that has the UUID; None when it is gone."""
    for line in (await ask("vm-list")).splitlines():
        words = line.split()
        if words and words[0] == uuid:
            return int(words[1])
    return None


def cpu_set(text: str) -> set[int] | None:
    """`0-2,5`; None: `all`."""
    if text == "all":
        return None
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def ranges(cpus: set[int] | None) -> str:
    """As people write it."""
    return "any CPU" if cpus is None else f"CPU {', '.join(map(str, sorted(cpus)))}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
