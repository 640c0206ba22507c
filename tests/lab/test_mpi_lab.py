"""Message passing between real instances of every kind: both MPIs, our program and mpi4py's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.lab.runkit import ran

pytestmark = [pytest.mark.lab, pytest.mark.root]

CHECKOUT = Path(__file__).resolve().parents[2]
PLAN = """\
name: message-passing
baseline: native
resources: {{cpus: 1, memory: 512MiB}}
environments:
  native: {{provider: native, instances: 2}}
{environments}
workloads:
  - {{name: mpi-pingpong, max_size: 1KiB, warmups: 2, repetitions: 5, vary: {{peer: [{peers}]}}}}
  - {{name: n-queens, queens: 9, ranks: 2, vary: {{peer: [none, each]}}}}
  - {{name: n-queens, as: mpich, mpi: mpich, queens: 9, ranks: 1}}
blocks: {{min: 1, max: 1}}
"""
# MPICH only within an instance: Debian's hangs in MPI_Finalize now and then (see MpiParameters).


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    for name in ("pingpong", "nqueens"):
        subprocess.run(
            ["make", "--silent", "-C", str(CHECKOUT / "mpi/programs" / name)], check=True
        )


@pytest.mark.parametrize(
    ("environments", "peers"),
    [
        (
            "  container: {provider: oci, instances: 2}\n  lxc: {provider: lxc, instances: 2}",
            "host, second, away",
        ),
        ("  vm: {provider: qemu, accel: tcg, instances: 2}", "second"),
    ],
    ids=["containers", "vm"],
)
def test_ranks_speak_over_the_network(environments: str, peers: str, tmp_path: Path) -> None:
    folder = ran(tmp_path, PLAN.format(environments=environments, peers=peers))
    assert [trial.reason for trial in folder.trials if trial.status != "ok"] == []
    for trial in folder.trials:
        started = {role.instance for role in trial.roles if "launched" in role.role}
        far = "peer" in trial.workload and "none" not in trial.workload
        assert bool(started) == far
        assert trial.roles[0].instance not in started
        if far:
            assert trial.facts["transport"].startswith("TCP over eth0")
