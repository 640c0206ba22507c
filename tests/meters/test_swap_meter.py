"""Meter `swap`: what is in swap of a trial's VMs, by a made-up kernel."""

from __future__ import annotations

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host.cgroups import Group
from ullage.host.swap import area
from ullage.meters.base import Scene
from ullage.meters.swap import Swap

TAG = "u0000001"


@pytest.fixture
def swapped(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    """Instance → what its group has in swap; a run that has an area."""
    by_name: dict[str, int | None] = {}
    monkeypatch.setattr(area, "noted", lambda tag: "/dev/zram0" if tag == TAG else None)
    monkeypatch.setattr(Group, "find", lambda _tag, name: Group(name, []))
    monkeypatch.setattr(Group, "swapped_bytes", lambda group: by_name[group.path])
    monkeypatch.setattr(Group, "returned_bytes", lambda _: None)
    return by_name


@pytest.fixture
def returned(
    monkeypatch: pytest.MonkeyPatch, swapped: dict[str, int | None]
) -> dict[str, int | None]:
    """Instance → what has come back, of a kernel that tells it."""
    by_name: dict[str, int | None] = dict.fromkeys(swapped, 0)
    monkeypatch.setattr(Group, "returned_bytes", lambda group: by_name[group.path])
    return by_name


def meter(*guests: str, tag: str = TAG) -> Swap:
    swap = Swap()
    swap.watch(Scene(tag=tag, instances=(*guests, "box-0"), guests=guests))
    swap.begin()
    return swap


def test_the_most_of_before_and_after_counts(swapped: dict[str, int | None]) -> None:
    swapped |= {"vm-0": 4096, "vm-1": 0}
    swap = meter("vm-0", "vm-1")
    swapped |= {"vm-0": 0, "vm-1": 8192}
    assert swap.end() == {"swapped": 4096 + 8192, "without": 0}


def test_a_vm_of_which_nothing_was_swapped_is_counted(swapped: dict[str, int | None]) -> None:
    swapped |= {"vm-0": 4096, "vm-1": 0}
    assert meter("vm-0", "vm-1").end() == {"swapped": 4096, "without": 1}


def test_what_lies_in_swap_since_the_boot_is_not_what_a_trial_swaps(
    swapped: dict[str, int | None], returned: dict[str, int | None]
) -> None:
    """A cold page of the boot stays there: `without` alone would say that the VM swapped."""
    swapped |= {"vm-0": 4096, "vm-1": 8192}
    returned |= {"vm-0": 12288, "vm-1": 0}
    swap = meter("vm-0", "vm-1")
    returned["vm-1"] = 4096
    assert swap.end() == {"swapped": 12288, "without": 0, "returned": 4096, "still": 1}


def test_a_vm_of_which_more_is_swapped_afterwards_is_not_still(
    swapped: dict[str, int | None], returned: dict[str, int | None]
) -> None:
    swapped["vm-0"], returned["vm-0"] = 0, 0
    swap = meter("vm-0")
    swapped["vm-0"] = 4096
    assert swap.end() == {"swapped": 4096, "without": 0, "returned": 0, "still": 0}


@pytest.mark.parametrize(("before", "after"), [(0, None), (None, 0), (8192, 4096)])
def test_what_came_back_is_not_made_up(
    swapped: dict[str, int | None],
    returned: dict[str, int | None],
    before: int | None,
    after: int | None,
) -> None:
    """Of one of two VMs nobody knows it, or its counter was set back."""
    swapped |= {"vm-0": 4096, "vm-1": 4096}
    returned |= {"vm-0": before, "vm-1": 0}
    swap = meter("vm-0", "vm-1")
    returned["vm-0"] = after
    assert swap.end() == {"swapped": 8192, "without": 0}


def test_one_that_may_not_swap_is_no_zero(swapped: dict[str, int | None]) -> None:
    swapped |= {"vm-0": None, "vm-1": 4096}
    assert meter("vm-0").end() == {}
    assert meter("vm-0", "vm-1").end() == {"swapped": 4096, "without": 0}


def test_a_vm_that_goes_meanwhile_is_no_traceback(
    swapped: dict[str, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    swapped |= {"vm-0": 4096}
    swap = meter("vm-0")

    def gone(_: Group) -> int:
        raise UllageError(errors.CGROUP_DENIED, what="memory.stat", path="/", reason="gone")

    monkeypatch.setattr(Group, "swapped_bytes", gone)
    assert swap.end() == {}


def test_without_vms_or_swap_nothing_is_told(swapped: dict[str, int | None]) -> None:
    swapped |= {"vm-0": 4096}
    assert meter().end() == {}
    assert meter("vm-0", tag="u0000002").end() == {}
