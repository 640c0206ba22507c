"""Which state of the sources this ullage was made of."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[1]
FILE: Final = "bin/build"
"""In a wheel, below the package: one line, as `build` gives it."""


def build() -> str | None:
    """The commit, with a `+` when files differ from it. None: no wheel, and no clone with git."""
    try:
        return (_PACKAGE / FILE).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return of_clone(_PACKAGE.parent)


def of_clone(folder: Path) -> str | None:
    """The same of a git clone."""
    if not (folder / ".git").exists():
        return None
    argv = ["git", "-C", str(folder), "describe", "--always", "--exclude=*", "--abbrev=12"]
    try:
        done = subprocess.run(
            [*argv, "--dirty=+"], check=False, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
