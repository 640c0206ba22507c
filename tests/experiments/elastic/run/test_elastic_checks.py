"""What the front has against a policy is said of the line in the plan."""

import asyncio
import re
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.run import checks
from ullage.experiments.elastic.run.resolved import _record
from ullage.host import storage

PLAN = """\
name: policies
baseline: lxc
time_scale: 60
room: 3
environments:
  lxc: {{provider: lxc}}
  other:
    provider: lxc
    {own}
policy: {policy}
nodes: {{max: 8}}
arrivals: {{kind: poisson, rate: 0.0125, viewers: 20}}
video: {{length: 10m, bitrate: 1000000}}
patience: 30s
"""


def lacks(tmp_path: Path, policy: str, own: str = "boot_delay: 1s") -> list[UllageError]:
    """What stands against the plan, on any host; not what this one has not got."""
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN.format(policy=policy, own=own))
    plan, document = schema.load(file)
    faults = asyncio.run(checks.lacks(plan, schema.resolve(plan, document), document))
    return [error for error in faults if error.kind is errors.PLAN_BAD_FIELD]


@pytest.mark.parametrize(
    ("policy", "own", "reason"),
    [
        ("{name: clairvoyant}", "boot_delay: 1s", r"plan\.yaml:10: policy\.name: found \"clair"),
        ("{name: elastic-movie, rom: 3}", "boot_delay: 1s", r":10: policy\.rom: found no field"),
        (
            "{name: elastic-movie}",
            "policy: {name: hysteresis, nonsense: 1}",
            r":9: environments\.other\.policy\.nonsense: ",
        ),
    ],
)
def test_a_policy_is_refused_by_its_line(
    tmp_path: Path, policy: str, own: str, reason: str
) -> None:
    error, *_ = lacks(tmp_path, policy, own)
    assert re.search(reason, error.message)
    assert "; allowed: " in error.message and "column" not in error.message


def test_the_baselines_copy_has_the_policy_of_the_baseline(tmp_path: Path) -> None:
    messages = lacks(tmp_path, "{name: clairvoyant}\nagain: true")
    assert [re.search(r":10: policy\.name", error.message) is not None for error in messages] == [
        True
    ] * 3


def test_a_film_that_is_larger_than_the_disk_is_not_begun(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    text = PLAN.format(policy="{name: elastic-movie}", own="boot_delay: 1s")
    for length, refused in (("10m", False), ("1000000000h", True)):
        file.write_text(text.replace("length: 10m", f"length: {length}"))
        plan, document = schema.load(file)
        faults = asyncio.run(checks.lacks(plan, schema.resolve(plan, document), document))
        messages = [e.message for e in faults if e.kind is errors.ELASTIC_NO_CLIP]
        assert bool(messages) == refused
        assert all("the disk of" in message for message in messages)


def test_policies_that_the_decisions_know_pass(tmp_path: Path) -> None:
    assert lacks(tmp_path, "{name: elastic-movie, unused: release}") == []


def test_nodes_on_different_paths_of_one_disk_are_refused(tmp_path: Path) -> None:
    """As runs are: they would be read as two disks."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    text = PLAN.format(policy="{name: elastic-movie}", own=f"disk: {{path: {tmp_path / 'second'}}}")
    file = tmp_path / "plan.yaml"
    for first, kinds in ((tmp_path / "first", {errors.DISK_SHARED}), (tmp_path / "second", set())):
        one = f"lxc: {{provider: lxc, disk: {{path: {first}}}}}"
        file.write_text(text.replace("lxc: {provider: lxc}", one, 1))
        plan, document = schema.load(file)
        environments = schema.resolve(plan, document)
        faults = asyncio.run(checks.lacks(plan, environments, document))
        assert {e.kind for e in faults if e.kind is errors.DISK_SHARED} == kinds
    path = tmp_path / "second"
    assert _record(environments[0]).treatments["data on"] == f"{path}: {storage.disk(path)}"


def test_generators_must_fit_beside_the_fewest_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them fits alone, and all that are there at the same time do not."""
    file = tmp_path / "plan.yaml"
    own = "nodes: {min: 2, max: 4}"
    more = "resources: {memory: 1GiB}\ngenerators: {number: 3, resources: {memory: 512MiB}}\n"
    file.write_text(PLAN.format(policy="{name: elastic-movie}", own=own) + more)
    plan, document = schema.load(file)
    generators = schema.generators(plan, document)

    def lacking(has: int) -> list[str]:
        monkeypatch.setattr(checks, "memory_bytes", lambda: has)
        lacks = checks.lacks(plan, schema.resolve(plan, document), document, generators)
        faults = asyncio.run(lacks)
        return [error.message for error in faults if error.kind is errors.ELASTIC_HOST_TOO_SMALL]

    assert lacking(7 << 29) == []
    (message,) = lacking((7 << 29) - 1)
    assert "3.5GiB of memory for 2 nodes of other and 3 generators" in message


LOCAL = "here: {local: true}, "


def faults_with(tmp_path: Path, here: str, more: str) -> list[UllageError]:
    """Of a plan with other machines, this one among them or not."""
    file = tmp_path / "plan.yaml"
    text = PLAN.format(policy="{name: elastic-movie}", own="nodes: {min: 4, max: 4}")
    file.write_text(f"{text}machines: {{{here}a: {{ssh: root@a}}}}\n{more}")
    plan, document = schema.load(file)
    generators = schema.generators(plan, document)
    lacks = checks.lacks(plan, schema.resolve(plan, document), document, generators)
    return asyncio.run(lacks)


def test_a_node_must_fit_on_this_machine_where_it_is_one_of_several(tmp_path: Path) -> None:
    def too_small(here: str) -> bool:
        faults = faults_with(tmp_path, here, "resources: {cpus: 1024}\n")
        return any(error.kind is errors.ELASTIC_HOST_TOO_SMALL for error in faults)

    assert too_small(LOCAL)
    assert not too_small("")


@pytest.mark.parametrize(
    ("here", "least", "which"),
    [(LOCAL, 5 << 29, "1 node of lxc and 3 generators"), ("", 3 << 29, "for 3 generators")],
)
def test_of_several_machines_this_one_must_hold_the_generators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str, least: int, which: str
) -> None:
    """And a node, if it is one of those that nodes are made on: the others may be elsewhere."""
    more = "resources: {memory: 1GiB}\ngenerators: {number: 3, resources: {memory: 512MiB}}\n"

    def lacking(has: int) -> list[str]:
        monkeypatch.setattr(checks, "memory_bytes", lambda: has)
        faults = faults_with(tmp_path, here, more)
        return [error.message for error in faults if error.kind is errors.ELASTIC_HOST_TOO_SMALL]

    assert lacking(least) == []
    assert which in lacking(least - 1)[0]


def test_the_disk_of_nodes_is_looked_for_where_they_are_made(tmp_path: Path) -> None:
    def unusable(here: str) -> bool:
        file = tmp_path / "plan.yaml"
        own = f"disk: {{path: {tmp_path / 'nowhere'}}}"
        text = PLAN.format(policy="{name: elastic-movie}", own=own)
        text = text.replace("lxc: {provider: lxc}", f"lxc: {{provider: lxc, {own}}}", 1)
        file.write_text(f"{text}machines: {{{here}a: {{ssh: root@a}}}}\n")
        plan, document = schema.load(file)
        faults = asyncio.run(checks.lacks(plan, schema.resolve(plan, document), document))
        return any(error.kind is errors.DISK_UNUSABLE for error in faults)

    assert unusable(LOCAL)
    assert not unusable("")


@pytest.mark.parametrize("more", ["", "generators: {number: 1, resources: {cpus: 1024}}\n"])
@pytest.mark.parametrize("field", ["cpus: 1024", "memory: 1024TiB"])
def test_what_is_too_large_for_this_host_has_a_hint_for_elastic_plans(
    tmp_path: Path, field: str, more: str
) -> None:
    file = tmp_path / "plan.yaml"
    text = PLAN.format(policy="{name: elastic-movie}", own="boot_delay: 1s")
    file.write_text(f"{text}resources: {{{field}}}\n{more}")
    plan, document = schema.load(file)
    generators = schema.generators(plan, document)
    lacks = checks.lacks(plan, schema.resolve(plan, document), document, generators)
    faults = [e for e in asyncio.run(lacks) if e.code.endswith("host-too-small")]
    assert {e.kind for e in faults} == {errors.ELASTIC_HOST_TOO_SMALL}
    messages = [e.message for e in faults]
    assert any("a node of lxc" in message for message in messages), messages
    assert any("a generator" in message for message in messages) == bool(more), messages
    assert all("duet" not in e.hint and "`nodes: min:`" in e.hint for e in faults)
