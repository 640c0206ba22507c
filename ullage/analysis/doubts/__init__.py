"""Doubts: typed warnings, each with what they mean for a run that is made and what to change.

`failures` and `figures` doubt what the trials gave, `series` the order and shape of the pairs,
`readings` what was computed of them, `totals` whether all trials together say the same, `machine`
the host meanwhile, `run` the run as a whole.
"""

from __future__ import annotations

from ullage.analysis.comparison.model import Doubt
from ullage.analysis.comparison.pairing import Draft
from ullage.analysis.doubts import failures, machine, readings, series, totals
from ullage.analysis.doubts.machine import power
from ullage.analysis.doubts.readings import ComparisonFigures as ComparisonFigures
from ullage.analysis.doubts.run import of_run

__all__ = ["Figures", "of_comparison", "of_run", "power"]


def of_comparison(d: Draft, f: ComparisonFigures) -> tuple[Doubt, ...]:
    """All doubts about one comparison.

    What is found by a test of significance (drift, warm-up, autocorrelation, two groups) is found
    by chance, on a machine without any, in at most one run in twenty, over all its comparisons.
    """
    doubts = (
        *failures.doubts(d),
        *series.doubts(d, f.drift_alpha),
        *readings.doubts(d, f),
        totals.of_draft(d, f.interval, f.totals),
        *machine.doubts(d),
    )
    return tuple(doubt for doubt in doubts if doubt is not None)
