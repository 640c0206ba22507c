"""The study `flash-energy`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ullage.analysis.comparison.model import Comparison
from ullage.experiments.studies import measured
from ullage.experiments.studies.base import (
    Column,
    DerivedCell,
    DerivedTable,
    Study,
    StudyFigure,
    StudyPlan,
)
from ullage.experiments.studies.flash_energy import derived

QUICK: Final = StudyPlan(name="flash-energy-quick", file="quick.yaml", minutes=10)
FULL: Final = StudyPlan(name="flash-energy-full", file="full.yaml", minutes=155)
THERE: Final = (("ssd", "SSD"), ("iodrive", "flash"))
"""The published disks, against the hard disk, that stand beside ours."""


class FlashEnergy(Study):
    """Storage under VMs: what it costs in time and in energy."""

    name = "flash-energy"
    title = "What storage under VMs costs in time and energy"
    question = (
        "What does the disk under a VM, its format and its cache cost in time, watts and joules?"
    )
    source = "a study of flash storage under four KVM guests, 2012"
    needs = ("root", "the image", "1 CPU and 1 GiB for each of 4 VMs")

    def tables(self) -> tuple[DerivedTable, ...]:
        """Power and energy, with what cannot be recovered of them; then each test's own figures."""
        return derived.tables(self.published)

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """One: everything is compared within its blocks."""
        return (QUICK if quick else FULL,)

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """Ratios of the work to the raw disk without cache, with the published ones beside."""
        run = measured.opened(next(iter(runs.values())))
        comparisons = [c for c in run.analysis.comparisons if c.primary or c.metric in _SHOWN]
        table = measured.ratios(
            run,
            comparisons,
            "disks-fresh",
            "Disks under a VM, with the published ratios of SSD and flash to the hard disk",
            self._published_columns(run),
        )
        energy = measured.energies(
            run, "energy-fresh", "Energy and power over exactly each trial's window"
        )
        return tuple(filter(None, (table, energy)))

    def _published_columns(self, run: measured.StudiedRun) -> measured.PublishedColumns:
        """Published ratios of the same test, hard disk = 1, above 1 worse; two processes."""
        rates = {
            (row["image_disk"], row["swap_disk"]): row
            for row in self.published("flash2012_beffio")
            if row["processes"] == "2"
        }
        times = {
            (row["image_disk"], row["swap_disk"]): float(row["total_time_s"])
            for row in self.published("flash2012_oltp")
        }

        def published_ratio(c: Comparison, disk: str) -> StudyFigure:
            base, compared = ("hdd", "hdd"), (disk, "ssd")
            if c.metric in _RATES:
                column = _RATES[c.metric]
                return StudyFigure(
                    value=float(rates[base][column]) / float(rates[compared][column])
                )
            if c.metric == "transactions_per_second":
                return StudyFigure(value=times[compared] / times[base])
            return StudyFigure(value=None, why="nothing was published that could be compared")

        def cells(c: Comparison) -> tuple[DerivedCell, ...]:
            return tuple(published_ratio(c, disk) for disk, _ in THERE)

        columns = tuple(Column(title=f"{label} there", decimals=3) for _, label in THERE)
        return measured.PublishedColumns(columns, cells)


_RATES: Final = {
    "b_eff_io": "b_eff_io_MBps",
    "write": "write_MBps",
    "rewrite": "rewrite_MBps",
    "read": "read_MBps",
}
_SHOWN: Final = frozenset(_RATES)
"""Shown beside the other primary metrics."""
