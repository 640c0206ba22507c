"""What is mounted where, and removing directories without removing what is mounted in them."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Final

from ullage.cgroups import unescape

_MOUNTS: Final = Path("/proc/self/mountinfo")


def points() -> list[Path]:
    """Every mount point of this process's namespace, the oldest first."""
    lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return [Path(unescape(line.split()[4])) for line in lines]


def remove_tree(directory: Path) -> None:
    """Remove the directory and all in it; what is gone already is no error.

    OSError (EBUSY) while anything is mounted in it: the removal would go through to that, and
    what builders and containers mount are the host's own `/dev` and the user's own files.
    """
    if not directory.is_dir() or directory.is_symlink():
        return
    inside = [path for path in points() if path.is_relative_to(directory.resolve())]
    if inside:
        raise OSError(errno.EBUSY, f"{inside[0]} is still mounted", os.fspath(directory))
    shutil.rmtree(directory)
