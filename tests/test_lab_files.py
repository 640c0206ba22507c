"""What CI draws from: each file has tests of the lab, for pytest fails where it is given none."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_only_files_with_tests_of_the_lab_are_listed() -> None:
    done = subprocess.run([ROOT / "scripts/lab-files"], capture_output=True, text=True, check=True)
    files = done.stdout.split()
    assert len(files) == len(set(files)) > 40
    assert {"tests/lab/test_docker.py", "tests/cli/test_cli.py"} <= set(files)
    assert "tests/test_packages.py" not in files, "it only speaks of them"
    assert all("lab" in (ROOT / file).read_text() for file in files)
