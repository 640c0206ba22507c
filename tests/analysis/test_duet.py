"""Duets: every environment has a baseline of its own, beside it, and every word says so."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from testing.synthetic import CURVE_WORKLOAD, WORKLOADS, make_run
from ullage.analysis import overhead, sentences
from ullage.analysis.comparison.model import Analysis
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.report import answer, workloads
from ullage.report.charts import lanes as sides
from ullage.report.export import export, rows
from ullage.report.page import write
from ullage.runs.reader import RunFolder
from ullage.runs.records import Design

CPU = WORKLOADS[0]
LOST = (2, "native", CPU.key)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    path = tmp_path_factory.mktemp("duet") / "run"
    both = [WORKLOADS[0], WORKLOADS[3], CURVE_WORKLOAD]
    return RunFolder.open(
        make_run(path, design="duet", workloads=both, noise_sd=0.02, failures=[LOST])
    )


@pytest.fixture(scope="module")
def analysis(folder: RunFolder) -> Analysis:
    return overhead.analyse(folder)


def test_a_pair_is_of_two_that_ran_beside_each_other(folder: RunFolder, analysis: Analysis) -> None:
    trials = {trial.trial: trial for trial in folder.trials}
    for c in (*analysis.comparisons, *analysis.again):
        for point in c.points:
            mine, theirs = trials[point.trial], trials[point.baseline_trial]
            assert (mine.partner, theirs.partner) == (theirs.environment, mine.environment)
            assert {mine.side, theirs.side} == {0, 1}


def test_a_block_is_complete_with_all_its_pairs(analysis: Analysis) -> None:
    assert (analysis.blocks, analysis.trials) == (12, 12 * 3 * 4 * 2)


def test_the_baseline_has_values_of_its_own_beside_each(analysis: Analysis) -> None:
    of = [c for c in (*analysis.primary(), *analysis.again) if c.workload == CPU.key and c.primary]
    medians = {c.baseline_values.median for c in of if c.baseline_values}
    assert len(medians) == len(of) == 4
    for c in of:
        assert (c.baseline_cell.trials, c.baseline_cell.failed, c.pairs) == (12, 1, 11)
    cell = next(c for c in analysis.cells if (c.environment, c.workload) == ("native", CPU.key))
    assert (cell.trials, cell.failed) == (48, 4)


def test_the_floor_is_that_of_a_duet(analysis: Analysis) -> None:
    (null,) = [c for c in analysis.again if c.workload == CPU.key and c.primary]
    assert null.interval is not None
    low, high = math.log(null.interval.low), math.log(null.interval.high)
    # The A/A shares no trial with the comparison, so its own chance counts √2 times.
    reach = max(abs(low), abs(high)) + (math.sqrt(2) - 1) * (high - low) / 2
    lxc = next(c for c in analysis.primary() if (c.environment, c.workload) == ("lxc", CPU.key))
    assert lxc.floor == pytest.approx(math.exp(reach))


def test_the_table_and_the_files_say_so(analysis: Analysis) -> None:
    assert {row["design"] for row in rows(analysis)} == {"duet"}
    assert export(analysis, "latex").count(b"while both run side by side") == 1 + analysis.family


def test_every_caption_and_chart_of_the_report_says_so(
    folder: RunFolder, analysis: Analysis, tmp_path: Path
) -> None:
    page = write(folder, analysis, tmp_path / "page.html").read_text()
    assert "What is left of the machine, while both run side by side" in page
    assert answer.forest_title(analysis).endswith(", while both run side by side")
    assert all(g.label.endswith(", while both run side by side") for g in answer.groups(analysis))
    assert all(", while both" in label for label, _ in answer.cellar_pictures(analysis))
    for workload in folder.resolved.workloads:
        mine = [t for t in folder.trials if t.workload == workload.key]
        table = workloads.table(folder, analysis, workload, mine)
        assert "side by side" in table.caption
        lanes = [row[0].text for row in table.rows if row[1].text == workload.metrics[0].name]
        assert len(lanes) == 8
        assert all(" beside " in lane for lane in lanes)
        for _, kind, chart in workloads.drawn(folder, analysis, workload, mine):
            if kind != "ratios":
                assert "native beside LXC" in json.dumps(chart.data)
    captions = page.count("<figcaption>")
    assert captions > 8
    assert page.count("side by side") > captions


def test_lanes_of_a_solo_run_are_its_environments(tmp_path: Path) -> None:
    solo = RunFolder.open(make_run(tmp_path / "run", blocks=2, raw=False))
    environments, trials = sides.apart(solo.resolved, solo.trials)
    assert environments == solo.resolved.environments
    assert trials == solo.trials


@pytest.mark.parametrize("design", ["solo", "duet"])
def test_designs_are_never_mixed(tmp_path: Path, design: Design) -> None:
    """Not even in one trial: such a run cannot be read, and so not be analysed."""
    path = make_run(tmp_path / "run", blocks=2, design=design, raw=False)
    mixed = {"partner": "lxc", "side": 0} if design == "solo" else {"partner": None, "side": None}
    events = [json.loads(line) for line in (path / "journal.jsonl").read_text().splitlines()]
    next(event for event in events if event["event"] == "trial").update(mixed)
    (path / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    with pytest.raises(UllageError) as caught:
        RunFolder.open(path)
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    assert "not of the design of its run" in caught.value.message


def test_sentences_of_a_duet(analysis: Analysis) -> None:
    # Of verdicts that changed, and of what so few blocks cannot show: no figure is in them.
    beside = ("Verdicts have other rules", "From ")
    care = sentences.care(analysis)
    figures = [
        text for text in sentences.answer(analysis) if not text.startswith(beside) and text != care
    ]
    assert len(figures) > 1
    assert all("side by side" in text for text in figures)
