"""`ullage weigh` as a user meets it: what it prints where, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testing.synthetic import WORKLOADS, make_run
from tests.support import commandkit
from tests.support.commandkit import Ullage
from ullage.analysis.weigh.weighing import Weighing

S2 = "cpu=0.1,memory=0.2,disk=0.6,network=0.1"


ullage = commandkit.in_this_process("weigh")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_run(tmp_path_factory.mktemp("weigh") / "run", raw=False))


def test_it_says_what_the_machine_is_for_and_what_it_loses(ullage: Ullage, run: str) -> None:
    done = ullage(run, "--weights", S2)
    assert done.code == 0
    lead = done.stdout.splitlines()[0]
    assert lead == (
        "How many times worse than native, for a machine that is 10 % CPU, 20 % memory, 60 % disk "
        "and 10 % network:"
    )
    assert "qemu-tcg (emulated)" in done.stdout
    assert "Intervals cover repeatability" in done.stdout
    assert "Up to 1 block left out" in done.stdout
    assert "a node" not in done.stdout
    assert done.stderr == ""


def test_the_newest_run_is_meant_without_one(ullage: Ullage, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "20260101T000000-a", raw=False, blocks=3)
    assert "from" in ullage("--weights", "cpu=1").stdout


def test_json_is_the_whole_result(ullage: Ullage, run: str) -> None:
    nodes = ("--node", "a=vm:2", "--node", "b=lxc")
    done = ullage(run, "--weights", S2, *nodes, "--share", "vm:disk=25%", "--json")
    weighing = Weighing.model_validate(json.loads(done.stdout))
    assert [node.name for node in weighing.nodes] == ["a", "b"]
    assert weighing.system is not None
    assert {p.share_from for p in weighing.nodes[0].parts if p.resource == "disk"} == {"given"}


def test_nodes_are_told_with_their_sum_and_their_mean(ullage: Ullage, run: str) -> None:
    nodes = ("--node", "a=vm:4,container", "--node", "b=lxc")
    printed = ullage(run, "--weights", S2, *nodes).stdout
    assert "a, from figures of one at a time" in printed
    assert "mean by share" in printed
    assert "system, all nodes" in printed
    assert "4 × vm, CPU" in printed
    assert "a gives more than it has: CPU 2.5 times." in printed
    assert "what instances cost each other is not in them" in printed


def test_weights_of_one_environment(ullage: Ullage, run: str) -> None:
    both = ("--weights", "cpu=1", "--weights", "vm:disk=1")
    printed = ullage(run, *both, "--environment", "vm").stdout
    assert "vm is weighed as 100 % disk." in printed
    assert "container" not in printed


def test_several_figures_of_one_resource_are_said_to_be_a_mean(
    ullage: Ullage, tmp_path: Path
) -> None:
    second = WORKLOADS[0].model_copy(update={"key": "again-cpu"})
    path = make_run(tmp_path / "run", raw=False, workloads=(*WORKLOADS, second), blocks=4)
    printed = ullage(str(path), "--weights", "cpu=1").stdout
    assert "CPU (2 figures)" in printed
    assert "by their geometric mean" in printed


def test_one_block_and_several_makings_are_told(ullage: Ullage, tmp_path: Path) -> None:
    one_block = make_run(tmp_path / "one", raw=False, blocks=1, failures=[])
    assert (
        "No interval: one block shows no spread." in ullage(str(one_block), "--weights", S2).stdout
    )
    makings = make_run(tmp_path / "two", raw=False, blocks=4, blocks_each=2, failures=[])
    printed = ullage(str(makings), "--weights", S2).stdout
    assert "2 makings of the instances (4 blocks)" in printed
    assert "Intervals cover intermediate precision" in printed


def test_a_duet_is_called_one(ullage: Ullage, tmp_path: Path) -> None:
    duet = make_run(tmp_path / "duet", raw=False, blocks=4, design="duet", failures=[])
    printed = ullage(str(duet), "--weights", S2).stdout
    assert printed.startswith(
        "How many times worse than native, while both run side by side, for a"
    )


def test_weights_that_do_not_add_up_end_with_those_that_do(ullage: Ullage, run: str) -> None:
    done = ullage(run, "--weights", "cpu=1,disk=3")
    assert done.code == 2
    assert "error[weights-not-one]" in done.stderr
    assert "hint: in the same proportions: cpu=0.25,disk=0.75" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--weights", "memry=1"), "did you mean memory?"),
        (("--weights", "vm:cpu=1"), "none are for all environments"),
        (("--weights", "cpu=1", "--weights", "disk=1"), "those of all stand twice"),
        (("--weights", "cpu=1", "--weights", "vm:cpu=1", "--weights", "vm:cpu=1"), "of vm stand"),
        (("--weights", "cpu=1", "--node", "a"), "is not NAME="),
        (("--weights", "cpu=1", "--node", "a=vm", "--node", "a=lxc"), "'a' stands twice"),
        (("--weights", "cpu=1", "--share", "disk=2"), "above 0 and at most 1"),
        ((), "Missing option"),
    ],
)
def test_bad_options(ullage: Ullage, run: str, argv: tuple[str, ...], says: str) -> None:
    done = ullage(run, *argv)
    assert done.code == 2
    assert says in " ".join(done.stderr.replace("│", " ").split())
