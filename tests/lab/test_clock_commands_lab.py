"""`ullage clock ntp` and `scaling` with all real parts: guests, daemons, network namespaces."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from ullage.experiments.clock.ntp.outcome import NtpReport
from ullage.experiments.clock.ocean.outcome import OceanReport
from ullage.host.network.iproute import NETNS_DIR

pytestmark = [pytest.mark.lab, pytest.mark.root]


def test_ntp(tmp_path: Path) -> None:
    page = tmp_path / "ntp.html"
    argv = [sys.executable, "-m", "ullage", "clock", "ntp", "--quick", "--json"]
    done = subprocess.run(
        [*argv, "--html", str(page)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    report = NtpReport.model_validate_json(done.stdout)
    schema = NtpReport.model_json_schema(mode="serialization")
    jsonschema.validate(report.model_dump(mode="json"), schema)
    interval = report.measured.intervals[0]
    assert abs(interval.error_ppb + 50_000) < 20_000
    assert interval.applied is not None
    assert interval.applied.count > 10
    assert "chrony" in page.read_text()


def test_ocean(tmp_path: Path) -> None:
    page = tmp_path / "ocean.html"
    argv = [sys.executable, "-m", "ullage", "clock", "ocean", "--ranks", "2", "--runs", "2"]
    done = subprocess.run(
        [*argv, "--steps", "3", "--json", "--html", str(page)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    report = OceanReport.model_validate_json(done.stdout)
    schema = OceanReport.model_json_schema(mode="serialization")
    jsonschema.validate(report.model_dump(mode="json"), schema)
    (series,) = report.series
    assert [trial.failed for trial in series.trials if trial.failed] == []
    assert set(series.variants) == {"stock", "stock~again", "chrony", "ullage"}
    assert "2 ranks" in page.read_text()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_study_s_ocean_that_is_interrupted_leaves_nothing(
    how: signal.Signals, tmp_path: Path
) -> None:
    """SIGTERM ended the process at once, and the ranks and a daemon went on."""
    argv = [sys.executable, "-m", "ullage", "study", "run", "elastic-clock", "--quick"]
    argv += ["--plan", "elastic-clock-ocean-quick", "--runs", str(tmp_path / "runs")]
    places = {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=os.environ | places) as run:
        until = time.monotonic() + 100
        while not list(tmp_path.glob("ullage-ocean-*")):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < until
            time.sleep(0.01)
        run.send_signal(how)
        _, stderr = run.communicate(timeout=60)
    assert run.returncode == 130, stderr
    assert "--resume" in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert not [file for file in Path("/proc").glob("[0-9]*") if of(file, str(tmp_path))]


def of(process: Path, place: str) -> bool:
    """Has it this place among its arguments?"""
    try:
        return place in (process / "cmdline").read_text(errors="replace")
    except OSError:  # it has just ended
        return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_scaling_that_is_interrupted_leaves_nothing(how: signal.Signals, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "ullage", "clock", "scaling", "--processes", "8"]
    places = {f"ULLAGE_{name}_DIR": str(tmp_path / name) for name in ("STATE", "DATA")}
    with subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | places,
    ) as scaling:
        until = time.monotonic() + 100
        while not (tags := [path.name for path in tmp_path.glob("STATE/u*") if path.is_dir()]):
            assert scaling.poll() is None, scaling.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
        (tag,) = tags
        while not list(NETNS_DIR.glob(f"{tag}-*")):
            assert scaling.poll() is None, scaling.communicate()
            assert time.monotonic() < until
            time.sleep(0.01)
        scaling.send_signal(how)
        stdout, _ = scaling.communicate(timeout=60)
    assert scaling.returncode == 130
    assert stdout == ""
    assert not list(NETNS_DIR.glob(f"{tag}-*"))
    assert not [name for _, name in socket.if_nameindex() if name.startswith(tag)]
    assert not list(tmp_path.glob("*/u*/*"))
