"""The NAS kernels at their full size, and as a workload in real environments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.runkit import ran
from tests.mpi.naskit import program, run, verified
from tests.mpi.oceankit import needs_mpi
from ullage.workloads.mpi.nas import ITERATIONS, NasKernel, operations

pytestmark = [pytest.mark.lab, needs_mpi]

PLAN = """\
name: nas
baseline: native
resources: {cpus: 2, memory: 1GiB}
environments:
  native: {provider: native}
  container: {provider: oci}
workloads:
  - {name: nas, as: threads, class: S, threads: 2}
  - {name: nas, as: openmpi, class: S, kernel: is, parallel: mpi, ranks: 2}
  - {name: nas, as: mpich, class: S, kernel: is, parallel: mpi, ranks: 2, mpi: mpich}
  - {name: nas, as: second, class: S, kernel: ep, parallel: mpi, ranks: 2, peer: second}
blocks: {min: 1, max: 1}
"""


@pytest.mark.parametrize("kernel", ITERATIONS)
def test_class_a_is_verified(kernel: NasKernel) -> None:
    report = verified(run(program(kernel), "A", threads=2))
    assert report.did(operations(kernel, "A"))


def test_more_ranks_of_mpich_than_processors() -> None:
    report = verified(run(program("cg", "mpich"), mpi="mpich", ranks=4))
    assert report.processes == 4


@pytest.mark.root
def test_a_run_in_real_environments(tmp_path: Path) -> None:
    for mpi in (None, "openmpi", "mpich"):
        program("cg", mpi)
    trials = ran(tmp_path, PLAN).trials
    assert [(trial.trial, trial.reason) for trial in trials if trial.status != "ok"] == []
    assert {trial.workload for trial in trials} == {"threads", "openmpi", "mpich", "second"}
