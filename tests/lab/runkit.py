"""`ullage run` on a plan, as the lab's tests call it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.lab.traces import left_by
from ullage.runs.reader import RunFolder


def finished(
    place: Path, plan: str, change: str = "", env: Mapping[str, str] | None = None
) -> tuple[int, RunFolder]:
    """Status and folder of the plan's run, which has left nothing.

    change: executed in the command's process, before it.
    """
    file, runs = place / "plan.yaml", place / "runs"
    file.write_text(plan)
    changed = ["-c", f"{change}\nfrom ullage.cli.main import main\nmain()"]
    program = [sys.executable, *(changed if change else ["-m", "ullage"])]
    done = subprocess.run(
        [*program, "run", str(file), "--runs", str(runs)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
    )
    print(done.stderr)
    assert not left_by(runs)
    (folder,) = runs.iterdir()
    return done.returncode, RunFolder.open(folder)


def ran(place: Path, plan: str, statuses: tuple[int, ...] = (0,)) -> RunFolder:
    """The folder of a run that ended with one of the statuses: 3, some trials have no figures."""
    status, folder = finished(place, plan)
    assert status in statuses
    return folder
