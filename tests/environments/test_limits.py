from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments import exec_pinned
from ullage.environments.base import InstanceSpec, verify_group, verify_limits
from ullage.host import cgroups
from ullage.host.cgroups import Group, Limits

GIB = 1 << 30
SPEC = InstanceSpec(
    tag="u0123abc",
    name="vm-0",
    cpu_ids=(1, 3),
    cpu_quota=None,
    memory_bytes=GIB,
    image=None,
    agent=Path("/agent"),
    state_dir=Path("/state"),
    data_dir=Path("/data"),
    network=None,
)
HALF = replace(SPEC, cpu_quota=1.5)
GOOD = {
    "cpus_allowed": [1, 3],
    "cpus_online": 4,
    "cpu_quota": None,
    "memory_limit_bytes": GIB,
    "memory_total_bytes": 8 * GIB,
}


@pytest.mark.parametrize(
    ("spec", "facts"),
    [
        (SPEC, {}),
        (SPEC, {"memory_limit_bytes": GIB - 4095}),
        (SPEC, {"memory_limit_bytes": None, "memory_total_bytes": GIB}),
        (SPEC, {"memory_limit_bytes": 9 * GIB, "memory_total_bytes": GIB}),
        (SPEC, {"cpu_quota": 2.0}),
        (SPEC, {"cpus_allowed": [3, 1]}),
        (HALF, {"cpu_quota": 1.5}),
        (HALF, {"cpu_quota": 1.495}),
    ],
)
def test_limits_that_hold(spec: InstanceSpec, facts: dict[str, Any]) -> None:
    verify_limits(spec, {**GOOD, **facts})


@pytest.mark.parametrize(
    ("spec", "facts", "required", "actual"),
    [
        (SPEC, {"cpus_allowed": [1]}, "CPUs 1, 3", "1 allowed"),
        (SPEC, {"cpus_allowed": [0, 2]}, "CPUs 1, 3", "0, 2 allowed"),
        (SPEC, {"cpus_allowed": [0, 1, 2, 3]}, "CPUs 1, 3", "0, 1, 2, 3 allowed"),
        (SPEC, {"cpus_allowed": None}, "CPUs 1, 3", "none allowed"),
        (SPEC, {"cpus_allowed": "13"}, "CPUs 1, 3", "none allowed"),
        (SPEC, {"cpu_quota": 1.0}, "without a quota", "a quota of 1"),
        (HALF, {}, "a quota of 1.5", "none"),
        (HALF, {"cpu_quota": 2.0}, "a quota of 1.5", "2"),
        (HALF, {"cpu_quota": True}, "a quota of 1.5", "none"),
        (SPEC, {"memory_limit_bytes": None}, "1GiB of memory", "a limit of none, 8GiB"),
        (SPEC, {"memory_limit_bytes": GIB // 2}, "1GiB of memory", "a limit of 512MiB"),
        (SPEC, {"memory_limit_bytes": inf}, "1GiB of memory", "a limit of inf, 8GiB"),
        (SPEC, {"memory_limit_bytes": 2 * GIB}, "1GiB of memory", "a limit of 2GiB"),
        (SPEC, {"memory_limit_bytes": "1", "memory_total_bytes": []}, "1GiB of memory", "none"),
    ],
)
def test_limits_that_do_not(
    spec: InstanceSpec, facts: dict[str, Any], required: str, actual: str
) -> None:
    with pytest.raises(UllageError) as caught:
        verify_limits(spec, {**GOOD, **facts})
    assert caught.value.kind is errors.LIMIT_NOT_APPLIED
    assert required in caught.value.message
    assert actual in caught.value.message
    assert "vm-0" in caught.value.message


def test_a_machine_counts_by_what_it_has() -> None:
    machine = {"cpus_online": 2, "memory_total_bytes": int(0.9 * GIB)}
    verify_limits(HALF, machine, virtual_machine=True)
    for wrong in (
        {"cpus_online": 1},
        {"cpus_online": None},
        {"memory_total_bytes": GIB + 1},
        {"memory_total_bytes": GIB // 2},
        {"memory_total_bytes": None},
    ):
        with pytest.raises(UllageError):
            verify_limits(HALF, {**machine, **wrong}, virtual_machine=True)


LIMITS = Limits(cpu_ids=(0,), cpu_quota=0.5, memory_bytes=64 << 20)


@pytest.fixture
def group(tag: str) -> Iterator[tuple[Group, int]]:
    """A group with limits, and a process in it."""
    if missing := LIMITS.controllers - cgroups.available():
        pytest.skip(f"no controller {missing} here")
    created = Group.create(tag, "vm-0", LIMITS)
    argv = [
        sys.executable,
        "-I",
        "-S",
        exec_pinned.__file__,
        "",
        *map(str, created.directories),
        "--",
    ]
    process = subprocess.Popen([*argv, "/bin/sleep", "60"])
    while not created.holds(process.pid):
        assert process.poll() is None
    yield created, process.pid
    asyncio.run(created.kill_all())
    process.wait(10)
    asyncio.run(created.remove())


@pytest.mark.root
def test_a_group_is_believed_when_the_kernel_says_the_same(group: tuple[Group, int]) -> None:
    created, pid = group
    assert created.limits() == LIMITS
    verify_group(SPEC, LIMITS, created, pid)
    verify_group(SPEC, Limits(cpu_quota=0.5), created, pid)


@pytest.mark.root
@pytest.mark.parametrize(
    ("required", "actual"),
    [
        (replace(LIMITS, cpu_ids=(1,)), "asked for CPUs 1, but inside there is 0 in its cgroup"),
        (replace(LIMITS, cpu_ids=(0, 1)), "CPUs 0, 1"),
        (replace(LIMITS, cpu_quota=0.25), "a quota of 0.5 in its cgroup"),
        (replace(LIMITS, cpu_quota=None), "a quota of none"),
        (replace(LIMITS, memory_bytes=32 << 20), "a limit of 64MiB in its cgroup"),
    ],
)
def test_a_group_with_other_limits(group: tuple[Group, int], required: Limits, actual: str) -> None:
    with pytest.raises(UllageError) as caught:
        verify_group(SPEC, required, *group)
    assert caught.value.kind is errors.LIMIT_NOT_APPLIED
    assert actual in caught.value.message


@pytest.mark.root
def test_a_group_that_lost_its_limits(group: tuple[Group, int]) -> None:
    created, pid = group
    for directory in created.directories:
        for name, text in (("cpu.cfs_quota_us", "-1"), ("cpu.max", "max")):
            if (directory / name).exists():
                (directory / name).write_text(text)
    assert created.limits() == replace(LIMITS, cpu_quota=None)
    with pytest.raises(UllageError, match="a quota of none in its cgroup"):
        verify_group(SPEC, LIMITS, created, pid)


@pytest.mark.root
def test_a_process_that_has_left_its_group(group: tuple[Group, int]) -> None:
    with pytest.raises(UllageError, match="a part that is not"):
        verify_group(SPEC, LIMITS, group[0], os.getpid())


def test_nobody_is_in_a_group_that_is_nowhere() -> None:
    assert not Group("/ullage/u0123abc/vm-0", []).holds(os.getpid())
    assert Group("/ullage/u0123abc/vm-0", []).limits() == Limits()
