"""The kernel's tree of power zones in a directory: as sysfs has it, down to the links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

RANGE_UJ = 262_143_328_850
"""Of a real server: `max_energy_range_uj` of its packages."""
DEVICES = "devices/virtual/powercap"


class Powercap:
    """Zones under `class/powercap`, links to where they really are."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.path = top / "class/powercap"
        self.path.mkdir(parents=True)
        (top / DEVICES).mkdir(parents=True)

    def zone(self, zone: str, name: str, energy_uj: int, range_uj: int = RANGE_UJ) -> Path:
        """Add `intel-rapl:0:1` in the directory of `intel-rapl:0`."""
        kind, *numbers = zone.split(":")
        place = self.top / DEVICES / kind
        for depth in range(1, len(numbers) + 1):
            place /= ":".join([kind, *numbers[:depth]])
        place.mkdir(parents=True)
        (place / "name").write_text(f"{name}\n")
        (place / "max_energy_range_uj").write_text(f"{range_uj}\n")
        (place / "energy_uj").write_text(f"{energy_uj}\n")
        (self.path / zone).symlink_to(os.path.relpath(place, self.path))
        return place

    def set(self, zone: str, text: str) -> None:
        """Change a counter at once, as the kernel does: no reader sees half of it."""
        place = (self.path / zone).resolve()
        new = place / ".new"
        new.write_text(text)
        new.replace(place / "energy_uj")

    @contextmanager
    def counting(
        self, *zones: str, step_uj: int = 20_000, every_s: float = 0.001
    ) -> Iterator[None]:
        """These zones use energy meanwhile."""
        stop = Event()

        def count() -> None:
            while not stop.wait(every_s):
                for zone in zones:
                    old = int((self.path / zone / "energy_uj").read_text())
                    self.set(zone, f"{(old + step_uj) % RANGE_UJ}\n")

        thread = Thread(target=count)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def server(top: Path) -> Powercap:
    """Two packages with memory, as on a real server, and what must not be counted twice."""
    tree = Powercap(top)
    (tree.path / "intel-rapl").mkdir()  # the kind itself, not a zone
    tree.zone("intel-rapl:0", "package-0", 1_000_000)
    tree.zone("intel-rapl:0:0", "core", 700_000)
    tree.zone("intel-rapl:0:1", "uncore", 1_000)
    tree.zone("intel-rapl:0:2", "dram", 300_000)
    tree.zone("intel-rapl:1", "package-1", 2_000_000)
    tree.zone("intel-rapl:1:0", "dram", 400_000)
    tree.zone("intel-rapl:2", "psys", 9_000_000)
    tree.zone("intel-rapl-mmio:0", "package-0", 1_000_000)
    tree.zone("dtpm:0", "pkg", 5)
    return tree
