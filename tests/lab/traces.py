"""What a run has left on this host, by the tags in its journal: others may run here too."""

from __future__ import annotations

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
        *(path for path, _, _ in os.walk("/sys/fs/cgroup")),
        *(f"{leftover.kind} {leftover.name} of {leftover.tag}" for leftover in leftovers.find()),
    ]
    return [text for text in lines if any(tag in text for tag in tags)]


def _lines(*argv: str) -> list[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
