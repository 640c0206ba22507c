"""Meter `links`."""

from __future__ import annotations

from ullage.host.network.cables import BundleState, bundles
from ullage.meters.base import Meter, Scene
from ullage.runs.records import Quantity


class Links(Meter):
    """Whether the links of a trial's instances were whole, where each is several cables.

    Of a plan with `network: {links: 2, bond: …}`: read from what the kernel's bonding tells in
    sysfs of the instances that take part, before and after their programs. Of any other plan it
    tells nothing.
    """

    name = "links"
    quantities = (
        Quantity(name="cables", unit="1", description="Those of the instances that took part."),
        Quantity(
            name="down",
            unit="1",
            description="Of cables: without a link, before or after, whichever were more.",
        ),
        Quantity(
            name="failures", unit="1", description="How often one lost its link in the meantime."
        ),
    )

    def watch(self, scene: Scene) -> None:
        self._scene = scene

    def begin(self) -> None:
        self._before = self._seen()

    def end(self) -> dict[str, float]:
        before, after = self._before, self._seen()
        if before is None or after is None:
            return {}
        return {
            "cables": after.cables,
            "down": max(before.down, after.down),
            "failures": after.failures - before.failures,
        }

    def _seen(self) -> BundleState | None:
        """Of all of them together; None: nobody has any."""
        if not self._scene.tag:
            return None
        total: BundleState | None = None
        for name, state in bundles(self._scene.tag).items():
            if name in self._scene.instances:
                total = state.beside(total)
        return total
