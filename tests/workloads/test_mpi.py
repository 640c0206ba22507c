"""Where ranks stand, what carries their messages, and what is said when `mpirun` ends badly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.plan import matrix, schema
from ullage.workloads.base import Context, InvalidTrialError, Output
from ullage.workloads.mpi import mpi
from ullage.workloads.mpi.mpi_pingpong import MpiPingpong, MpiPingpongParameters
from ullage.workloads.mpi.nqueens import NQueens, NQueensParameters

QUEENS = NQueens()


def context(addresses: dict[str, str], cpus: int = 1) -> Context:
    return Context(addresses, cpus, 1 << 30, seed=1, workspace="/data/x")


TWO = context({"main": "10.0.0.2", "peer": "10.0.0.3"})


def argv(where: Context, ranks: int = 2, **fields: Any) -> tuple[str, ...]:
    (task,) = QUEENS.tasks(NQueensParameters(ranks=ranks, **fields), where)
    return task.argv


def value(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1]


PLAN = """\
name: ranks
baseline: native
environments:
  native: {{provider: native}}
  four: {{provider: native, instances: 4}}
workloads:
  - {{name: sysbench-cpu}}
  - {{{load}}}
allow: [instances]
"""


@pytest.mark.parametrize(
    "load",
    [
        "name: n-queens, peer: each, ranks: 3",
        "name: nas, parallel: mpi, peer: each, ranks: 3",
        "name: b-eff-io, peer: each, file_system: nfs, ranks: 3",
        "name: n-queens, as: most, peer: each, vary: {ranks: [4, 3]}",
    ],
)
def test_an_instance_without_a_rank_is_refused_in_the_plan(load: str) -> None:
    with pytest.raises(UllageError) as caught:
        matrix.resolve(*schema.loads(PLAN.format(load=load)))
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX
    assert "plan.yaml:8" in caught.value.message
    assert "has work for 3 instances at most, and four has 4" in caught.value.message
    enough = load.replace("4, 3", "4").replace("ranks: 3", "ranks: 4")
    matrix.resolve(*schema.loads(PLAN.format(load=enough)))
    matrix.resolve(*schema.loads(PLAN.format(load="name: n-queens, peer: second, ranks: 2")))


def test_ranks_are_dealt_in_turn() -> None:
    peers = {f"peer-{i}": f"10.0.0.{i + 2}" for i in range(11)}
    all_of_them = context({"main": "10.0.0.2", **peers})
    shares = mpi.hosts(all_of_them, 24)
    assert list(shares) == [f"10.0.0.{i}" for i in range(2, 13)], "by number, not by name"
    assert list(shares.values()) == [3, 3, *[2] * 9]
    assert mpi.hosts(all_of_them, 2) == {"10.0.0.2": 1, "10.0.0.3": 1}


@given(st.integers(1, 300), st.integers(1, 20))
def test_no_rank_is_lost(ranks: int, instances: int) -> None:
    peers = {f"peer-{i}": f"10.0.0.{i + 2}" for i in range(instances)}
    shares = mpi.hosts(context({"main": "10.0.0.2", **peers}), ranks)
    assert sum(shares.values()) == ranks
    assert max(shares.values()) - min(shares.values()) <= 1 and min(shares.values()) > 0


def test_open_mpi_has_no_way_around_the_network() -> None:
    several = argv(TWO, peer="second")
    assert (
        value(several, "btl") == "self,tcp" and value(several, "btl_tcp_if_include") == mpi.DEVICE
    )
    assert value(several, "--host") == "10.0.0.2:1,10.0.0.3:1"
    assert value(argv(TWO, ranks=3, peer="second"), "btl") == "self,vader,tcp"
    alone = argv(context({"main": "127.0.0.1"}))
    assert value(alone, "btl") == "self,vader" and "--host" not in alone
    for command in (several, alone):
        assert value(command, "pml") == "ob1" and value(command, "--bind-to") == "none"


def test_ucx_of_mpich_has_no_way_around_the_network() -> None:
    (task,) = QUEENS.tasks(NQueensParameters(mpi="mpich", peer="second"), TWO)
    assert task.env["UCX_TLS"] == "self,tcp" and task.env["UCX_NET_DEVICES"] == mpi.DEVICE
    assert value(task.argv, "-hosts") == "10.0.0.2:1,10.0.0.3:1"
    assert value(task.argv, "-bind-to") == "none"
    (alone,) = QUEENS.tasks(NQueensParameters(mpi="mpich"), context({"main": "127.0.0.1"}))
    assert "UCX_TLS" not in alone.env and "-hosts" not in alone.argv


@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_only_several_instances_need_a_remote_shell(library: Any) -> None:
    two = NQueensParameters(mpi=library, peer="second")
    (task,) = QUEENS.tasks(two, TWO)
    assert task.launches and f"/data/x/{mpi.SHELL}" in task.argv
    assert QUEENS.files(two)[mpi.SHELL] == mpi.SHELL_FILE
    single = NQueensParameters(mpi=library)
    (task,) = QUEENS.tasks(single, context({"main": "127.0.0.1"}))
    assert not task.launches and mpi.SHELL not in QUEENS.files(single)


def test_ranks_yield_where_they_share_a_cpu() -> None:
    alone = {"main": "127.0.0.1"}
    assert value(argv(context(alone, cpus=1)), "mpi_yield_when_idle") == "1"
    assert value(argv(context(alone, cpus=2)), "mpi_yield_when_idle") == "0"
    assert value(argv(TWO, peer="second"), "mpi_yield_when_idle") == "0"


@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_what_carried_the_messages_is_told(library: Any) -> None:
    parameters = MpiPingpongParameters(mpi=library, program="mpi4py", peer="away")
    (argv,) = (task.argv for task in MpiPingpong().tasks(parameters, TWO))
    assert any("10.0.0.3" in word for word in argv)
    facts = MpiPingpong().facts(parameters, ran(f"{ELSEWHERE}what else\n"))
    assert facts["transport"].startswith("TCP over eth0")


@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_an_environment_of_one_instance_has_no_network(library: Any) -> None:
    """`peer: each` is asked of all environments, however many instances each has."""
    parameters = NQueensParameters(mpi=library, peer="each")
    alone = context({"main": "10.0.0.2", "peer-0": "10.0.0.2"})
    (task,) = QUEENS.tasks(parameters, alone)
    assert not task.launches and not any("10.0.0.2" in word for word in task.argv)
    for peer in ("none", "each"):
        parameters = NQueensParameters(mpi=library, peer=peer)
        transport = mpi.transport(parameters, ran("a warning of ullage-exec 10.0.0.3\n"))
        assert transport == mpi.INSIDE[library]


def ran(stderr: str) -> dict[str, Output]:
    return {"main": Output(0, None, "", stderr, 1.0)}


ELSEWHERE = "ullage-exec 10.0.0.3 orted -mca ess env\n"
"""What `mpirun` prints where it has ranks started in another instance."""


ENDED = Output(1, None, "", "", 1.0)
OPENMPI = """\
ullage-exec 10.0.0.3 orted -mca ess "env"
--------------------------------------------------------------------------
mpirun noticed that process rank 1 with PID 0 on node 10.0.0.3 exited on signal 9 (Killed).
--------------------------------------------------------------------------
"""
MPICH = """\

===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 29090 RUNNING AT 10.0.0.3
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
"""


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            replace(ENDED, status=137, stderr=OPENMPI),
            "status 137, a rank with signal 9: mpirun not",
        ),
        (replace(ENDED, status=255, stdout=MPICH), "status 255: PID 29090 RUNNING AT 10.0.0.3; E"),
        (replace(ENDED, status=9, stdout=MPICH), "STRING: Killed (signal 9)"),
        (
            replace(ENDED, stderr="error: a message is not what was sent\nrules\n"),
            "error: a message",
        ),
        (replace(ENDED, stderr="ullage-exec 10.0.0.3 orted\nwhat else\n"), "status 1: what else"),
        (replace(ENDED, status=None, signal=11), "mpirun ended with signal 11: nothing"),
    ],
)
def test_a_bad_end_is_told_in_the_words_that_matter(output: Output, words: str) -> None:
    with pytest.raises(InvalidTrialError) as caught:
        mpi.finished({"main": output})
    assert words in str(caught.value) and "ullage-exec" not in str(caught.value)


def test_no_output_is_a_bad_end() -> None:
    with pytest.raises(InvalidTrialError):
        mpi.finished({})


@given(st.text(), st.text(), st.none() | st.integers(1, 255))
def test_a_bad_end_with_any_words(stdout: str, stderr: str, status: int | None) -> None:
    with pytest.raises(InvalidTrialError):
        mpi.finished({"main": Output(status, None if status else 9, stdout, stderr, 1.0)})


def test_the_library_must_be_the_one_that_was_asked_for() -> None:
    text = "library: MPICH Version: 4.0.2\nrest\n"
    assert mpi.library(mpi.MpiParameters(mpi="mpich"), text) == ("MPICH Version: 4.0.2", "rest\n")
    for wrong in (text, "", "library: LAM 7\n", "library: Open MPI v4.1.4"[::-1]):
        with pytest.raises(InvalidTrialError, match="openmpi"):
            mpi.library(mpi.MpiParameters(mpi="openmpi"), wrong)
