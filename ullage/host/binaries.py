"""Programs of our own that workloads run: built by `make programs`, the same bytes everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from ullage.common.errors import PROGRAM_MISSING, UllageError

Mpi = Literal["openmpi", "mpich"]

DIRECTORY: Final = Path(__file__).resolve().parents[1] / "bin"


def program(name: str, mpi: Mpi | None = None) -> Path:
    """A program of ours on this host; of one linked against an MPI, the one for that MPI.

    PROGRAM_MISSING when it was not built.
    """
    path = DIRECTORY / mpi / name if mpi else DIRECTORY / name
    if not path.is_file():
        raise UllageError(PROGRAM_MISSING, program=path)
    return path
