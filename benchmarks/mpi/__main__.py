"""Runs every benchmark of MPI programs, one after the other."""

from __future__ import annotations

from benchmarks.figures import main_of_all
from benchmarks.mpi import nas, ocean, pingpong

BENCHMARKS = {
    "nas": nas.measure,
    "pingpong": pingpong.measure,
    "ocean": ocean.measure,
}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
