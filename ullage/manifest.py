"""What a directory tree holds, so that a change can be told."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest(root: Path) -> dict[str, str]:
    """Path → `mode uid:gid size content` of everything under `root`.

    The content is the SHA-256 of a file, the target of a link, the numbers of a device. Times are
    left out: reading a file may change one.
    """
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in (*folders, *sorted(files)):
            path = Path(folder) / name
            found[str(path.relative_to(root))] = _line(path)
    return found


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The first thing that differs, for people; None when nothing does."""
    for path in sorted({*before, *now}):
        if path not in now:
            return f"{path} is gone"
        if path not in before:
            return f"{path} is new"
        if before[path] != now[path]:
            return f"{path} is not the same"
    return None


def _line(path: Path) -> str:
    status = path.lstat()
    mode = status.st_mode
    if stat.S_ISREG(mode):
        content = sha256_of(path)
    elif stat.S_ISLNK(mode):
        content = str(path.readlink())
    elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        content = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    else:
        content = "-"
    size = 0 if stat.S_ISDIR(mode) else status.st_size
    return f"{mode:o} {status.st_uid}:{status.st_gid} {size} {content}"
