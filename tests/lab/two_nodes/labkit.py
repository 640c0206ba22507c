"""What tests of the two machines share."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.two_nodes.lab import Lab, lab
from ullage.runs.reader import RunFolder


@pytest.fixture(scope="module")
def machines() -> Iterator[Lab]:
    with lab() as ours:
        for name in ours.machines:
            done = ullage("node", "install", f"root@{name}", "--node-config", str(ours.config))
            assert done.returncode == 0, done.stderr
        yield ours


def ullage(*argv: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "ullage", *argv]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=1200)


def clean(ours: Lab, name: str) -> list[dict[str, object]]:
    """What runs have left on a machine."""
    argv = ("clean", "--dry-run", "--json", "--node", f"root@{name}")
    done = ullage(*argv, "--node-config", str(ours.config))
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def folder_of(runs: Path) -> RunFolder:
    (path,) = runs.iterdir()
    return RunFolder.open(path)
