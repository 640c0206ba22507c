"""The packages of this host's distribution that hold what a run calls.

`packages.csv` is the only list: the Makefile's RUN_PACKAGES are its rows with `yes`.
"""

from __future__ import annotations

import csv
import shlex
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ullage.common.errors import HOST_MISSING, UllageError

_INSTALL: Final = {
    "debian": "apt-get install",
    "fedora": "dnf install",
    "alpine": "apk add",
}
_RELEASES: Final = (Path("/etc/os-release"), Path("/usr/lib/os-release"))


def needed_to_run() -> tuple[str, ...]:
    """Debian's names of all that the image, the providers and the network call."""
    return tuple(row["debian"] for row in _table() if row["run"])


def install_command(*packages: str) -> str:
    """The command that adds these, given by Debian's names; in the words of this distribution."""
    known = {row["debian"]: row for row in _table()}
    here = distribution()
    names = [known[name][here] if name in known else name for name in packages]
    lacking = [package for package, name in zip(packages, names, strict=True) if not name]
    command = " ".join([_INSTALL[here], *filter(None, names)])
    if not lacking:
        return command
    nowhere = f"{', '.join(lacking)} is in no package of this distribution that we know"
    return nowhere if len(lacking) == len(packages) else f"{command} ({nowhere})"


def need_library(*modules: str) -> None:
    """HOST_MISSING unless Python has these, which a wheel leaves to who needs them."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        what = f"Python's {' and '.join(missing)}"
        raise UllageError(HOST_MISSING, what=what, command=f"pip install {' '.join(missing)}")


def distribution(releases: tuple[Path, ...] = _RELEASES) -> str:
    """Which column of the table this host reads; Debian's where it is unknown."""
    release = _release(releases)
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return next((name for name in names if name in _INSTALL), "debian")


def _release(places: tuple[Path, ...]) -> dict[str, str]:
    """os-release(5), of which nothing is sure."""
    for place in places:
        try:
            text = place.read_bytes()[: 64 << 10].decode(errors="replace")
        except OSError:
            continue
        return {
            key.strip(): _plain(value)
            for key, equals, value in (line.partition("=") for line in text.splitlines())
            if equals
        }
    return {}


def _plain(value: str) -> str:
    try:
        return " ".join(shlex.split(value))
    except ValueError:  # a quote without its second
        return value.strip("\"' ")


@cache
def _table() -> list[dict[str, str]]:
    text = (files("ullage.common.packages") / "packages.csv").read_text(encoding="ascii")
    return list(csv.DictReader(text.splitlines()))
