"""Do all trials together say what the usual one says?

A geometric mean hardly moves for a trial that takes twice as long, and is better where most trials
are a little faster and few much slower; who pays, or waits for the last, has the total.
"""

from __future__ import annotations

import math
from typing import Final

from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.model import Doubt
from ullage.analysis.comparison.pairing import Draft, excludes_one
from ullage.analysis.comparison.words import ratio_words

LOST: Final = ", and at the trials without figures"


def of_draft(d: Draft, usual: Interval | None, totals: Interval | None) -> Doubt | None:
    """`totals-disagree` of a run's comparison."""
    lost = d.environment_cell.without_figures + d.baseline_cell.without_figures
    return doubt(usual, totals, d.settings.margin, lost=lost > 0)


def doubt(
    usual: Interval | None, totals: Interval | None, margin: float, *, lost: bool
) -> Doubt | None:
    """`totals-disagree`; None where the totals read as the geometric mean, the usual trial.

    lost: some have no figure, and may have been slow.
    """
    if usual is None or totals is None or not disagree(usual, totals, margin):
        return None
    return Doubt(
        code="totals-disagree",
        message=f"All trials together read differently: the ratio of the totals is "
        f"{ratio_words(totals)}, that of the usual trial {ratio_words(usual)}.",
        advice="Few slow trials make the difference. Where somebody pays for all of them, or waits "
        "for the last, the totals are what counts; where the usual trial is asked for, the ratio. "
        f"Look at the points{LOST if lost else ''}; "
        "`rare:` plans the blocks that would show how often it is.",
    )


def disagree(usual: Interval, totals: Interval, margin: float) -> bool:
    """Would a reader of the one be misled about the other?

    Where neither holds the other's estimate; where either excludes 1 and the other's estimate lies
    on the other side of it; where the usual trial lies within the margin and the totals beyond.
    """
    apart = not usual.low <= totals.estimate <= usual.high and not (
        totals.low <= usual.estimate <= totals.high
    )
    against = (excludes_one(usual) or excludes_one(totals)) and (
        math.log(usual.estimate) * math.log(totals.estimate) < 0
    )
    inside = 1 / (1 + margin) < usual.low and usual.high < 1 + margin
    beyond = not 1 / (1 + margin) <= totals.estimate <= 1 + margin
    return apart or against or (inside and beyond)
