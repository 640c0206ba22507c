"""Where the CPUs worked while real viewers watched: functions, cores, and over time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.lab.runkit import ran
from ullage.analysis.causes import symbols
from ullage.runs.reader import RunFolder
from ullage.runs.symbols import OTHER_END, Symbols, of_kernel

pytestmark = [pytest.mark.lab, pytest.mark.root]

# Small chunks keep both ends busy. Viewers come slowly, so a moment's standstill costs no video.
PLAN = """\
name: streaming-cpus
baseline: lxc
resources: {cpus: 1, memory: 256MiB}
environments:
  lxc: {provider: lxc}
blocks: {min: 1, max: 1}
workloads:
  - {name: streaming, viewers: 40, bitrate: 8000000, chunk: 4096, step_s: 6, ramp_s: 3,
     buffer_s: 3, late_limit_s: 60}
"""


def ullage(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ullage", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    # Where everybody had a violation the trial has no figure, and its table all the same.
    return ran(tmp_path_factory.mktemp("cpus"), PLAN, (0, 3))


def tables(folder: RunFolder) -> list[Symbols]:
    assert not [warning for warning in folder.warnings if warning.code.startswith("perf-")]
    stored = [symbols.read(folder, trial) for trial in folder.trials]
    whole = [table for table in stored if table is not None]
    assert len(whole) == len(stored) == 2
    return whole


def test_functions_of_the_server_the_viewers_and_the_kernel(folder: RunFolder) -> None:
    rows = [row for table in tables(folder) for row in table.rows if row.group == "programs"]
    objects = {(row.program, row.object) for row in rows}
    assert {("nginx", "nginx"), ("viewers", "ullage-viewers")} <= objects
    for program in ("nginx", "viewers"):
        functions = {row.symbol for row in rows if row.program == program and of_kernel(row.object)}
        assert any("tcp" in name for name in functions), functions


def test_the_cpus_over_time(folder: RunFolder) -> None:
    for table in tables(folder):
        (programs,) = (series for series in table.over_time if series.group == "programs")
        assert len(programs.samples) >= 8
        rows = sum(row.samples for row in table.rows if row.group == "programs")
        assert sum(programs.samples) >= rows > 0
        # While they watch both ends work, part by part.
        assert sum(samples > 0 for samples in programs.samples) >= 4
        assert {OTHER_END, "programs"} <= {series.group for series in table.cores_over_time}
    show = ullage("show", str(folder.path), "--details")
    assert show.returncode == 0, show.stderr
    assert "nginx" in show.stdout
    page = (folder.path / "report.html").read_text(encoding="utf-8")
    assert "Where the CPUs worked" in page
