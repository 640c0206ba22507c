"""The NAS kernels of `mpi/nas`, built and called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.mpi.oceankit import SOURCES, build
from ullage.host import binaries
from ullage.workloads.mpi import npb_report

NAS = SOURCES / "nas"
PATIENT = {**os.environ, "OMP_WAIT_POLICY": "passive"}
"""Threads that wait do not spin: the tests' machine is shared."""


def program(kernel: str, mpi: binaries.Mpi | None = None) -> Path:
    """It, built."""
    build("nas")
    return binaries.program(f"nas-{kernel}", mpi)


def run(
    path: Path,
    size_class: str = "S",
    *,
    mpi: binaries.Mpi | None = None,
    ranks: int = 1,
    threads: int = 1,
) -> subprocess.CompletedProcess[str]:
    """One run: with threads alone, or with an MPI."""
    argv = [str(path), "--class", size_class, "--threads", str(threads)]
    if mpi:
        argv = [*_launcher(mpi), "-n", str(ranks), *argv]
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=PATIENT,
        check=False,
        timeout=120,
    )


def _launcher(mpi: binaries.Mpi) -> list[str]:
    if mpi == "mpich":
        return ["mpirun.mpich"]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun.openmpi", *root, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]


def verified(done: subprocess.CompletedProcess[str]) -> npb_report.Npb:
    """Its report, which is verified."""
    assert done.returncode == 0, done.stdout + done.stderr
    report = npb_report.read(done.stdout)
    assert report.verified
    return report


def altered(folder: Path, kernel: str, source: str, was: str, now: str) -> Path:
    """The kernel's program with threads, one text of its source changed, built in the folder."""
    copy = folder / "programs" / "nas"
    shutil.copytree(NAS, copy)
    shutil.copy(SOURCES / "give_up.h", copy.parent)
    text = (copy / source).read_text("utf-8")
    assert text.count(was) == 1
    (copy / source).write_text(text.replace(was, now), "utf-8")
    path = folder / f"nas-{kernel}"
    subprocess.run(
        ["make", "--quiet", "-C", str(copy), f"BIN={folder}", "CFLAGS=-O1", str(path)], check=True
    )
    return path
