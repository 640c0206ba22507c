"""Meter `swap`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from ullage.common.errors import UllageError
from ullage.host.cgroups import Group
from ullage.host.swap import area
from ullage.meters.base import OfOneTrial, Scene
from ullage.runs.records import Quantity


@dataclass(frozen=True)
class _Look:
    """At the group of one VM."""

    swapped: int
    """Bytes that are in swap."""
    returned: int | None
    """Bytes that have come back; None: the kernel does not tell."""


class Swap(OfOneTrial):
    """What of a trial's VMs was in the host's swap, and what moved.

    Of a plan with `swap:` in a VM: read from the cgroup of each VM that takes part, before and
    after its programs. What is in swap at one of these instants may be there since the VM's boot,
    and no program may ever have asked for it: `swapped` alone does not say that swap slowed
    anything. What came back was asked for, or stood beside what was (readahead); `returned` and
    `still` are left out where the kernel does not count it for each cgroup. The readings lie a
    little outside the programs. Of any other plan the meter tells nothing, nor of programs in
    containers, whose memory is gone when they have ended: what was swapped in the meantime is in
    `kernel`.
    """

    name = "swap"
    quantities = (
        Quantity(
            name="swapped",
            unit="B",
            description="Of the memory of all those VMs together: before or after, the larger.",
        ),
        Quantity(
            name="without",
            unit="1",
            description="VMs of which nothing was in swap, neither before nor after.",
        ),
        Quantity(
            name="returned",
            unit="B",
            description="Came back from swap in between, of all those VMs; each page each time.",
        ),
        Quantity(
            name="still",
            unit="1",
            description="VMs of which nothing came back, and after it no more was in swap.",
        ),
    )

    def watch(self, scene: Scene) -> None:
        self._scene = scene

    def begin(self) -> None:
        self._before = self._look()

    def end(self) -> dict[str, float]:
        after = self._look()
        both = [(self._before[name], after[name]) for name in self._before.keys() & after.keys()]
        if not both:
            return {}
        most = [max(first.swapped, last.swapped) for first, last in both]
        figures: dict[str, float] = {"swapped": sum(most), "without": most.count(0)}
        returned = [_went(first.returned, last.returned) for first, last in both]
        known = [count for count in returned if count is not None]
        if len(known) == len(both):
            more = [last.swapped > first.swapped for first, last in both]
            figures["returned"] = sum(known)
            figures["still"] = list(zip(known, more, strict=True)).count((0, False))
        return figures

    def _look(self) -> dict[str, _Look]:
        """VM → what is in swap; of those of which the kernel tells it."""
        scene = self._scene
        if not scene.guests or area.noted(scene.tag) is None:
            return {}
        seen: dict[str, _Look] = {}
        for name in scene.guests:
            with suppress(UllageError):  # its VM has just gone
                group = Group.find(scene.tag, name)
                swapped = group.swapped_bytes()
                if swapped is not None:
                    seen[name] = _Look(swapped, group.returned_bytes())
        return seen


def _went(before: int | None, after: int | None) -> int | None:
    """A counter that has gone down was set back, and tells nothing."""
    return None if before is None or after is None or after < before else after - before
