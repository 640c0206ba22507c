"""The programs under `mpi/`, built and called."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from ullage.experiments.clock.ocean.trial import OceanOutput
from ullage.host import binaries

SOURCES = Path(__file__).resolve().parents[2] / "mpi/programs"
SMALL = ("--nx", "16", "--ny", "12", "--nz", "3", "--steps", "3")
MISSING = [f"mpicc.{mpi}" for mpi in ("openmpi", "mpich") if shutil.which(f"mpicc.{mpi}") is None]

needs_mpi = pytest.mark.skipif(
    bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install libopenmpi-dev libmpich-dev"
)


@cache
def build(part: str) -> None:
    """What has changed, once in a session."""
    subprocess.run(["make", "--quiet", "-C", str(SOURCES / part)], check=True)


def launch(
    mpi: str, ranks: int, *options: str, program: Path | None = None
) -> subprocess.CompletedProcess[str]:
    build("ocean")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    more = [*root, "--oversubscribe"] if mpi == "openmpi" else []
    path = program or binaries.DIRECTORY / mpi / "ocean"
    return subprocess.run(
        [f"mpirun.{mpi}", *more, "-n", str(ranks), str(path), *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@cache
def output(mpi: str, ranks: int) -> OceanOutput:
    done = launch(mpi, ranks, *SMALL)
    assert done.returncode == 0, done.stderr
    return OceanOutput.model_validate_json(done.stdout)
