"""Which of those packages Debian has not installed here, and their installation."""

from __future__ import annotations

import os
import subprocess
import sys

from ullage.common.errors import HOST_NEEDS_ROOT, SETUP_FAILED, UllageError
from ullage.common.packages import install_command, needed_to_run


def missing_packages() -> list[str]:
    """Debian's names of those that runs call and that this host does not have."""
    states = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package} ${Status}\n", *needed_to_run()],
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    installed = {
        line.split()[0] for line in states.splitlines() if line.endswith("install ok installed")
    }
    return [name for name in needed_to_run() if name not in installed]


def install(packages: list[str]) -> None:
    """By apt, whose output is the user's. HOST_NEEDS_ROOT, SETUP_FAILED."""
    if os.geteuid() != 0:
        otherwise = f"have root do this: {install_command(*packages)}"
        raise UllageError(HOST_NEEDS_ROOT, what="installing packages", otherwise=otherwise)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        argv = ["apt-get", "-q", *words]
        status = subprocess.run(argv, check=False, env=quiet, stdout=sys.stderr).returncode
        if status != 0:
            raise UllageError(SETUP_FAILED, command=" ".join(argv), status=status)
