"""What the pictures of elastic runs are made of."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ullage.experiments.elastic.report.charts import MOST_TICKS, whole


def test_the_axis_of_nodes_has_whole_ones() -> None:
    assert whole(0) == [0]
    assert whole(2) == [0, 1, 2]
    assert whole(7) == [0, 2, 4, 6]
    assert whole(250) == [0, 50, 100, 150, 200, 250]


@given(st.integers(0, 10**9))
def test_a_few_ticks_that_reach_far(most: int) -> None:
    ticks = whole(most)
    steps = {after - before for before, after in itertools.pairwise(ticks)}
    assert len(ticks) <= MOST_TICKS + 1 and len(steps) <= 1
    assert ticks[0] == 0 and most / 2 <= ticks[-1] <= most
