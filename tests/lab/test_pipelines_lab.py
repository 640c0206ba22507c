"""dedup and ferret in a container, through a whole run; the same input and answers as natively."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.runkit import ran
from ullage.host import binaries
from ullage.workloads.pipelines.programs import PROGRAM

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: pipelines
baseline: native
image: host
resources: {cpus: 1, memory: 1GiB}
environments:
  native: {provider: native}
  container: {provider: oci}
workloads:
  - {name: dedup, size: 16MiB, vary: {threads: [1, 2]}}
  - {name: dedup, as: dedup-disk, size: 16MiB, source: disk, duplicates: 0.7}
  - {name: ferret, images: 64, queries: 64, classes: 4, vary: {source: [memory, disk]}}
blocks: {min: 2, max: 2}
"""


def test_a_run_of_both(tmp_path: Path) -> None:
    if not (binaries.DIRECTORY / PROGRAM).is_file():
        pytest.skip(f"{PROGRAM} is not built: `make programs` does it")
    folder = ran(tmp_path, PLAN)
    assert [trial.status for trial in folder.trials] == ["ok"] * (2 * 3 * 5)
    digests: dict[str, set[str]] = {}
    for trial in folder.trials:
        digests.setdefault(trial.workload, set()).add(trial.facts["output_sha256"])
    assert {len(of_workload) for of_workload in digests.values()} == {1}
    assert digests["dedup[threads=1]"] == digests["dedup[threads=2]"]
