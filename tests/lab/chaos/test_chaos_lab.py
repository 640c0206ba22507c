"""A slice of all campaigns, some minutes long. `make chaos` plays them to their ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MINUTES = 5


@pytest.mark.lab
@pytest.mark.root
def test_a_slice_of_every_campaign(tmp_path: Path, agent_binary: Path) -> None:
    argv = [sys.executable, "-m", "tests.lab.chaos", "--minutes", str(MINUTES)]
    played = subprocess.run(
        [*argv, "--ledger", str(tmp_path / "ledger")], capture_output=True, text=True, check=False
    )
    assert played.returncode == 0, played.stdout + played.stderr
