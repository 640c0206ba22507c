"""What a plan may say of its machines."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.support.commandkit import ullage
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.nodes.options import NodePlan, placed
from ullage.plan import matrix, schema
from ullage.plan.instances import Needs

PLAN = """\
name: nodes
baseline: near
image: host
nodes:
  here: {local: true}
  a: {ssh: root@a}
environments:
  near: {provider: native}
  far: {provider: native, instances: 2, place: spread%s}
workloads:
  - {name: command, argv: ["true"]}
allow: [instances]
"""


COMMANDS = (
    "command, label: x, create: [[x, '{name}', '{root}']], exec: [x, '{name}', '{agent}'],"
    " destroy: [[x, '{name}']], list: [x], instances"
)


def resolved(text: str) -> matrix.Matrix:
    plan, document = schema.loads(text)
    return matrix.resolve(plan, document)


def test_where_instances_stand() -> None:
    assert placed(None, 2, ["a", "b"]) == ("a", "a")
    assert placed("pack", 2, ["a", "b"]) == ("a", "a")
    assert placed("spread", 3, ["a", "b"]) == ("a", "b", "a")
    assert placed({"b": 2, "a": 1}, 3, ["a", "b"]) == ("b", "b", "a")


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"local": True, "ssh": "a"},
        {"local": True, "sudo": True},
        {"local": False},
        {"ssh": "-oProxyCommand=x"},
        {"ssh": "a b"},
        {"ssh": "root@a;true"},
        {"slurm": "2"},
    ],
)
def test_an_entry_that_is_no_machine(entry: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        NodePlan.model_validate(entry)


def test_a_plan_with_nodes() -> None:
    cells = resolved(PLAN % "")
    near, far = cells.environment("near"), cells.environment("far")
    assert near.nodes == ("here",) and not near.away
    assert far.nodes == ("here", "a") and far.away
    assert far.provider.name == "native" and far.provider.label() == "native"
    assert cells.environment("near~again").nodes == ("here",)


def test_where_it_stands_may_be_varied() -> None:
    text = PLAN.replace(", place: spread%s", ", vary: {place: [pack, spread]}")
    cells = resolved(text)
    assert cells.environment("far[place=pack]").nodes == ("here", "here")
    assert cells.environment("far[place=spread]").nodes == ("here", "a")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("spread", "{b: 2}", "'b' is none of `nodes:`"),
        ("spread", "{a: 1}", "it places 1 of 2 instances"),
        ("native, instances", COMMANDS, "works on this machine only"),
        ("spread", "spread, neighbour: {}", "a neighbour works on this machine only"),
        (
            "spread",
            "spread, disk: {path: /mnt/x, file_system: xfs}",
            "a device is given a file system on this machine only",
        ),
        ("spread", "spread, swap: {on: zram, size: 64MiB}", "swap is made on this machine only"),
        (
            "instances: 2, place: spread",
            "instances: fit 1, vary: {place: [spread]}",
            "counts the CPUs of this machine",
        ),
        ('{name: command, argv: ["true"]}', "{name: provisioning}", "makes more instances"),
        (
            'name: command, argv: ["true"]',
            "name: mpi-pingpong, peer: second",
            "the same files everywhere",
        ),
        ("allow:", "meters: {m: {meter: rapl}}\nallow:", "energy meters are read on this machine"),
        ("nodes:\n  here: {local: true}\n  a: {ssh: root@a}\n", "", "no `nodes` to place it on"),
    ],
)
def test_what_cannot_be_on_other_machines(old: str, new: str, words: str) -> None:
    text = PLAN % ""
    assert old in text
    if "command" in new:
        text = text.replace("image: host\n", "").replace(
            "near: {provider: native}", "near: {provider: oci}"
        )
    with pytest.raises(UllageError, match=words) as caught:
        resolved(text.replace(old, new))
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX


def test_away_is_another_of_the_nodes() -> None:
    text = (PLAN % "").replace('{name: command, argv: ["true"]}', "{name: iperf3, peer: away}")
    cells = resolved(text)
    near, far = cells.environment("near"), cells.environment("far")
    assert (near.other_nodes, far.other_nodes) == (("a",), ("a", "here"))
    assert near.away, "its peer stands elsewhere"
    assert cells.cases[0].title == "network to an instance on another node, 1 stream"
    needs = Needs(cells)
    assert [needs.node(far, index) for index in range(4)] == ["here", "a", "a", "here"]
    assert [needs.turn(far, index) for index in range(4)] == [0, 0, 1, 1]


def test_what_stands_for_the_host_is_on_the_node_of_each_instance() -> None:
    text = (PLAN % "").replace('{name: command, argv: ["true"]}', "{name: iperf3}")
    needs = Needs(resolved(text))
    assert set(needs.hosts) == {"host@here", "host@here@a"}
    host = needs.environment("host@here@a")
    assert [needs.node(host, index) for index in range(2)] == ["here", "a"]
    assert [needs.turn(host, index) for index in range(2)] == [1, 1]


def test_away_without_another_node() -> None:
    text = (PLAN % "").replace('{name: command, argv: ["true"]}', "{name: iperf3, peer: away}")
    text = text.replace("  here: {local: true}\n", "")
    with pytest.raises(UllageError, match="needs another node") as caught:
        resolved(text)
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX


def test_how_machines_are_joined_is_said_where_there_are_some() -> None:
    text = (PLAN % "").replace('{name: command, argv: ["true"]}', "{name: iperf3}")
    cells = resolved(text + "network: {between: vxlan}\n")
    assert (cells.link, cells.between) == (None, "vxlan")
    alone = text.replace(", place: spread", "") + "network: {between: vxlan}\n"
    with pytest.raises(UllageError, match="every instance of the plan stands on this one"):
        resolved(alone)


def test_a_dry_run_says_where_all_is(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN % "", encoding="utf-8")
    done = ullage("run", "plan.yaml", "--dry-run", cwd=tmp_path)
    assert done.code == 0
    assert "far on here and a (2 instances)" in done.stdout
    assert "nodes: here (this machine), a (root@a), which nobody has asked yet" in done.stdout
    needed = Needs(resolved(PLAN % "")).descriptors.needed
    assert f"open files: at most {needed:,}; this process may have" in done.stdout


def test_a_duet_shares_one_machine() -> None:
    text = PLAN.replace("instances: 2, place: spread%s", "place: {a: 1}") + "design: duet\n"
    with pytest.raises(UllageError, match="the two of a duet share one machine"):
        resolved(text)
