"""The noise daemon: counts, not times."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tests.mpi.oceankit import build
from ullage.experiments.clock.ocean.outcome import NoiseDone
from ullage.host import binaries


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    build("noise")


def noise(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(binaries.program("noise")), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def periodic(period: int, length: int, seconds: int) -> list[str]:
    cpu = str(min(os.sched_getaffinity(0)))
    values = {"period-us": period, "length-us": length, "cpu": cpu, "seconds": seconds}
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


@pytest.mark.parametrize(("period", "length"), [(100_000, 500), (9_973, 100), (20, 19)])
def test_every_period_has_a_burst_or_is_an_overrun(period: int, length: int) -> None:
    done = noise(*periodic(period, length, 1))
    assert done.returncode == 0, done.stderr
    noise_done = NoiseDone.model_validate_json(done.stdout)
    assert noise_done.bursts + noise_done.overruns == 1_000_000 // period
    assert noise_done.bursts >= 1
    assert noise_done.busy_s >= noise_done.bursts * length * 1e-6


def test_noise_says_what_it_did_when_it_is_stopped() -> None:
    daemon = subprocess.Popen(
        [str(binaries.program("noise")), *periodic(50_000, 100, 600)],
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.5)
    daemon.send_signal(signal.SIGTERM)
    text, _ = daemon.communicate(timeout=30)
    noise_done = NoiseDone.model_validate_json(text)
    assert daemon.returncode == 0
    assert 1 <= noise_done.bursts < 600 * 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (periodic(100, 100, 1), "the length must be below the period"),
        (periodic(10, 5, 86_400), "more than ten million bursts"),
        (["--period-us", "100"], "are all needed"),
        ([*periodic(100, 5, 1), "--priority", "rr:1"], "not a possible value"),
        ([*periodic(100, 5, 1), "--cpu", "1023"], "--cpu 1023: "),
        (["--cpu"], "a value is missing after --cpu"),
        (["--loud"], "unknown option --loud"),
        (["now"], "unexpected argument now"),
    ],
)
def test_bad_options_of_noise(options: list[str], message: str) -> None:
    done = noise(*options)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
