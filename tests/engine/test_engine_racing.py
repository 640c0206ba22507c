"""Cells that are decided leave a run on real native instances: order, folder, kill, resumption."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.enginekit import Quiet, prepare
from ullage.analysis import overhead
from ullage.engine.engine import Engine
from ullage.engine.progress import RunOutcome
from ullage.plan import matrix, schema
from ullage.runs.events import BlockDone, CellLeft, Judged, Recalled, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import JOURNAL, RESOLVED

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]

RACE = "{{min: {least}, max: {most}, until: {{verdicts: {verdicts}}}}}"
TWO = ['name: command, as: hard, argv: ["true"]', 'name: command, as: easy, argv: ["true"]']
CELLS = {(e, w) for e in ("native", "native~again", "other") for w in ("hard", "easy")}
EASY = {(e, "easy") for e in ("native", "native~again", "other")}
Judge = Callable[[RunFolder], tuple[CellLeft, ...]]


def cells(*pairs: tuple[str, str]) -> tuple[CellLeft, ...]:
    return tuple(CellLeft(environment=e, workload=w) for e, w in sorted(pairs))


def undecided(*pairs: tuple[str, str]) -> tuple[CellLeft, ...]:
    return tuple(cell.model_copy(update={"undecided": True}) for cell in cells(*pairs))


def easy_first(folder: RunFolder) -> tuple[CellLeft, ...]:
    """`easy` is decided at the first look, `hard` at the second."""
    return cells(*EASY) if not folder.judged else cells(*CELLS - EASY)


def never(folder: RunFolder) -> tuple[CellLeft, ...]:
    return ()


def ran(folder: RunFolder, block: int) -> set[tuple[str, str]]:
    return {(t.environment, t.workload) for t in folder.trials if t.block == block}


def race(root: Path, judge: Judge, least: int = 6, most: int = 24, extra: str = "") -> Engine:
    blocks = RACE.format(least=least, most=most, verdicts="all")
    checked, planned, folder = prepare(root, TWO, blocks=blocks, extra=extra)
    return Engine(checked, planned, folder, Quiet(), judge=judge)


def again(earlier: Engine, judge: Judge, most: int | None = None) -> tuple[RunOutcome, RunFolder]:
    """Take it up, perhaps with other most blocks."""
    text = earlier.plan.model_dump_json(exclude_defaults=True)
    if most is not None:
        text = text.replace(f'"max":{earlier.plan.blocks.max}', f'"max":{most}')
    checked, document = schema.loads(text)
    planned = matrix.resolve(checked, document)
    engine = Engine(checked, planned, earlier.folder, Quiet(), resume=True, judge=judge)
    return asyncio.run(engine.run()), RunFolder.open(earlier.folder)


def test_what_is_decided_is_in_no_later_block(tmp_path: Path) -> None:
    engine = race(tmp_path, easy_first)
    outcome = asyncio.run(engine.run())
    folder = RunFolder.open(engine.folder)
    assert (outcome.reason, outcome.blocks) == ("verdicts", 12)
    assert [look.blocks for look in folder.judged] == [6, 12]
    for block in range(12):
        assert ran(folder, block) == (CELLS if block < 6 else CELLS - EASY)
    assert folder.complete_blocks == tuple(range(12))
    assert {trial.status for trial in folder.trials} == {"ok"}


def test_it_is_judged_at_doubling_blocks_and_at_the_end(tmp_path: Path) -> None:
    looks: list[int] = []

    def counting(folder: RunFolder) -> tuple[CellLeft, ...]:
        looks.append(len(folder.blocks))
        return ()

    outcome = asyncio.run(race(tmp_path, counting, most=15).run())
    assert (outcome.reason, outcome.blocks) == ("blocks", 15)
    assert looks == [6, 12, 15]


def test_nothing_is_judged_before_a_verdict_can_come(tmp_path: Path) -> None:
    engine = race(tmp_path, never, least=2, most=7)
    asyncio.run(engine.run())
    assert [look.blocks for look in RunFolder.open(engine.folder).judged] == [6, 7]


def test_generations_are_what_is_counted(tmp_path: Path) -> None:
    engine = race(tmp_path, easy_first, least=2, most=24, extra="repeat: {instances: 2}\n")
    outcome = asyncio.run(engine.run())
    folder = RunFolder.open(engine.folder)
    assert [look.blocks for look in folder.judged] == [12, 24], "six generations of two blocks"
    assert (outcome.reason, outcome.blocks) == ("verdicts", 24)
    assert ran(folder, 12) == CELLS - EASY


def test_of_a_duet_the_pair_leaves(tmp_path: Path) -> None:
    def other_first(folder: RunFolder) -> tuple[CellLeft, ...]:
        return cells(("other", "easy")) if not folder.judged else ()

    engine = race(tmp_path, other_first, most=8, extra="design: duet\n")
    asyncio.run(engine.run())
    folder = RunFolder.open(engine.folder)
    pairs = {
        (t.environment, t.partner) for t in folder.trials if (t.block, t.workload) == (7, "easy")
    }
    assert pairs == {("native", "native~again"), ("native~again", "native")}
    assert folder.complete_blocks == tuple(range(8))


@pytest.mark.parametrize("last", ["block 5", "judged 6", "trial of block 6", "block 11"])
def test_killed_anywhere_near_a_look_it_goes_on_as_if_it_had_not_been(
    tmp_path: Path, last: str
) -> None:
    """`kill -9` leaves the journal up to some line; the rest of the run must be the same."""
    engine = race(tmp_path, easy_first)
    asyncio.run(engine.run())
    whole = RunFolder.open(engine.folder)

    def ends(event: object) -> bool:
        match event:
            case BlockDone(block=number):
                return last == f"block {number}"
            case Judged(blocks=number):
                return last == f"judged {number}"
            case Trial(block=number):
                return last == f"trial of block {number}"
        return False

    kept = 1 + next(i for i, event in enumerate(whole.events) if ends(event))
    file = engine.folder / JOURNAL
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:kept]))
    outcome, folder = again(engine, easy_first)
    assert (outcome.reason, outcome.blocks) == ("verdicts", 12)
    assert [(look.blocks, look.left) for look in folder.judged] == [
        (look.blocks, look.left) for look in whole.judged
    ]
    plain = [(t.trial, t.environment, t.workload) for t in folder.trials]
    assert plain == [(t.trial, t.environment, t.workload) for t in whole.trials]


def test_who_has_left_stays_away_when_more_blocks_are_allowed(tmp_path: Path) -> None:
    def only_easy(folder: RunFolder) -> tuple[CellLeft, ...]:
        return cells(*EASY) if not folder.judged else ()

    engine = race(tmp_path, only_easy, most=8)
    assert asyncio.run(engine.run()).reason == "blocks"
    outcome, folder = again(engine, only_easy, most=13)
    assert (outcome.reason, outcome.blocks) == ("blocks", 13)
    assert [look.blocks for look in folder.judged] == [6, 8, 12, 13]
    assert ran(folder, 12) == CELLS - EASY


def test_a_run_that_is_decided_is_over_whatever_is_allowed(tmp_path: Path) -> None:
    engine = race(tmp_path, easy_first)
    asyncio.run(engine.run())
    before = (engine.folder / JOURNAL).read_bytes()
    outcome, _ = again(engine, easy_first, most=48)
    assert outcome.reason == "verdicts"
    assert (engine.folder / JOURNAL).read_bytes() == before


@pytest.mark.parametrize("ends", ["verdicts", "blocks"])
def test_what_left_without_a_verdict_comes_back_with_more_blocks(tmp_path: Path, ends: str) -> None:
    """And all that it needs; blocks that were made without it stay as they are."""

    def easy_decided(folder: RunFolder) -> tuple[CellLeft, ...]:
        if folder.judged:
            return ()
        hard = (*undecided(("other", "hard")), *cells(*CELLS - EASY - {("other", "hard")}))
        return (*cells(*EASY), *hard) if ends == "verdicts" else (*hard,)

    engine = race(tmp_path, easy_decided, most=8)
    outcome = asyncio.run(engine.run())
    assert (outcome.reason, outcome.blocks) == (ends, 6 if ends == "verdicts" else 8)
    begun = outcome.blocks
    outcome, folder = again(engine, never, most=13)
    assert (outcome.reason, outcome.blocks) == ("blocks", 13)
    (recalled,) = (event for event in folder.moves if isinstance(event, Recalled))
    assert recalled.blocks == begun
    assert {(c.environment, c.workload) for c in recalled.cells} == CELLS - EASY
    for block in range(6, 13):
        there = set() if ends == "verdicts" else EASY
        assert ran(folder, block) == there | (CELLS - EASY if block >= begun else set())
    assert folder.complete_blocks == tuple(range(13))


def test_killed_right_after_it_was_called_back_it_is_still_there(tmp_path: Path) -> None:
    engine = race(tmp_path, lambda _: undecided(*CELLS), most=8)
    assert asyncio.run(engine.run()).blocks == 6
    before = (engine.folder / RESOLVED).read_bytes()
    again(engine, never, most=9)
    file = engine.folder / JOURNAL
    lines = file.read_bytes().splitlines(keepends=True)
    kept = 1 + next(i for i, line in enumerate(lines) if b'"event":"recalled"' in line)
    file.write_bytes(b"".join(lines[:kept]))
    (engine.folder / RESOLVED).write_bytes(before)
    outcome, folder = again(engine, never, most=9)
    assert (outcome.reason, outcome.blocks) == ("blocks", 9)
    assert ran(folder, 8) == CELLS
    assert sum(isinstance(event, Recalled) for event in folder.moves) == 1


def test_what_left_without_a_verdict_stays_away_with_as_many_blocks(tmp_path: Path) -> None:
    def all_unlikely(folder: RunFolder) -> tuple[CellLeft, ...]:
        return undecided(*CELLS)

    engine = race(tmp_path, all_unlikely, most=8)
    assert asyncio.run(engine.run()).reason == "verdicts"
    before = (engine.folder / JOURNAL).read_bytes()
    assert again(engine, never)[0].reason == "verdicts"
    assert (engine.folder / JOURNAL).read_bytes() == before


def test_equal_environments_end_a_run_early_by_the_analysis_itself(tmp_path: Path) -> None:
    """Of two sleeps of equal length nothing can be shown in so few blocks, and that is seen."""
    script = "sleep 0.0$(shuf -i 10-90 -n 1)"
    workload = f'name: command, argv: ["sh", "-c", "{script}"]'
    blocks = RACE.format(least=6, most=12, verdicts="likely")
    checked, planned, path = prepare(tmp_path, [workload], blocks=blocks)
    asyncio.run(Engine(checked, planned, path, Quiet(), judge=overhead.leaving).run())
    folder = RunFolder.open(path)
    (comparison,) = overhead.analyse(folder).primary()
    assert comparison.verdict == "inconclusive"
    assert comparison.pairs == folder.judged[-1].blocks


def test_a_race_without_a_judge_is_refused(tmp_path: Path) -> None:
    checked, planned, folder = prepare(
        tmp_path, TWO, blocks=RACE.format(least=6, most=8, verdicts="all")
    )
    with pytest.raises(ValueError, match="judges"):
        Engine(checked, planned, folder, Quiet())


def test_a_large_difference_ends_a_run_by_the_analysis_itself(tmp_path: Path) -> None:
    """And read from the folder alone the answer is the one that it ended by."""
    script = "case $PWD in *other*) sleep 1.2;; *) sleep 0.03;; esac"
    workload = f'name: command, argv: ["sh", "-c", "{script}"]'
    blocks = RACE.format(least=6, most=96, verdicts="all")
    checked, planned, path = prepare(tmp_path, [workload], blocks=blocks)
    outcome = asyncio.run(Engine(checked, planned, path, Quiet(), judge=overhead.leaving).run())
    folder = RunFolder.open(path)
    (comparison,) = overhead.analyse(folder).primary()
    assert outcome.reason == "verdicts"
    assert (comparison.verdict, comparison.pairs) == ("worse", folder.judged[-1].blocks)
    assert comparison.interval is not None
    assert math.isclose(comparison.interval.confidence, 1 - 0.05 / 2) or outcome.blocks > 6
