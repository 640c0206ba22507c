"""What a run has left on this host, by the tags in its journal: others may run here too."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from ullage.host import leftovers
from ullage.runs.reader import sessions


def left_by(runs: Path) -> list[str]:
    """Of the runs in this folder."""
    return left_with({session.tag for folder in runs.iterdir() for session in sessions(folder)})


def left_with(tags: set[str]) -> list[str]:
    """Looked for twice: by our own finder, and by the system's tools."""
    assert tags
    lines = [
        *_lines("ip", "-o", "link"),
        *_lines("ip", "netns", "list"),
        *Path("/proc/self/mountinfo").read_text().splitlines(),
        *_cgroups(Path("/sys/fs/cgroup")),
        *(f"{leftover.kind} {leftover.name} of {leftover.tag}" for leftover in leftovers.find()),
    ]
    return [text for text in lines if any(tag in text for tag in tags)]


def _cgroups(root: Path) -> list[str]:
    """All of them. A guest can nest its own deeper than `os.walk` can go."""
    groups, todo = [], [str(root)]
    while todo:
        groups.append(place := todo.pop())
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            todo += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return groups


def _lines(*argv: str) -> list[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
