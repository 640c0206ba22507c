"""Runs every benchmark, one after the other, or those that are named.

A name is a subject (`engine`) or a benchmark of one (`engine.startup`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks import figures, records
from benchmarks.clock.__main__ import BENCHMARKS as CLOCK
from benchmarks.clouds.__main__ import BENCHMARKS as CLOUDS
from benchmarks.elastic import allocation
from benchmarks.elastic.__main__ import BENCHMARKS as ELASTIC
from benchmarks.energy.__main__ import BENCHMARKS as ENERGY
from benchmarks.engine.__main__ import BENCHMARKS as ENGINE
from benchmarks.environments.__main__ import BENCHMARKS as ENVIRONMENTS
from benchmarks.figures import Measure
from benchmarks.mpi.__main__ import BENCHMARKS as MPI
from benchmarks.nodes.__main__ import BENCHMARKS as NODES
from benchmarks.profile.__main__ import BENCHMARKS as PROFILE
from benchmarks.statistics import aims
from benchmarks.statistics.gate_rates import command as gate_rates
from benchmarks.statistics.injection import command
from benchmarks.workloads.__main__ import BENCHMARKS as WORKLOADS

SUBJECTS: Mapping[str, Mapping[str, Measure]] = {
    "engine": ENGINE,
    "environments": ENVIRONMENTS,
    "nodes": NODES,
    "clock": CLOCK,
    "clouds": CLOUDS,
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


def main(argv: Sequence[str] | None = None) -> None:
    """Run, print, and keep what was printed when asked to."""
    parser = figures.options(__doc__ or "")
    parser.add_argument("names", nargs="*", metavar="NAME", help="these only")
    parser.add_argument(
        "--record", action="store_true", help=f"keep the rows in {records.PLACE.name}/ too"
    )
    arguments = parser.parse_args(argv)
    benchmarks = _named(arguments.names)
    if not benchmarks:
        parser.error(f"no benchmark is named {' or '.join(arguments.names)}")
    failed: list[str] = []
    rows = figures.rows_of_all(benchmarks, arguments.quick, failed)
    if arguments.record:
        rows = records.kept(rows, quick=arguments.quick)
    figures.write((figure for _, figure in rows), as_json=arguments.json)
    figures.end(failed)


def _named(names: Sequence[str]) -> Mapping[str, Measure]:
    """All, where none is named."""
    wanted = {
        name for name in BENCHMARKS if not names or {name, name.partition(".")[0]} & set(names)
    }
    return {name: measure for name, measure in BENCHMARKS.items() if name in wanted}


if __name__ == "__main__":
    main()
