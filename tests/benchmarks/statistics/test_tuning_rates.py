"""The benchmark of `ullage tune`: its surface has a best, and quiet noise lets it be found."""

from __future__ import annotations

import numpy as np

from benchmarks.statistics import tuning
from benchmarks.statistics.traces import all_traces


def test_without_noise_all_find_the_best() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        answers = tuning.campaign(tuning.draw(rng), np.zeros, np.random.default_rng(1))
        assert answers[0]
        assert answers[2], "nor do differences of neighbours miss it"


def test_the_first_row_is_whole() -> None:
    row = tuning.over(all_traces()[0], "cpu", 5, 1)
    assert (row.campaigns, row.trials, row.matrix) == (5, 34, 128)
    assert 3 * row.trials <= row.matrix
    assert tuning.table([row]).rows[0][0] == "two-core-vm, cpu"
