"""Where that is kept which is made of a run: in its folder, or in this user's cache.

A folder of somebody else, or one that may not be written, stays as it is: whoever owns it can
change what lies in it while it is read.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ullage.common.files import cache_dir


def is_own(run: Path) -> bool:
    """May what is derived be put beside it?"""
    status = run.stat()
    return status.st_uid == os.geteuid() and os.access(run, os.W_OK)


def place(run: Path, *, read_only: bool = False) -> Path:
    """An existing folder. read_only: nothing is written into the run's own."""
    if not read_only and is_own(run):
        return run
    status = run.stat()
    name = f"{run.resolve()}\n{status.st_dev} {status.st_ino}"
    folder = cache_dir() / "derived" / hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
