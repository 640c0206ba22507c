"""Runs benchmarks of mpi4py in an instance: `WHEEL MPI "pingpong -m 1 …" …`.

Debian's mpi4py (3.1) has no ping-pong, so PyPI's wheel is put beside this file and unpacked by the
first that comes. The wheel wants MPICH as `libmpi.so.12`, which Debian calls `libmpich.so.12`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path


def unpack(wheel: Path) -> Path:
    """The folder with the wheel's contents; several processes may do this at once."""
    place = wheel.with_suffix("")
    if not place.exists():
        own = Path(tempfile.mkdtemp(prefix=place.name, dir=wheel.parent))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(own)
        try:
            own.rename(place)
        except OSError:  # another was faster
            shutil.rmtree(own)
    return place


def begin_anew_with_mpich(libraries: Path) -> None:
    """Give Debian's MPICH the name that the wheel wants, where the loader looks at its start."""
    if os.environ.get("LD_LIBRARY_PATH") == str(libraries):
        return
    libraries.mkdir(exist_ok=True)
    for library in Path("/usr/lib").glob("*/libmpich.so.12"):
        with contextlib.suppress(FileExistsError):
            (libraries / "libmpi.so.12").symlink_to(library)
    os.environ["LD_LIBRARY_PATH"] = str(libraries)
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606


def main(wheel: str, mpi: str, *runs: str) -> None:
    """Each of the runs as `python3 -m mpi4py.bench` would do it, in one MPI program."""
    place = Path(wheel).resolve()
    if mpi == "mpich":
        begin_anew_with_mpich(place.parent / "mpi4py-libraries")
    os.environ["MPI4PY_MPIABI"] = mpi
    sys.path.insert(0, str(unpack(place)))
    bench = importlib.import_module("mpi4py.bench")
    for run in runs:
        try:
            bench.main(run.split())
        except SystemExit as end:  # it ends the program after each
            if end.code:
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
