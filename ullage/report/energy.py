"""What the work took, where the run had energy meters."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.analysis.comparison import money, rounding
from ullage.analysis.comparison.energy_model import Energy, EnergyFigure
from ullage.analysis.comparison.model import Analysis
from ullage.analysis.energy import words
from ullage.common.text import clean
from ullage.report import answer
from ullage.report.charts import forest, lanes
from ullage.report.charts.text import unbroken
from ullage.report.views import DoubtView, ForestPanel, Table, mark, tabulate


def table(analysis: Analysis) -> Table | None:
    """A row for each priced environment and figure; None without a price."""
    if not analysis.money:
        return None
    heads = money.HEADS
    return tabulate(
        f"Cost of the work{lanes.suffix(analysis)}",
        heads,
        ([clean(cell, 200) for cell in row] for row in money.rows(analysis)),
        numbers=(heads[2], heads[5]),
        spans=(heads[3], heads[6]),
        note=unbroken(clean(" ".join((money.note(analysis), *analysis.money_notes)), 1000)),
    )


@dataclass(frozen=True)
class EnergySection:
    """The plot, the table, and what to know of them."""

    title: str
    forest: tuple[ForestPanel, ...]
    table: Table | None
    notes: tuple[DoubtView, ...]


def section(analysis: Analysis) -> EnergySection | None:
    """None without a meter; without a table where no trial has an energy."""
    notes = tuple(
        DoubtView(note.code, (clean(note.message, 600),), clean(note.advice, 400))
        for note in analysis.energy_notes
    )
    if not analysis.energy:
        return EnergySection("", (), None, notes) if notes else None
    panels = tuple(answer.forest_panels(groups(analysis)))
    return EnergySection(title(analysis), panels, _table(analysis), notes)


def title(analysis: Analysis) -> str:
    baseline = clean(analysis.baseline_label, 60)
    confidence = unbroken(rounding.share(analysis.confidence))
    return f"Times the energy of {baseline}, with {confidence} intervals{lanes.suffix(analysis)}"


def groups(analysis: Analysis) -> list[forest.RatioGroup]:
    """Each environment's energies over the baseline's: for the work, else of a trial."""
    by_environment: dict[str, list[Energy]] = {}
    for energy in analysis.energy:
        if words.ratio(_main(energy)) is not None:
            by_environment.setdefault(energy.environment, []).append(energy)
    return [
        forest.RatioGroup(
            clean(mine[0].environment_label, 60), tuple(_row(measured) for measured in mine)
        )
        for mine in by_environment.values()
    ]


def _main(energy: Energy) -> EnergyFigure:
    return energy.per_unit or energy.energy


def _row(energy: Energy) -> forest.RatioRow:
    main = _main(energy)
    interval = words.ratio(main)
    assert interval is not None, "only rows that have one"
    middle, low, high = rounding.ratio(interval)
    return forest.RatioRow(
        label=clean(energy.workload_title, 60),
        detail=clean(f"{energy.label}, {words.source(energy.method, energy.scope)}", 80),
        verdict=mark(main.verdict).kind,
        ratio=interval.estimate,
        low=interval.low,
        high=interval.high,
        value=f"{middle}×",
        interval=f"{low} to {high}",
        floor=main.floor,
    )


def _table(analysis: Analysis) -> Table:
    return tabulate(
        f"Energy of the work{lanes.suffix(analysis)}",
        words.HEADS,
        ([unbroken(clean(cell, 200)) for cell in row] for row in words.rows(analysis)),
        numbers=words.NUMBERS,
        spans=(words.HEADS[6], words.HEADS[8]),
        note=unbroken(clean(words.note(analysis), 600)),
    )
