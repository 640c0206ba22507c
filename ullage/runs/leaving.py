"""Who leaves a run when some of its comparisons are decided."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ullage.runs.events import CellLeft, Judged, Recalled

CellKey = tuple[str, str]
"""Environment and workload."""


def nobody_needs(
    decided: Collection[CellKey],
    environments: Mapping[str, str | None],
    baseline: str,
    workloads: Iterable[str],
) -> list[CellKey]:
    """The cells that are decided, and those that are there for nothing else.

    A second copy goes with its environment, the baseline and its own with the last of a workload.
    environments: key → the one that it is a second copy of, in order.
    """
    compared = {key for key, of in environments.items() if of is None and key != baseline}
    cells: list[CellKey] = []
    for workload in workloads:
        gone = {key for key in compared if (key, workload) in decided}
        if gone == compared:
            gone.add(baseline)
        gone |= {key for key, of in environments.items() if of in gone}
        cells += [(key, workload) for key in environments if key in gone]
    return cells


def returning(
    gone: Collection[CellLeft],
    environments: Mapping[str, str | None],
    baseline: str,
    workloads: Iterable[str],
) -> tuple[CellLeft, ...]:
    """Of the cells that left, those without a verdict, and those that they need.

    The other arguments are those of `nobody_needs`.
    """
    if not any(cell.undecided for cell in gone):
        return ()
    decided = cells_of(cell for cell in gone if not cell.undecided)
    stay = set(nobody_needs(decided, environments, baseline, workloads))
    return tuple(cell for cell in gone if (cell.environment, cell.workload) not in stay)


def cells_of(cells: Iterable[CellLeft]) -> frozenset[CellKey]:
    """Their names."""
    return frozenset((cell.environment, cell.workload) for cell in cells)


def absent(events: Iterable[Judged | Recalled], block: int) -> dict[CellKey, CellLeft]:
    """The cells that were not there when that block began: left, and not called back."""
    gone: dict[CellKey, CellLeft] = {}
    for event in events:
        if event.blocks > block:
            continue
        if isinstance(event, Judged):
            gone |= {(cell.environment, cell.workload): cell for cell in event.left}
        else:
            gone = {key: cell for key, cell in gone.items() if key not in cells_of(event.cells)}
    return gone
