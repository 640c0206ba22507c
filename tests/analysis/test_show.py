"""What `ullage show` prints is the answer: the sentences, before any table."""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.synthetic import make_run
from ullage.analysis import overhead, sentences
from ullage.analysis.model import DoubtCode
from ullage.folder import RunFolder

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("details", [False, True])
def test_show_prints_the_sentences(tmp_path: Path, details: bool) -> None:
    path = make_run(tmp_path / "run", raw=False, noise_sd=0.01)
    argv = [sys.executable, "-m", "ullage.cli", "show", str(path), *["--details"] * details]
    narrow = {**os.environ, "COLUMNS": "60", "NO_COLOR": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=narrow)
    answer = sentences.answer(overhead.analyse(RunFolder.open(path)))
    assert done.stdout.splitlines()[: len(answer)] == answer
    assert "× worse than native in" in answer[0]
    assert "are equivalent within 2 %" in answer[0]
    assert ("p-values" in done.stdout) is details


@pytest.mark.parametrize("code", get_args(DoubtCode))
def test_every_doubt_is_explained(code: str) -> None:
    assert f"`{code}`" in (DOCS / "statistics.md").read_text()
