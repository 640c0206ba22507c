"""A run from which comparisons left: the folder alone says the same as was said on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from testing.synthetic import ENVIRONMENTS, TRUTH, WORKLOADS, make_run
from tests.support.racekit import raced, until
from ullage.analysis import overhead, racing
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.runs.reader import RunFolder
from ullage.stats.stop import look_confidence

LOOKS = (6, 12, 24, 48)
NATIVE, AGAIN, CONTAINER, LXC, VM = ENVIRONMENTS
CALM: Final[dict[str, Any]] = {"noise_sd": 0.02, "failures": ()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return raced(tmp_path_factory.mktemp("raced") / "run", LOOKS, **CALM)


def by_cell(analysis: Analysis) -> dict[tuple[str, str], Comparison]:
    return {(c.environment, c.workload): c for c in analysis.primary()}


def left_after(folder: RunFolder) -> dict[tuple[str, str], int]:
    """Cell → blocks after which it left."""
    return {
        (cell.environment, cell.workload): look.blocks
        for look in folder.judged
        for cell in look.left
    }


def test_what_differs_much_leaves_first_and_what_is_hard_stays(run: RunFolder) -> None:
    left = left_after(run)
    assert {left[VM.key, w.key] for w in WORKLOADS if TRUTH.get((VM.key, w.key), 1) > 1.2} == {6}
    assert max(left.values()) > 6, "nothing was hard: the test tests nothing"
    comparisons = by_cell(overhead.analyse(run))
    for cell, blocks in left.items():
        if cell in comparisons:
            assert comparisons[cell].pairs == blocks
            assert comparisons[cell].verdict in {"worse", "better", "equivalent"}


def test_a_verdict_is_still_the_one_that_its_comparison_left_with(
    run: RunFolder, tmp_path: Path
) -> None:
    """Later trials of the baseline, its second copy or other cells change nothing of it."""
    final = by_cell(overhead.analyse(run))
    compared = 0
    for look in run.judged[:-1]:
        then = by_cell(overhead.analyse(until(run, tmp_path / str(look.blocks), look.blocks)))
        for cell, blocks in left_after(run).items():
            if cell in then and blocks <= look.blocks:
                assert final[cell] == then[cell]
                compared += 1
    assert compared > len(WORKLOADS)


def test_each_interval_has_the_confidence_of_its_look(run: RunFolder) -> None:
    left, last = left_after(run), run.judged[-1].blocks
    for cell, c in by_cell(overhead.analyse(run)).items():
        look = LOOKS.index(left.get(cell, last)) + 1
        assert c.interval is not None
        assert c.interval.confidence == pytest.approx(look_confidence(0.95, look))


def test_the_baseline_and_its_copy_leave_with_the_last_of_a_workload(run: RunFolder) -> None:
    left = left_after(run)
    for workload in (w.key for w in WORKLOADS):
        others = [left.get((e.key, workload)) for e in (CONTAINER, LXC, VM)]
        ends = {left.get((e.key, workload)) for e in (NATIVE, AGAIN)}
        assert ends == ({None} if None in others else {max(b for b in others if b)})


def test_a_block_without_those_that_left_is_complete(run: RunFolder) -> None:
    last = max(trial.block for trial in run.trials)
    assert run.complete_blocks == tuple(range(last + 1))
    assert len([t for t in run.trials if t.block == last]) < len(ENVIRONMENTS) * len(WORKLOADS)


def test_between_two_looks_it_is_judged_as_at_the_next(run: RunFolder, tmp_path: Path) -> None:
    folder = until(run, tmp_path / "cut", 9)
    left = left_after(run)
    for cell, c in by_cell(overhead.analyse(folder)).items():
        assert c.interval is not None
        look = 1 if left.get(cell) == 6 else 2
        assert c.interval.confidence == pytest.approx(look_confidence(0.95, look))
        assert c.pairs == (6 if look == 1 else 9)


def test_who_never_gave_a_figure_holds_up_nobody(tmp_path: Path) -> None:
    workload = WORKLOADS[0]
    failures = [(block, VM.key, workload.key) for block in range(12)]
    folder = raced(tmp_path / "run", (6, 12), noise_sd=0.005, failures=failures)
    assert left_after(folder)[VM.key, workload.key] == 6
    assert by_cell(overhead.analyse(folder))[VM.key, workload.key].verdict is None


NOISY: Final[dict[str, Any]] = {"noise_sd": 0.2, "failures": ()}


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """So noisy that hardly anything can be shown of what differs little."""
    path = tmp_path_factory.mktemp("hasty") / "run"
    return raced(path, LOOKS, verdicts="likely", **NOISY)


def test_what_will_hardly_get_a_verdict_leaves_and_says_what_it_said(
    hasty: RunFolder, tmp_path: Path
) -> None:
    undecided = {
        (cell.environment, cell.workload): look.blocks
        for look in hasty.judged
        for cell in look.left
        if cell.undecided
    }
    assert undecided and min(undecided.values()) < LOOKS[-1]
    final = by_cell(overhead.analyse(hasty))
    for look in hasty.judged[:-1]:
        then = by_cell(overhead.analyse(until(hasty, tmp_path / str(look.blocks), look.blocks)))
        for cell, blocks in undecided.items():
            if blocks <= look.blocks:
                assert (final[cell], final[cell].verdict) == (then[cell], "inconclusive")
                assert final[cell].pairs == blocks


def test_it_makes_no_claim_that_waiting_would_not_have_made(
    hasty: RunFolder, tmp_path: Path
) -> None:
    patient = raced(tmp_path / "run", LOOKS, **NOISY)
    claimed = {c.environment + c.workload for c in claims_of(hasty)}
    assert claimed <= {c.environment + c.workload for c in claims_of(patient)}
    assert len(hasty.trials) < 0.7 * len(patient.trials)


def claims_of(folder: RunFolder) -> list[Comparison]:
    return [c for c in overhead.analyse(folder).primary() if c.verdict in racing.DECIDED]


def test_without_a_race_there_are_no_looks(tmp_path: Path) -> None:
    folder = RunFolder.open(make_run(tmp_path / "run", raw=False, **CALM))
    for c in overhead.analyse(folder).primary():
        assert c.interval is None or c.interval.confidence == 0.95
