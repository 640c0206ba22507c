"""What a guest may have made of its data is removed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ullage.host import disks


def test_directories_deeper_than_we_recurse_are_removed(tmp_path: Path) -> None:
    """As any program inside can make them; the path of the deepest is too long for the kernel."""
    top = tmp_path / "data"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(3 * sys.getrecursionlimit()):
        os.mkdir("dd", dir_fd=here)
        inner = os.open("dd", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    disks.remove_tree(top)
    assert not top.exists()
