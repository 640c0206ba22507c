"""Where ullage keeps its things.

Each run has a tag. Everything that a run makes outside its run folder carries the tag, so that
`ullage clean` can find it after the worst of deaths; `ullage.host.claims` tells whose it is.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Final

from ullage.common.files import home

TAG: Final = re.compile(r"u[0-9a-f]{7}")
"""A run's tag. Use `fullmatch`."""


def state_root() -> Path:
    """The directory above every run's state: in memory, gone after a boot."""
    if configured := os.environ.get("ULLAGE_STATE_DIR"):
        return Path(configured)
    if os.geteuid() == 0:
        return Path("/run/ullage")
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "ullage"
    return home("XDG_STATE_HOME", ".local/state") / "ullage" / "run"


def data_root() -> Path:
    """The directory above every run's data directories: on a real disk."""
    if configured := os.environ.get("ULLAGE_DATA_DIR"):
        return Path(configured)
    if os.geteuid() == 0:
        return Path("/var/lib/ullage/data")
    return home("XDG_STATE_HOME", ".local/state") / "ullage" / "data"


def state_dir(tag: str) -> Path:
    """Sockets, configurations and console logs of one run; `claims.claim` makes it."""
    return state_root() / check_tag(tag)


def data_dir(tag: str) -> Path:
    """Files that the workloads of one run read and write; `claims.claim` makes it."""
    return data_root() / check_tag(tag)


def check_tag(tag: str) -> str:
    """The tag itself; ValueError when it is none, so that it can never be a path."""
    if not TAG.fullmatch(tag):
        raise ValueError(f"not a tag: {tag!r}")
    return tag


def new_tag() -> str:
    """A tag that no run on this host uses."""
    while True:
        tag = "u" + secrets.token_hex(4)[:7]
        if not state_dir(tag).exists() and not data_dir(tag).exists():
            return tag
