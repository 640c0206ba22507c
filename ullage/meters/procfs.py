"""Small files of the kernel, read at the least cost: three system calls each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
"""What the kernel counts CPU time in."""
_MOST = 4096
_PIECE = 1 << 16


def read(path: Path | str) -> str | None:
    """What the file begins with; None when it is not there, or is refused."""
    data = read_bytes(path)
    return None if data is None else data.decode("ascii", "replace")


def read_bytes(path: Path | str) -> bytes | None:
    """The same, as it is."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, _MOST)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def target(path: str) -> str:
    """Where a link leads. OSError."""
    return os.readlink(path)  # noqa: PTH115  at the least cost


def is_folder(path: str) -> bool:
    """Is there a directory of that name?"""
    return os.path.isdir(path)  # noqa: PTH112  at the least cost


def whole(path: Path | str) -> str:
    """All of the file, which the kernel gives in pieces; empty when it is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        content = b""
        while piece := os.read(descriptor, _PIECE):
            content += piece
        return content.decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def number(path: Path | str) -> int | None:
    """The whole number that the file holds; None without one."""
    text = (read(path) or "").strip()
    return int(text) if text.isdecimal() else None


def stalled_us(pressure: str, tasks: Literal["some", "full"]) -> int | None:
    """How long some tasks, or all, waited, of a file of /proc/pressure; None: it does not tell."""
    for line in pressure.splitlines():
        total = line.rpartition("total=")[2]
        if line.startswith(f"{tasks} ") and total.isdecimal():
            return int(total)
    return None
