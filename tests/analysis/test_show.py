"""What `ullage show` prints is the answer: the sentences, before any table."""

from pathlib import Path
from typing import get_args

import pytest

from testing.synthetic import make_run
from tests.support import commandkit
from ullage.analysis import overhead, sentences
from ullage.analysis.comparison.model import DoubtCode
from ullage.runs.reader import RunFolder

STATISTICS = Path(__file__).parents[2] / "docs/method/statistics.md"


@pytest.mark.parametrize("details", [False, True])
def test_show_prints_the_sentences(tmp_path: Path, details: bool) -> None:
    path = make_run(tmp_path / "run", raw=False, noise_sd=0.01)
    narrow = {"COLUMNS": "60", "NO_COLOR": "1"}
    done = commandkit.ullage("show", str(path), *["--details"] * details, environment=narrow)
    answer = sentences.answer(overhead.analyse(RunFolder.open(path)))
    assert done.stdout.splitlines()[: len(answer)] == answer
    assert "× worse than native in" in answer[0]
    assert "are equivalent within 2 %" in answer[0]
    assert ("p-values" in done.stdout) is details
    assert ("ratio of totals: " in done.stdout) is details
    # 1 − 0.05^(1/11): one of the twelve trials of a cell has no figure.
    assert "What befalls fewer than 24 % of the trials may have happened in none of the 11 of " in (
        done.stdout
    )


@pytest.mark.parametrize("code", get_args(DoubtCode))
def test_every_doubt_is_explained(code: str) -> None:
    assert f"`{code}`" in STATISTICS.read_text()
