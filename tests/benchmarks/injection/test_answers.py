"""Figures and tables say what was counted, and `holds` can be no."""

import json
import math
from pathlib import Path

import pytest

from benchmarks.statistics.injection import answers, command, plausibility
from benchmarks.statistics.injection.answers import Pair
from benchmarks.statistics.injection.designs import TrialsNeeded
from benchmarks.statistics.injection.recording import Expected, Recording
from tests.benchmarks.injection.records import Maker, wandering

BIASED = {"x1.05": 0.2, "native~again": 0.1}


def recorded(bias: dict[str, float] | None = None) -> Recording:
    maker = Maker(bias=bias)
    maker.blocks("blocks-0", 36, wandering(0.01, 0.01, 1))
    maker.sequence("cpu-0", 4, 36, wandering(0.01, 0.01, 2))
    recording = maker.recording
    (rows,) = [rows for _, rows in recording.of("blocks")]
    recording.rows += [
        row.model_copy(update={"part": "plausible", "run": "plausible-cpu"}) for row in rows
    ]
    recording.about.resolved["plausible-cpu"] = recording.about.resolved["blocks-0"]
    for name, low, high, relative in (
        ("x1.25", 1.24, 1.26, True),
        ("x1.10", 1.9, 2.1, True),
        ("x1.25", 0.24, 0.26, False),
    ):
        recording.about.expected.append(
            Expected(
                run="plausible-cpu",
                environment=name,
                what=f"{name} by {low}",
                low=low,
                high=high,
                relative=relative,
                why="made up",
            )
        )
    return recording


def test_right_intervals_hold_and_wrong_ones_do_not() -> None:
    for bias, holds in ((None, True), (BIASED, False)):
        figures = {f.name: f for f in answers.figures(answers.answer(recorded(bias)))}
        assert figures["intervals that hold ×1.05"].holds is holds
        assert figures["intervals that hold the injected truth"].holds is holds
        assert figures["intervals that hold ×1.10"].holds is True
        few = figures["A/A campaigns with a false claim after Holm"]
        assert few.holds is None, "too few campaigns for a claim"


def test_expectations_are_touched_or_not() -> None:
    recording = recorded()
    comparisons = plausibility.compared(recording)
    assert [comparison.agrees for comparison in comparisons][:2] == [True, False]
    native = [
        row.seconds
        for name, rows in recording.of("plausible")
        for row in rows
        if row.environment == "native" and row.seconds is not None
    ]
    mean = math.fsum(native) / len(native)
    assert comparisons[2].low == pytest.approx(0.24 / mean)


def need(trials: int | None, most: int = 60) -> TrialsNeeded:
    return TrialsNeeded(trials, most, None, None, 0.05)


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio", "fewer"),
    [
        (need(12), need(40), "0.30", True),
        (need(21), need(40), "0.53", False),
        (need(12), need(None), "below 0.20", True),
        (need(36), need(None), "below 0.60", None),
        (need(None), need(40), "above 1.50", False),
        (need(None, 15), need(40), "above 0.38", None),
        (need(None), need(None), "not known", None),
    ],
)
def test_a_bound_is_not_taken_for_a_value(
    ours: TrialsNeeded, theirs: TrialsNeeded, ratio: str, fewer: bool | None
) -> None:
    pair = Pair("cpu", ours, theirs)
    assert (pair.ratio, pair.fewer) == (ratio, fewer)


def test_kept_trials_are_analysed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded().save(tmp_path)
    assert command.main(["--from", str(tmp_path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["name"].startswith("intervals that hold ×") for row in rows) == 4
    assert command.main(["--from", str(tmp_path), "--markdown"]) == 0
    text = capsys.readouterr().out
    assert "| ×1.25 |" in text
    assert "| x1.10 by 1.9 | 1.90 to 2.10 |" in text
    assert all(line.count("|") > 2 for line in text.splitlines() if line.startswith("|"))


def test_what_was_kept_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trials.csv").write_text("precious")
    assert command.main(["--quick", "--keep", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "trials.csv").read_text() == "precious"


def test_what_cannot_be_read_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--from", str(tmp_path)]) == 2
    assert "about.json" in capsys.readouterr().err
