"""Folders for Unix sockets, short by design: however deep a user's own folders lie, a socket's path
fits into what the kernel has for it, and so does the longer one under which ssh makes its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from ullage.host.paths import check_tag

LONGEST: Final = 107
"""Bytes of a path, without the one that ends it (unix(7))."""
PLACES: Final = (Path("/run"), Path("/tmp"))  # noqa: S108 - the folder in it is new, and ours alone
_FOLDER: Final = re.compile(r"ullage-(u[0-9a-f]{7})-[a-z0-9_]{8}")


class SocketFolder:
    """One folder, for its maker alone; named by the run's tag, so that `clean` finds it."""

    def __init__(self, tag: str) -> None:
        """Make it. OSError."""
        self.path = Path(tempfile.mkdtemp(prefix=f"ullage-{check_tag(tag)}-", dir=place()))

    def socket(self, name: str) -> Path:
        """The path for what has that name, however long the name is."""
        return self.path / short(name)

    def remove(self) -> None:
        """With what is in it; once more is no error."""
        shutil.rmtree(self.path, ignore_errors=True)


def place() -> Path:
    """Where such a folder goes."""
    return next((one for one in PLACES if os.access(one, os.W_OK | os.X_OK)), PLACES[-1])


def short(name: str) -> str:
    """Stands for a name that may be long."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def folders() -> Iterator[tuple[Path, str]]:
    """Each of this host with its tag, whoever has made it."""
    for parent in PLACES:
        with suppress(OSError):
            for path in sorted(parent.glob("ullage-u*")):
                match = _FOLDER.fullmatch(path.name)
                if match and path.is_dir() and not path.is_symlink():
                    yield path, match[1]
