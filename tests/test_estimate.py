"""The time that a plan will take."""

from __future__ import annotations

import pytest

from ullage.estimate import Estimate


@pytest.mark.parametrize(
    ("least", "most", "budget", "told"),
    [
        (6, 40, None, (310, 2010)),
        (6, 40, 600.0, (310, 600)),
        (6, 40, 120.0, (310, 310)),  # the least number of blocks runs in any case
        (6, 6, 9000.0, (310, 310)),
    ],
)
def test_a_budget_cuts_what_is_not_needed(
    least: int, most: int, budget: float | None, told: tuple[float, float]
) -> None:
    found = Estimate(10.0, 50.0, least, most, budget, learned=False)
    assert (found.least_s, found.most_s) == told
