"""The energies of a run in words and rows, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ullage.analysis.comparison import money, rounding
from ullage.analysis.comparison.energy_model import Energy, EnergyFigure
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.model import Analysis
from ullage.analysis.comparison.words import ratio_cells
from ullage.runs.records import Method, Scope

HEADS: Final = (
    "environment",
    "workload",
    "a trial",
    "power",
    "above idle",
    "for the work",
    "its interval",
    "times",
    "interval",
    "verdict",
)
"""Columns of `rows`."""
NUMBERS: Final = (HEADS[2], HEADS[3], HEADS[4], HEADS[7])
"""Those that are figures."""
_AT: Final[dict[Scope, str]] = {
    "wall": "at the wall",
    "package": "in the processors",
    "memory": "in the memory",
    "guest": "for the guest",
}
_PER_SECOND: Final = "_per_second"


def source(method: Method, scope: Scope) -> str:
    """`measured at the wall`."""
    return f"{method} {_AT[scope]}"


def rows(analysis: Analysis) -> list[tuple[str, ...]]:
    """The energies, by work and source: all of one work for the same amount of it."""
    groups: dict[tuple[str, ...], list[Energy]] = {}
    for energy in analysis.energy:
        key = energy.workload, energy.metric or "", energy.label, energy.scope, energy.method
        groups.setdefault(key, []).append(energy)
    return [_row(energy, *_amount(group)) for group in groups.values() for energy in group]


def note(analysis: Analysis) -> str:
    """What the rows rest on."""
    level = rounding.share(analysis.confidence)
    unstated = dict.fromkeys(e.label for e in analysis.energy if e.relative_u_accuracy is None)
    lacking = f" No accuracy is stated for {', '.join(unstated)}: none is in." if unstated else ""
    return (
        "Over exactly the time of each trial; medians, with intervals of the trials' spread "
        f"({level}) and of the meter's own uncertainty together. Times the baseline's, paired by "
        f"block, with the {level} interval of both; above 1 takes more. Figures measured, "
        f"attributed and estimated, or of another scope, are never added or compared.{lacking}"
    )


def note_lines(analysis: Analysis) -> list[str]:
    """What is missing, and what to doubt."""
    return [
        f"{energy_note.message}; {energy_note.advice} ({energy_note.code})"
        for energy_note in analysis.energy_notes
    ]


def figure(energy: Energy, joules: float) -> str:
    """One figure for the work as a sentence has it: `0.83 J per 1,000 events (measured …)`."""
    scale, amount = _amount([energy])
    return _per(energy, rounding.quantity(joules * scale, "J"), amount)


def _per(energy: Energy, quantity: str, amount: str) -> str:
    where = source(energy.method, energy.scope)
    return f"{quantity} per {amount} ({where})" if amount else f"({where})"


def _row(energy: Energy, scale: float, amount: str) -> tuple[str, ...]:
    main = energy.per_unit or energy.energy
    quantity = (
        rounding.quantity(energy.per_unit.values.median * scale, "J") if energy.per_unit else ""
    )
    return (
        energy.environment_label,
        f"{energy.workload_title} ({energy.metric})" if energy.metric else energy.workload_title,
        _median(energy.energy),
        _median(energy.mean_power),
        _median(energy.above_idle),
        _per(energy, quantity, amount if quantity else ""),
        _between(main, scale if energy.per_unit else 1.0),
        *ratio_cells(ratio(main)),
        main.verdict or "",
    )


def _median(figure: EnergyFigure | None) -> str:
    return rounding.quantity(figure.values.median, figure.unit) if figure else ""


def _between(figure: EnergyFigure, scale: float) -> str:
    if figure.low is None or figure.high is None:
        return ""
    low, high = (rounding.quantity(bound * scale, "J") for bound in (figure.low, figure.high))
    return f"{low} to {high}"


def ratio(figure: EnergyFigure) -> Interval | None:
    """With the meter's own uncertainty."""
    if figure.ratio is None or figure.budget is None:
        return None
    return figure.ratio.model_copy(update={"low": figure.budget.low, "high": figure.budget.high})


def _amount(group: Sequence[Energy]) -> tuple[float, str]:
    """The smallest amount of work that takes a readable energy, and what it is called."""
    joules = [energy.per_unit.values.median for energy in group if energy.per_unit]
    work, metric = group[0].work, group[0].metric or ""
    if not joules or work is None:
        return 1.0, ""
    scale, amount = money.amount(min(joules), work)
    units = metric.removesuffix(_PER_SECOND).replace("_", " ")
    if work == "1" and metric.endswith(_PER_SECOND) and units.endswith("s"):
        amount = amount.replace("units", units).replace("unit", _singular(units))
    return scale, amount


def _singular(word: str) -> str:
    """The singular of a word: `events`, `queries`, `switches`."""
    for plural, singular in (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss")):
        if word.endswith(plural):
            return word.removesuffix(plural) + singular
    return word.removesuffix("s")
