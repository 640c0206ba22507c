"""The wheel in an empty environment, with neither Rust nor make nor git."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import wheel
from ullage.host import build

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: wheel
baseline: native
image: host
environments: {native: {provider: native}, container: {provider: oci}}
workloads: [{name: command, argv: ["true"]}]
blocks: {min: 2, max: 2}
"""


def test_it_installs_by_pip_and_runs_a_plan(tmp_path: Path) -> None:
    file = wheel.make(wheel.ROOT / "ullage", tmp_path)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    home = tmp_path / "venv/bin"
    pip = [str(home / "pip"), "--quiet", "--disable-pip-version-check", "install", str(file)]
    subprocess.run(pip, check=True, timeout=900)
    refused = tmp_path / "refused"
    refused.mkdir()
    for name in ("cargo", "git", "make"):
        (refused / name).write_text(f"#!/bin/sh\ntouch {refused}/called\nexit 1\n")
        (refused / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{refused}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)

    def ullage(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [home / "ullage", *words],
            cwd=tmp_path,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )

    assert ullage("--version").stdout == f"ullage 0.1.0 (build {build.of_clone(wheel.ROOT)})\n"
    assert f"ok       agent            {tmp_path}/venv/lib" in ullage("doctor").stdout
    (tmp_path / "plan.yaml").write_text(PLAN)
    done = ullage("run", "plan.yaml", "--runs", "runs")
    assert done.returncode == 0, done.stderr
    assert "6 trials, 0 without figures" in done.stderr
    assert not (refused / "called").exists()
