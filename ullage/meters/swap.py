"""Meter `swap`."""

from __future__ import annotations

from contextlib import suppress

from ullage.common.errors import UllageError
from ullage.host.cgroups import Group
from ullage.host.swap import area
from ullage.meters.base import Meter, Scene
from ullage.runs.records import Quantity


class Swap(Meter):
    """What of a trial's VMs was in the host's swap.

    Of a plan with `swap:` in a VM: read from the cgroup of each VM that takes part, before and
    after its programs, whichever was more. Of any other plan it tells nothing, nor of programs in
    containers, whose memory is gone when they have ended: what was swapped in the meantime is in
    `kernel`.
    """

    name = "swap"
    quantities = (
        Quantity(name="swapped", unit="B", description="Of the memory of all those VMs together."),
        Quantity(name="without", unit="1", description="VMs of which nothing was in swap."),
    )

    def watch(self, scene: Scene) -> None:
        self._scene = scene

    def begin(self) -> None:
        self._before = self._swapped()

    def end(self) -> dict[str, float]:
        after = self._swapped()
        most = [max(self._before[name], after[name]) for name in self._before.keys() & after.keys()]
        if not most:
            return {}
        return {"swapped": sum(most), "without": most.count(0)}

    def _swapped(self) -> dict[str, int]:
        """VM → bytes; of those of which the kernel tells it."""
        scene = self._scene
        if not scene.guests or area.noted(scene.tag) is None:
            return {}
        seen: dict[str, int] = {}
        for name in scene.guests:
            with suppress(UllageError):  # its VM has just gone
                swapped = Group.find(scene.tag, name).swapped_bytes()
                if swapped is not None:
                    seen[name] = swapped
        return seen
