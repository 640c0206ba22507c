"""Limits that libvirt was asked to set, and that do not hold."""

from __future__ import annotations

import os

import pytest

from tests.environments.containerkit import MIB, bare_spec
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.libvirt.limits import cpus_allowed, verify
from ullage.host.cgroups import Limits

LIMITS = Limits((0, 1), 0.5, 512 * MIB)
HELD = {"global_period": 100_000, "global_quota": 50_000, "hard_limit": 512 << 10}


def test_what_holds_is_taken() -> None:
    verify(bare_spec(), LIMITS, HELD, {0, 1})
    verify(bare_spec(), Limits((0,), None, 512 * MIB), {"hard_limit": 512 << 10}, {0})


@pytest.mark.parametrize(
    ("parameters", "allowed", "says"),
    [
        (HELD, {0, 1, 2}, "CPUs 0, 1, 2"),
        (HELD, None, "CPUs none"),
        (HELD | {"global_quota": -1}, {0}, "a quota of 0.5 CPUs"),
        (HELD | {"global_period": 0}, {0}, "0 in its cgroup"),
        (HELD | {"hard_limit": 9007199254740991}, {0}, "a limit of 512MiB"),
        ({"global_period": 100_000, "global_quota": 50_000}, {0}, "a limit of 512MiB"),
    ],
)
def test_what_does_not_hold_is_refused(
    parameters: dict[str, int], allowed: set[int] | None, says: str
) -> None:
    with pytest.raises(UllageError) as caught:
        verify(bare_spec(), LIMITS, parameters, allowed)
    assert caught.value.kind is errors.LIMIT_NOT_APPLIED
    assert says in caught.value.message


def test_where_a_process_may_run() -> None:
    assert cpus_allowed(os.getpid()) == os.sched_getaffinity(0)
    assert cpus_allowed(0) is None
