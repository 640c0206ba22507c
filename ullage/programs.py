"""The host's programs that ullage calls."""

from __future__ import annotations

import os
import shutil

from ullage.errors import HOST_MISSING, UllageError


def needed(program: str, package: str) -> str:
    """Where the program is; HOST_MISSING with the Debian package that holds it when it is nowhere.

    Also looks where system tools stand, which a plain user's PATH may lack.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    found = shutil.which(program, path=path)
    if found is None:
        raise UllageError(HOST_MISSING, what=program, command=f"apt-get install {package}")
    return found
