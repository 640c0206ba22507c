"""Who leaves a run when some of its comparisons are decided."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

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
