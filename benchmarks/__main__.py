"""Runs every benchmark, one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.clock.__main__ import BENCHMARKS as CLOCK
from benchmarks.elastic import allocation
from benchmarks.elastic.__main__ import BENCHMARKS as ELASTIC
from benchmarks.energy.__main__ import BENCHMARKS as ENERGY
from benchmarks.engine.__main__ import BENCHMARKS as ENGINE
from benchmarks.environments.__main__ import BENCHMARKS as ENVIRONMENTS
from benchmarks.figures import Measure, main_of_all
from benchmarks.mpi.__main__ import BENCHMARKS as MPI
from benchmarks.profile.__main__ import BENCHMARKS as PROFILE
from benchmarks.statistics import aims
from benchmarks.statistics.gate_rates import command as gate_rates
from benchmarks.statistics.injection import command
from benchmarks.workloads.__main__ import BENCHMARKS as WORKLOADS

SUBJECTS: Mapping[str, Mapping[str, Measure]] = {
    "engine": ENGINE,
    "environments": ENVIRONMENTS,
    "clock": CLOCK,
    "mpi": MPI,
    "statistics": {
        "aims": aims.measure,
        "gate_rates": gate_rates.measure,
        "injection": command.measure,
    },
    "energy": ENERGY,
    "workloads": WORKLOADS,
    "profile": PROFILE,
    "elastic": {**ELASTIC, "allocation": allocation.measure},
}
BENCHMARKS = {
    f"{subject}.{name}": measure
    for subject, benchmarks in SUBJECTS.items()
    for name, measure in benchmarks.items()
}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
