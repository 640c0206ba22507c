"""The new program judged by the old one that ran beside it, in the blocks of one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.analysis.gate import Gate, GateFigure, judge, judge_pairs, pair_keys
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.gate import MOST_LOOKS, until_shown
from ullage.runs.events import BlockDone, Event, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import WorkloadRecord

NATIVE, AGAIN = ENVIRONMENTS[:2]
PAIR = {"new": "old"}
LINE = 0.03
gate_command = commandkit.in_this_process("gate")


def program(name: str) -> WorkloadRecord:
    names = {"key": name, "name": name, "title": name}
    return WORKLOADS[0].model_copy(update=names)


def run(
    path: Path, *, slower: float = 1.0, blocks: int = 24, again: bool = True, drift: float = 0.0
) -> RunFolder:
    folder = make_run(
        path,
        seed=3,
        blocks=blocks,
        environments=(NATIVE, AGAIN) if again else (NATIVE,),
        workloads=(program("old"), program("new")),
        truth={(e.key, "new"): slower for e in ENVIRONMENTS},
        noise_sd=0.02,
        drift=drift,
        failures=(),
        raw=False,
    )
    return RunFolder.open(folder)


def figure_of(gate: Gate) -> GateFigure:
    (figure,) = gate.figures
    return figure


@pytest.mark.parametrize(("slower", "outcome"), [(1.0, "within"), (1.2, "worse"), (0.8, "within")])
def test_what_became_slower_is_worse(tmp_path: Path, slower: float, outcome: str) -> None:
    gate = judge_pairs(run(tmp_path / "run", slower=slower), PAIR, LINE)
    figure = figure_of(gate)
    assert (gate.outcome, figure.outcome) == (outcome, outcome)
    assert (figure.environment, figure.workload, figure.metric) == ("native", "new", "events_rate")
    assert figure.ratio is not None
    assert figure.ratio.estimate == pytest.approx(slower, rel=0.02)
    assert (figure.ratio.method, figure.ratio.n) == ("paired t", 24)
    assert (gate.pairs, gate.baselines, gate.notes) == (PAIR, (), ())


def test_an_hour_that_slows_both_is_no_regression(tmp_path: Path) -> None:
    """It becomes three times as slow on the way, and by a run of before it would be judged."""
    slowing = run(tmp_path / "slowing", drift=0.05)
    assert judge_pairs(slowing, PAIR, LINE).outcome == "within"
    by_a_baseline = judge(slowing, [run(tmp_path / "steady")], LINE).figures
    assert all(figure.ratio is not None and figure.ratio.estimate > 1.5 for figure in by_a_baseline)


def test_the_second_copy_takes_noise_out(tmp_path: Path) -> None:
    """The baseline runs twice in each block: both are pairs, and one value."""
    twice, once = (
        figure_of(judge_pairs(run(tmp_path / f"{again}", again=again), PAIR, LINE)).ratio
        for again in (True, False)
    )
    assert twice is not None and once is not None
    assert twice.n == once.n == 24
    assert twice.high - twice.low < 0.85 * (once.high - once.low)


def without(folder: RunFolder, workload: str, blocks: int) -> RunFolder:
    """So many of its blocks lost that workload's figures."""

    def event(old: Event) -> Event:
        if isinstance(old, Trial) and old.workload == workload and old.block < blocks:
            return old.model_copy(update={"status": "failed"})
        return old

    return replace(folder, events=tuple(map(event, folder.events)))


def test_lost_figures_are_the_new_program_s_fault_unless_the_old_one_lost_them_too(
    tmp_path: Path,
) -> None:
    whole = run(tmp_path / "run")
    lost = figure_of(judge_pairs(without(whole, "new", 6), PAIR, LINE))
    assert (lost.outcome, lost.reason) == ("failed", "12 of 48 trials gave no figure")
    both = figure_of(judge_pairs(without(without(whole, "new", 6), "old", 6), PAIR, LINE))
    assert (both.outcome, both.baseline_limits) == ("inconclusive", True)
    more = figure_of(judge_pairs(without(without(whole, "new", 24), "old", 6), PAIR, LINE))
    assert (more.outcome, more.reason) == (
        "failed",
        "48 of 48 trials gave no figure, and 12 of 48 before",
    )
    old = figure_of(judge_pairs(without(whole, "old", 6), PAIR, LINE))
    assert old.outcome == "inconclusive"
    assert old.reason == "in 12 of 48 trials the old program gave no figure"


def test_few_blocks_decide_nothing(tmp_path: Path) -> None:
    figure = figure_of(judge_pairs(run(tmp_path / "run", slower=2.0, blocks=5), PAIR, LINE))
    assert figure.reason == "5 blocks, and at least 6 are needed"
    assert not figure.baseline_limits


def test_factors_are_paired_with_their_like() -> None:
    keys = [(f"{name}[threads={n}]", name) for name in ("old", "new") for n in (1, 2)]
    assert pair_keys(keys, PAIR, Path("plan.yaml")) == {
        "new[threads=1]": "old[threads=1]",
        "new[threads=2]": "old[threads=2]",
    }


@pytest.mark.parametrize("pair", [{"new": "odl"}, {"wen": "old"}, {"new": "new"}])
def test_a_pair_that_is_not_there_is_refused(tmp_path: Path, pair: dict[str, str]) -> None:
    with pytest.raises(UllageError) as refusal:
        judge_pairs(run(tmp_path / "run", blocks=6), pair, LINE)
    assert refusal.value.kind is errors.GATE_NO_PAIR


def test_programs_of_other_figures_are_refused(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", blocks=6)
    old, new = folder.resolved.workloads
    others = (old.model_copy(update={"metrics": WORKLOADS[1].metrics}), new)
    resolved = folder.resolved.model_copy(update={"workloads": others})
    with pytest.raises(UllageError) as refusal:
        judge_pairs(replace(folder, resolved=resolved), PAIR, LINE)
    assert refusal.value.kind is errors.GATE_NOTHING


def test_the_command_says_what_it_is_slower_than(
    tmp_path: Path, gate_command: Callable[..., Done]
) -> None:
    slow = run(tmp_path / "slow", slower=1.2).path
    line = ("--pair", "new=old", "--worse-than", "3%")
    failed = gate_command("compare", str(slow), *line)
    assert failed.code == 1
    assert "Failed. events rate of new in native is 1.2" in failed.stdout
    assert "times as slow as old (" in failed.stdout
    assert json.loads(gate_command("compare", str(slow), *line, "--json").stdout)["pairs"] == PAIR
    same = gate_command("compare", str(run(tmp_path / "same").path), *line)
    assert same.code == 0
    assert "shown to be less than 3 % worse than the old one beside it" in same.stdout


def test_a_line_of_0_fails_whatever_is_worse(
    tmp_path: Path, gate_command: Callable[..., Done]
) -> None:
    slow, same = (run(tmp_path / name, slower=x).path for name, x in (("a", 1.03), ("b", 1.0)))
    line = ("--pair", "new=old", "--worse-than", "0%", "--inconclusive", "pass")
    failed = gate_command("compare", str(slow), *line)
    assert failed.code == 1
    assert failed.stdout.splitlines()[0].endswith("shown to be worse.")
    assert gate_command("compare", str(same), *line).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "a", "b", "--pair", "new=old"), "--pair is of one run"),
        (("compare", "a", "--pair", "new"), "is not NEW=OLD"),
        (("compare", "a", "--pair", "new=old", "--reference", "old"), "--reference"),
        (("run", "plan.yaml"), "either --baseline"),
        (("run", "plan.yaml", "--pair", "new=old", "--baseline", "a"), "either --baseline"),
    ],
)
def test_bad_input(
    gate_command: Callable[..., Done], arguments: tuple[str, ...], message: str
) -> None:
    done = gate_command(*arguments, "--worse-than", "3%")
    assert done.code == 2
    assert message in done.stderr


def first_blocks(folder: RunFolder, blocks: int) -> RunFolder:
    events = [e for e in folder.events if not isinstance(e, Trial | BlockDone) or e.block < blocks]
    return replace(folder, events=tuple(events))


def test_looks_end_when_no_block_fits_any_more(tmp_path: Path) -> None:
    """A look costs a part of the error rates, so one at the same blocks would only lose."""
    whole = run(tmp_path / "run", slower=1.03)
    looks: list[tuple[int, int]] = []

    def judged(folder: RunFolder, look: int) -> Gate:
        looks.append((look, len(folder.complete_blocks)))
        return judge_pairs(folder, PAIR, LINE, look=look)

    def more(folder: RunFolder, most: int, left_s: float) -> RunFolder:
        return first_blocks(whole, min(most, 20))

    gate = until_shown(first_blocks(whole, 6), judged, more, 600.0)
    assert gate is not None and gate.outcome == "inconclusive"
    assert looks == [(1, 6), (2, 12), (3, 20)]
    assert len(looks) < MOST_LOOKS
