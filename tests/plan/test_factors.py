"""Factors stand in what is written before any of it is checked."""

from __future__ import annotations

import pytest

from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.plan import matrix, schema

PLAN = """\
name: varied
baseline: native
allow: [cpus, memory, instances]
resources: {{cpus: 1, memory: 2GiB}}
environments:
  native: {{provider: native}}
  vm:
    provider: qemu
    {base}
    vary: {{{vary}}}
workloads: [{{name: sysbench-cpu}}]
"""
VARY_LINE = 10


def resolved(base: str, vary: str) -> matrix.Matrix:
    return matrix.resolve(*schema.loads(PLAN.format(base=base, vary=vary), "p.yaml"))


def varied(base: str, vary: str) -> matrix.Environment:
    """The environment that follows the baseline."""
    return resolved(base, vary).environments[1]


@pytest.mark.parametrize(
    ("base", "vary"),
    [
        ("resources: {cpus: 0}", "resources.cpus: [2]"),
        ("instances: none", "instances: [2]"),
        ("neighbour: {busy: 300%}", "neighbour.busy: [50%]"),
        ("neighbour: {cpus: here}", "neighbour: [null]"),
        ("nic: rtl", "nic: [e1000]"),
    ],
)
def test_a_value_that_a_factor_replaces_is_never_looked_at(base: str, vary: str) -> None:
    assert varied(base, vary).name == "vm"


@pytest.mark.parametrize(
    ("base", "vary", "field"),
    [
        ("resources: {cpus: 1}", "resources.cpus: [2, 0]", "resources.cpus: found 0"),
        ("resources: {cpus: 1}", "resources: [{cpus: 0}]", "resources.cpus: found 0"),
        ("instances: 2", "instances: [1, 0]", "instances: found 0"),
        ("neighbour: {busy: 50%}", "neighbour.busy: [300%]", "neighbour.busy: found '300%'"),
        ("nic: e1000", "nic: [rtl]", "nic: found 'rtl'"),
    ],
)
def test_a_bad_value_of_a_factor_has_the_line_of_the_factor(
    base: str, vary: str, field: str
) -> None:
    with pytest.raises(UllageError) as caught:
        resolved(base, vary)
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert caught.value.message.startswith(f"p.yaml:{VARY_LINE}: environments.vm.{field}")


@pytest.mark.parametrize(
    ("base", "kind", "message"),
    [
        ("resources: {cpus: 0}", errors.PLAN_BAD_FIELD, "environments.vm.resources.cpus: found 0"),
        ("resources: 3", errors.PLAN_BAD_FIELD, "environments.vm.resources: found 3; a mapping"),
        ("resources: {cpu: 1}", errors.PLAN_UNKNOWN_FIELD, "field environments.vm.resources.cpu;"),
        ("instances: null", errors.PLAN_BAD_FIELD, "environments.vm.instances: found None"),
        ("neighbour: 3", errors.PLAN_BAD_FIELD, "environments.vm.neighbour: found 3; a mapping"),
        ("disk: qcow2", errors.PLAN_BAD_FIELD, "environments.vm.disk: found 'qcow2'; a mapping"),
    ],
)
@pytest.mark.parametrize(
    "vary",
    ["nic: [e1000]", "resources.memory: [1GiB], neighbour.cpus: [same], disk.format: [raw]"],
)
def test_what_no_factor_replaces_is_checked(
    base: str, kind: ErrorKind, message: str, vary: str
) -> None:
    with pytest.raises(UllageError) as caught:
        resolved(base, vary)
    assert caught.value.kind is kind
    assert caught.value.message.startswith(f"p.yaml:{VARY_LINE - 1}: ")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("base", "cpus", "memory"),
    [
        ("instances: 1", 2, 2 << 30),
        ("resources: null", 2, 2 << 30),
        ("resources: {}", 2, 2 << 30),
        ("resources: {cpus: 0.5}", 2, 2 << 30),
        ("resources: {memory: 3GiB}", 2, 3 << 30),
    ],
)
def test_a_factor_reaches_into_the_plans_own_resources(base: str, cpus: int, memory: int) -> None:
    resources = varied(base, "resources.cpus: [2]").resources
    assert (resources.cpus, resources.memory) == (cpus, memory)


def test_the_matrix_tells_what_an_environment_is() -> None:
    planned = resolved("nic: virtio", "nic: [e1000], resources.cpus: [1]")
    vm, copy = planned.environments[1], planned.environments[2]
    assert (vm.key, vm.name) == ("vm[nic=e1000,resources.cpus=1]", "vm")
    assert (copy.key, copy.name, copy.again_of) == ("native~again", "native", "native")
    assert vm.factors == {"nic": "e1000", "resources.cpus": 1}


def test_long_values_that_begin_alike_are_told_apart() -> None:
    """They stood twice: a value is cut in a key."""
    place = "/srv/measurements/of/last/november/disks"
    planned = resolved("accel: tcg", f"disk.path: [{place}/first, {place}/second, /mnt/a]")
    keys = [environment.key for environment in planned.environments[1:4]]
    assert len(set(keys)) == 3
    assert all(key.startswith("vm[disk.path=_") and len(key) <= 54 for key in keys)
    assert keys == [
        environment.key
        for environment in resolved(
            "accel: tcg", f"disk.path: [{place}/first, {place}/second, /mnt/a]"
        ).environments[1:4]
    ]


def test_a_long_value_alone_has_the_key_that_it_always_had() -> None:
    place = "/srv/measurements/of/last/november/disks"
    planned = resolved("accel: tcg", f"disk.path: [{place}/first, /mnt/a]")
    assert planned.environments[1].key == f"vm[disk.path={place.replace('/', '_')}]"


def test_the_same_value_twice_is_refused() -> None:
    with pytest.raises(UllageError, match="stands twice") as caught:
        resolved("accel: tcg", "nic: [e1000, e1000]")
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX
