"""The machines that an elastic plan names, and what is refused with them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ullage.cli.output import elastic_dryrun
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.run import run
from ullage.nodes.provider import OnNodes, inner

GOOD = """\
name: film
room: 4
machines:
  here: {local: true}
  a: {ssh: root@a}
environments:
  lxc: {provider: lxc}
arrivals: {kind: poisson, rate: 0.01, viewers: 20}
"""
NONE = GOOD.replace("machines:\n  here: {local: true}\n  a: {ssh: root@a}\n", "")


def refused(text: str) -> UllageError:
    with pytest.raises(UllageError) as caught:
        schema.resolve(*schema.loads(text))
    return caught.value


def test_nodes_are_made_by_what_is_on_the_machines() -> None:
    plan, document = schema.loads(GOOD)
    (lxc,) = schema.resolve(plan, document)
    assert list(plan.machines) == ["here", "a"]
    assert plan.place is None and plan.between is None
    assert isinstance(lxc.provider, OnNodes) and lxc.provider.name == "lxc"
    assert inner(lxc.provider).name == "lxc"
    assert not isinstance(schema.resolve(*schema.loads(NONE))[0].provider, OnNodes)


def test_an_environment_may_spread_its_nodes_in_a_way_of_its_own() -> None:
    text = GOOD.replace("room: 4", "room: 4\nplace: pack")
    text = text.replace("arrivals:", "  oci: {provider: oci, place: spread}\narrivals:")
    assert [e.place for e in schema.resolve(*schema.loads(text))] == ["pack", "spread"]
    assert [e.place for e in schema.resolve(*schema.loads(GOOD))] == ["spread"]
    assert [e.place for e in schema.resolve(*schema.loads(NONE))] == [None]
    error = refused(NONE.replace("provider: lxc", "provider: lxc, place: pack"))
    assert error.facts["line"] == 4 and "the plan names none" in error.message


def test_a_dry_run_tells_the_machines_and_asks_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = run.task_of(*schema.loads(GOOD))
    elastic_dryrun.show(task, runs=tmp_path, as_json=False)
    words = "nodes are made on here (this machine), a (root@a), which are not asked now"
    assert words in capsys.readouterr().out
    outlook = elastic_dryrun.as_dict(elastic_dryrun.forecast(task, tmp_path))
    assert outlook["machines"] == {"here": "this machine", "a": "root@a"}
    alone = elastic_dryrun.forecast(run.task_of(*schema.loads(NONE)), tmp_path)
    assert "machines" not in elastic_dryrun.as_dict(alone)


def test_machines_of_an_allocation_are_numbered() -> None:
    plan, _ = schema.loads(GOOD.replace("a: {ssh: root@a}", "n: {slurm: 2}"))
    assert list(plan.machines) == ["here", "n1", "n2"]


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("room: 4", "room: 4\nimage: host", 3, "run from one image"),
        ("  a: {ssh: root@a}\n", "", 3, "names no other machine"),
        ("a: {ssh: root@a}", "a: {ssh: root@a}\n  too: {local: true}", 6, "both this machine"),
        ("provider: lxc", "provider: qemu", 7, "`qemu` makes no nodes on other machines"),
        ("room: 4", "room: 4\nmeters: {wall: {meter: rapl}}", 3, "energy meters are read on"),
        (
            "provider: lxc",
            "provider: lxc, disk: {path: /dev/sdz, file_system: ext4}",
            7,
            "a device is given a file system on this machine only",
        ),
    ],
)
def test_what_machines_cannot_have(old: str, new: str, line: int, reason: str) -> None:
    error = refused(GOOD.replace(old, new))
    assert error.kind is errors.PLAN_IMPOSSIBLE_MATRIX
    assert error.facts["line"] == line and reason in error.message


@pytest.mark.parametrize("field", ["place: spread", "between: vxlan"])
def test_what_is_of_machines_needs_machines(field: str) -> None:
    error = refused(NONE.replace("room: 4", f"room: 4\n{field}"))
    assert error.kind is errors.PLAN_IMPOSSIBLE_MATRIX
    assert error.facts["line"] == 3 and "the plan names none" in error.message


def test_a_name_is_one_of_a_machine() -> None:
    assert refused(GOOD.replace("a: {ssh", "'a b': {ssh")).kind is errors.PLAN_BAD_NAME


def test_this_host_is_not_held_against_what_is_made_elsewhere() -> None:
    """Neither its memory nor its CPUs need take a node, unless it is one of the machines."""
    larger = GOOD.replace("room: 4", "room: 4\nresources: {cpus: 900, memory: 900TiB}")
    alone = larger.replace("machines:\n  here: {local: true}\n  a: {ssh: root@a}\n", "")
    elsewhere = larger.replace("  here: {local: true}\n", "")
    for text, refused_here in ((larger, True), (alone, True), (elsewhere, False)):
        faults = asyncio.run(run.task_of(*schema.loads(text)).lacks())
        kinds = {error.kind for error in faults}
        assert (errors.ELASTIC_HOST_TOO_SMALL in kinds) == refused_here
