"""Two systems, one over the other: a table of their own, as their program is not that of others."""

from __future__ import annotations

from typing import Final

from ullage.experiments.studies import measured
from ullage.experiments.studies.base import DerivedTable

_ALONE: Final = (
    "Nothing stands beside: the published rows are of guests over a physical Windows, and here the "
    "other system is over Linux."
)


def table(run: measured.StudiedRun) -> DerivedTable | None:
    """Ratios of `basics`."""
    ratios = measured.ratios(
        run,
        [c for c in run.analysis.primary() if run.kind(c) == "basics"],
        "windows-fresh",
        "Two systems: the work of the published rows by one program, one system over the other",
    )
    return ratios and ratios.model_copy(update={"notes": (*ratios.notes, _ALONE)})
