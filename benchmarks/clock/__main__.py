"""Runs every benchmark of the clock, one after the other."""

from __future__ import annotations

from benchmarks.clock import mpi_wtime, reads, synchronisation
from benchmarks.figures import main_of_all

BENCHMARKS = {
    "reads": reads.measure,
    "mpi_wtime": mpi_wtime.measure,
    "synchronisation": synchronisation.measure,
}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
