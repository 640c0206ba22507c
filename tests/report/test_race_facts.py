"""What a report says of a run from which comparisons left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.racekit import raced
from ullage.analysis import overhead
from ullage.report import provenance


@pytest.mark.parametrize(
    ("verdicts", "who", "end"),
    [
        ("all", "blocks; what was decided left", "every primary comparison had its verdict"),
        (
            "likely",
            "blocks; what was decided, or unlikely to be, left",
            "every primary comparison had its verdict, or hardly a chance of one",
        ),
    ],
)
def test_who_left_and_why_it_ended(tmp_path: Path, verdicts: str, who: str, end: str) -> None:
    folder = raced(tmp_path / "run", (6, 12, 24), verdicts=verdicts, noise_sd=0.2, failures=())
    facts = dict(provenance.pairs(folder, overhead.analyse(folder)))
    assert who in facts["judged"]
    assert facts["ended because"] == end
