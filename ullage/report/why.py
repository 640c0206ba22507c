"""What changed along with each figure that is worse."""

from __future__ import annotations

from ullage.analysis import causewords, words
from ullage.analysis.model import Analysis, Comparison
from ullage.printable import clean
from ullage.report import sides
from ullage.report.text import unbroken
from ullage.report.views import Table, TableCell, heads

HEADS = ("worse", "what changed", "there", "in the baseline", "change", "its interval")
KINDS = ("", "", "n", "n", "n", "s")


def table(analysis: Analysis) -> Table | None:
    """Up to three rows for each comparison that is worse; None without one."""
    worse = [c for c in analysis.primary() if c.causes is not None]
    if not worse:
        return None
    return Table(
        caption=f"What changed with what is worse{sides.suffix(analysis)}",
        heads=heads(*HEADS, numbers=HEADS[2:5]),
        rows=tuple(
            tuple(
                TableCell(unbroken(clean(cell, 300)), kind)
                for cell, kind in zip(row, KINDS, strict=True)
            )
            for c in worse
            for row in _rows(c)
        ),
        note=unbroken(
            f"{causewords.LEAD} Each counter is compared as the figure is, paired by block; of "
            "those looked at, up to three that changed most, with intervals that hold together "
            "for all counters of a comparison. Counters of events that only went with the work or "
            "with the time are left out."
        ),
    )


def _rows(c: Comparison) -> list[tuple[str, ...]]:
    assert c.causes is not None
    who = words.name(c.environment_label, emulated=c.emulated, unequal=c.unequal)
    name = f"{who}, {c.workload_title} ({c.metric})"
    if not c.causes.found:
        return [(name, causewords.none(c.causes), "", "", "", "")]
    return [
        (
            name,
            f"{each.words} ({each.counter})",
            causewords.value(each.environment_mean, each.unit),
            causewords.value(each.baseline_mean, each.unit),
            causewords.change(each),
            causewords.bounds(each),
        )
        for each in c.causes.found
    ]
