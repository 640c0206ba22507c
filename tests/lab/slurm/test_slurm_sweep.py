"""A sweep of simulations in jobs of a real Slurm, of the machines that `test_slurm_lab` has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from testing.slurm.cluster import cluster

pytestmark = [pytest.mark.lab, pytest.mark.root]

SWEEP: Final = {
    "room": 10,
    "arrivals": {"kind": "poisson", "rate": 0.2, "viewers": 40},
    "allocation": "60s",
    "patience": "60s",
    "seeds": 6,
    "vary": {"patience": ["30s", "60s"]},
}


def test_jobs_find_what_threads_find(tmp_path: Path) -> None:
    """Two jobs, each of them gone at the end, and nothing left where it was started."""
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(SWEEP), encoding="utf-8")
    own = tmp_path / "here"
    own.mkdir()
    argv = [sys.executable, "-m", "ullage", "elastic", "sweep", str(tmp_path / "sweep.yaml")]

    def sweep(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*argv, *words],
            cwd=own,
            env={**slurm.environment, **settings},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )

    with cluster() as slurm:
        results = []
        for words in ((), ("--dask", "slurm:2")):
            done = sweep("--json", *words, DASK_JOBQUEUE__SLURM__MEMORY="400MB")
            assert done.returncode == 0, done.stderr
            results.append(json.loads(done.stdout))
        jobs = slurm.ask("squeue", "-h", "-t", "PENDING,RUNNING")
        refused = sweep("--dask", "slurm:2", DASK_JOBQUEUE__SLURM__QUEUE="nowhere")
    assert results[0] == results[1]
    assert not jobs.strip()
    assert refused.returncode == 3 and "invalid partition" in refused.stderr.lower(), refused.stderr
    assert not list(own.iterdir())
