from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ullage import errors
from ullage.environments.base import InstanceSpec
from ullage.environments.limits import verify_limits
from ullage.errors import UllageError

GIB = 1 << 30
SPEC = InstanceSpec(
    tag="u0123abc",
    name="vm-0",
    cpus=(1, 3),
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
        (HALF, {"cpu_quota": 1.5}),
        (HALF, {"cpu_quota": 1.495}),
    ],
)
def test_limits_that_hold(spec: InstanceSpec, facts: dict[str, Any]) -> None:
    verify_limits(spec, {**GOOD, **facts})


@pytest.mark.parametrize(
    ("spec", "facts", "asked", "seen"),
    [
        (SPEC, {"cpus_allowed": [1]}, "2 CPUs", "1 allowed"),
        (SPEC, {"cpus_allowed": None}, "2 CPUs", "none allowed"),
        (SPEC, {"cpus_allowed": "13"}, "2 CPUs", "none allowed"),
        (SPEC, {"cpu_quota": 1.0}, "without a quota", "a quota of 1"),
        (HALF, {}, "a quota of 1.5", "none"),
        (HALF, {"cpu_quota": 2.0}, "a quota of 1.5", "2"),
        (HALF, {"cpu_quota": True}, "a quota of 1.5", "none"),
        (SPEC, {"memory_limit_bytes": None}, "1073741824 B", "a limit of none, 8589934592 B"),
        (SPEC, {"memory_limit_bytes": GIB // 2}, "1073741824 B", "a limit of 536870912"),
        (SPEC, {"memory_limit_bytes": 2 * GIB}, "1073741824 B", "a limit of 2147483648"),
        (SPEC, {"memory_limit_bytes": "1", "memory_total_bytes": []}, "1073741824 B", "none"),
    ],
)
def test_limits_that_do_not(
    spec: InstanceSpec, facts: dict[str, Any], asked: str, seen: str
) -> None:
    with pytest.raises(UllageError) as caught:
        verify_limits(spec, {**GOOD, **facts})
    assert caught.value.kind is errors.LIMIT_NOT_APPLIED
    assert asked in caught.value.message
    assert seen in caught.value.message
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
