"""Machines of an allocation: how a plan names them, and what srun's words mean.

A real cluster is in tests/lab/slurm.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from pydantic import ValidationError

from ullage.cli.node import target
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine import turn
from ullage.nodes.options import NodePlan, expanded
from ullage.nodes.reach.slurm import SlurmTarget, addresses_of, hosts
from ullage.nodes.roster import Roster
from ullage.plan import schema

EXPIRED = b"srun: error: Slurm job 7 has expired\n"


def nodes(**entries: dict[str, object]) -> dict[str, NodePlan]:
    return expanded({name: NodePlan.model_validate(entry) for name, entry in entries.items()})


@pytest.fixture
def allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two machines."""
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\n[ $3 = 'h[1-2]' ] && printf 'h1\\nh2\\n'\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "h[1-2]")


def test_each_machine_has_a_name() -> None:
    machines = nodes(a={"ssh": "x"}, n={"slurm": 2}, m={"slurm": 1})
    assert [(name, node.turn) for name, node in machines.items()] == [
        ("a", 0),
        ("n1", 0),
        ("n2", 1),
        ("m", 2),
    ]
    assert machines["n2"].where == "machine 2 of the Slurm allocation"


def test_no_two_have_one_name() -> None:
    with pytest.raises(ValueError, match="two machines would be called 'n1'"):
        nodes(n1={"ssh": "x"}, n={"slurm": 2})
    with pytest.raises(ValueError, match="1070 machines; at most 1024"):
        nodes(n={"slurm": 1000}, m={"slurm": 70})


@pytest.mark.parametrize(
    "entry",
    [
        {"slurm": 0},
        {"slurm": 1025},
        {"slurm": True},
        {"slurm": 1, "ssh": "x"},
        {"slurm": 1, "config": "x"},
        {"slurm": 2, "address": "10.0.0.1"},
    ],
)
def test_what_no_machine_of_an_allocation_is(entry: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        NodePlan.model_validate(entry)


@pytest.mark.usefixtures("allocation")
def test_they_are_the_hosts_in_their_order(tmp_path: Path) -> None:
    roster = Roster(nodes(n={"slurm": 2}), "u00c0de5", "a test", (), tmp_path)
    assert [node.target.address for node in roster.away] == ["slurm:h1", "slurm:h2"]


@pytest.mark.usefixtures("allocation")
def test_more_than_there_are() -> None:
    with pytest.raises(UllageError, match="has 2 machines, and the plan names 3") as caught:
        hosts("n", 3)
    assert caught.value.kind is errors.NODE_ALLOCATION


def test_outside_of_an_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    with pytest.raises(UllageError, match="outside of one") as caught:
        hosts("n", 1)
    assert caught.value.kind is errors.NODE_ALLOCATION


def test_what_srun_says(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SlurmTarget("n1", "slurm:h1")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    ended = machine.refusal(EXPIRED, 1)
    assert ended is not None and ended.kind is errors.NODE_ALLOCATION
    assert "has expired" in ended.message and "--resume" in ended.hint
    sudo = machine.refusal(b"sudo: a password is required\n", 1)
    assert sudo is not None and sudo.kind is errors.NODE_SUDO
    assert machine.refusal(b"hello\n", 1) is None
    # A step that failed says nothing of the allocation, and must not end the run.
    assert machine.unreachable(b"srun: error: x\n", 1).kind is errors.NODE_UNREACHABLE
    assert machine.unreachable(EXPIRED, 1).kind is errors.NODE_ALLOCATION


def test_this_machine_has_an_address_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian has its own name as 127.0.1.1 in /etc/hosts."""
    known = {"own": "127.0.1.1", "h2": "10.9.0.2"}

    def look_up(host: str) -> str:
        if host in known:
            return known[host]
        raise OSError(host)

    monkeypatch.setattr(socket, "gethostbyname", look_up)
    monkeypatch.setattr("ullage.host.network.between.address_towards", "from {}".format)
    names = ["own", "none", "h2"]
    assert addresses_of(names) == ["from 10.9.0.2", None, "10.9.0.2"]
    assert addresses_of(["own"]) == [None]


def test_its_end_is_the_end_of_the_run() -> None:
    """Each trial after it would fail, and none would be left for `--resume`."""
    reason = {"node": "n1", "address": "h1", "reason": "Slurm job 7 has expired"}
    with turn._blamed():
        raise UllageError(errors.NODE_LOST, **reason)
    with pytest.raises(UllageError) as caught, turn._blamed():
        raise UllageError(errors.NODE_ALLOCATION, **reason)
    assert caught.value.kind is errors.NODE_ALLOCATION


def test_a_command_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "srun").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    machine = target("slurm:h1", None, sudo=False)
    argv = machine.further(("a b", "c"), tmp_path)
    # Of the environment only what ssh would give: no password of a cloud's.
    exported = [word for word in argv if word.startswith("--export=")]
    assert len(exported) == 1 and "ALL" not in exported[0].removeprefix("--export=").split(",")
    assert "--overlap" in argv and "--nodelist=h1" in argv
    assert argv[-3:] == ["sh", "-c", "cd && exec 'a b' c"]
    with pytest.raises(UllageError) as caught:
        target("slurm:-x", None, sudo=False)
    assert caught.value.kind is errors.NODE_UNKNOWN_HOST


def test_a_plan_has_their_names() -> None:
    plan, _ = schema.loads(
        "name: x\nbaseline: a\nimage: host\nnodes: {n: {slurm: 2}}\n"
        "environments: {a: {provider: native, instances: 2, place: {n1: 1, n2: 1}}}\n"
        "workloads: [{name: command, argv: ['true']}]\n"
    )
    assert list(plan.nodes) == ["n1", "n2"]
