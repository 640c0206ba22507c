"""Errors of simulations of elastic runs."""

from typing import Final

from ullage.errors.kind import ErrorKind, ExitCode

SIMULATION_BAD_TABLE: Final = ErrorKind(
    "simulation-bad-table",
    "{file}:{line}: no table of allocation times: {reason}",
    "write a CSV with a column `seconds`, and where known `concurrent` and `environment`",
)
SIMULATION_NO_LATENCIES: Final = ErrorKind(
    "simulation-no-latencies",
    "{source} says nothing of how long nodes take to come: {reason}",
    "name another run, table or environment, or write `allocation: {{time: 60s}}`",
)
SIMULATION_NO_CLUSTER: Final = ErrorKind(
    "simulation-no-cluster",
    "the Dask cluster at {address} cannot simulate: {reason}",
    "start a scheduler and workers that have ullage, or leave `--dask` out",
    ExitCode.SOME_CELLS_FAILED,
)
