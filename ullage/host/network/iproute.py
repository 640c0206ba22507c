"""iproute2 and its network namespaces, as the run's network needs them."""

from __future__ import annotations

import ctypes
import ipaddress
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from ullage.common.commands import CommandError, run
from ullage.common.errors import NETWORK_FAILED, UllageError

NETNS_DIR: Final = Path("/run/netns")
"""Where iproute2 keeps named network namespaces."""

_CLONE_NEWNET: Final = 0x40000000
_libc: Final = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


def within(netns: Path, work: Callable[[], T]) -> T:
    """Call `work` in a thread that has joined the network namespace, and wait for it."""
    done: list[T] = []
    failed: list[BaseException] = []

    def joined() -> None:
        try:
            with netns.open("rb") as file:
                if _libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number), str(netns))
            done.append(work())
        except BaseException as error:
            failed.append(error)

    # A thread of its own: it dies with the namespace, and no pool hands it to another caller.
    thread = threading.Thread(target=joined, name="ullage-netns")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def namespaces(prefix: str) -> list[str]:
    """Namespaces that iproute2 keeps and whose names begin so."""
    return sorted(path.name for path in NETNS_DIR.glob(f"{prefix}*"))


async def batch(*lines: str, netns: Path | None = None) -> None:
    """Run iproute2 commands, all or up to the first that fails: NETWORK_FAILED."""
    if netns is None:
        argv = ["ip"]
    elif netns.parent == NETNS_DIR:
        argv = ["ip", "-netns", netns.name]
    else:
        argv = ["nsenter", f"--net={netns}", "ip"]
    try:
        await run([*argv, "-batch", "-"], stdin="\n".join(lines) + "\n")
    except CommandError as error:
        raise UllageError(NETWORK_FAILED, reason=error.reason) from error


async def flood(device: str, address: str) -> None:
    """Have a VXLAN device send what it knows no place for there too. NETWORK_FAILED."""
    argv = ["bridge", "fdb", "append", "00:00:00:00:00:00", "dev", device, "dst", address]
    try:
        await run(argv)
    except CommandError as error:
        raise UllageError(NETWORK_FAILED, reason=error.reason) from error


async def routes() -> list[ipaddress.IPv4Network]:
    """Every destination that some routing table of the host knows."""
    entries = json.loads(await run(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]")
    names = {str(route["dst"]) for route in entries if route.get("dst") not in (None, "default")}
    return [ipaddress.IPv4Network(name, strict=False) for name in names]


def disable_ipv6(device: str) -> None:
    """Where the kernel has it: no neighbour discovery is to disturb a trial."""
    path = Path("/proc/sys/net/ipv6/conf") / device / "disable_ipv6"
    if path.exists():
        path.write_text("1", encoding="ascii")
