"""What an earlier run teaches of a plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from ullage.engine import resolved as records
from ullage.engine.pilot import as_plan, comparisons, learn, newest, suggest
from ullage.plan import matrix, schema
from ullage.plan.matrix import Matrix
from ullage.plan.schedule import Slot
from ullage.plan.schema import Plan
from ullage.runs.events import BlockDone, CellLeft, Event, Finished, Judged, Started, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Resolved

PLAN = """\
name: small
baseline: native
image: host
environments:
  native: {provider: native}
  other: {provider: native}
workloads:
  - {name: command, argv: [sleep, "1"]}
"""
SECOND = 1_000_000_000


def planned(more: str = "", text: str = PLAN) -> tuple[Plan, Matrix]:
    checked, document = schema.loads(text + more)
    return checked, matrix.resolve(checked, document)


@dataclass
class SyntheticRun:
    """A run with known deviations at each level of the log-ratio, and known seconds."""

    generations: int = 1
    blocks: int = 8
    """In each generation."""
    iterations: int = 1
    deviations: tuple[float, float, float] = (0.0, 0.05, 0.0)
    renewal_s: float = 40.0
    work_s: float = 2.0
    rest_s: float = 0.5
    """Of a block, beside its trials' work."""
    failed: tuple[int, ...] = ()
    """Blocks in which `other` gives no figure."""
    finished: bool = True
    paused: int | None = None
    """The controller was stopped for a day before this block."""
    seed: int = 5
    plan: str = ""
    """More lines of it."""
    text: str = PLAN

    def folder(self, path: Path = Path("20261121T000000-small")) -> RunFolder:
        checked, cells = planned(self.plan, self.text)
        resolved = Resolved(
            ullage="0",
            run=path.name,
            tag="t",
            name=checked.name,
            seed=1,
            baseline=cells.baseline,
            confidence=checked.confidence,
            margin=checked.margin,
            resources=checked.resources.model_dump(),
            blocks=checked.blocks.model_dump(),
            repeat={"instances": self.blocks, "iterations": self.iterations},
            design=checked.design,
            environments=tuple(
                records.environment(environment, cells, None) for environment in cells.environments
            ),
            workloads=tuple(records.workload(case) for case in cells.cases),
        )
        return RunFolder(path, resolved, tuple(self._events(cells)), truncated=False)

    def write(self, path: Path) -> Path:
        folder = self.folder(path)
        path.mkdir(parents=True)
        (path / "resolved.json").write_text(folder.resolved.model_dump_json())
        lines = [event.model_dump_json() for event in folder.events]
        (path / "journal.jsonl").write_text("\n".join([*lines, ""]))
        return path

    def _events(self, cells: Matrix) -> Iterator[Event]:
        rng = np.random.default_rng(self.seed)
        top, middle, low = self.deviations
        now = SECOND
        yield self._started(now)
        for generation in range(self.generations):
            base = top * rng.standard_normal()
            for i in range(self.blocks):
                number = generation * self.blocks + i
                if number == self.paused:
                    now += 86_400 * SECOND
                    yield self._started(now)
                began = now
                now += round(self.renewal_s * SECOND) if generation and i == 0 else 0
                mean = base + middle * rng.standard_normal()
                ratios = mean + low * rng.standard_normal(self.iterations)
                for turn in cells.turns(1, number):
                    for slot in turn:
                        yield self._trial(slot, generation, now, cells, ratios)
                    now += round(self.work_s * self.iterations * SECOND)
                now += round(self.rest_s * SECOND)
                seconds = (now - began) / SECOND
                yield BlockDone(block=number, epoch_ns=now, seconds=seconds)
        if self.finished:
            yield Finished(epoch_ns=now, seconds=1.0, reason="blocks")

    def _trial(
        self, slot: Slot, generation: int, now: int, cells: Matrix, ratios: NDArray[np.float64]
    ) -> Trial:
        name = cells.cases[0].workload.metrics[0].name
        lost = slot.environment == "other" and slot.block in self.failed
        slow = np.exp(ratios) if slot.environment == "other" else np.ones(self.iterations)
        several = self.iterations > 1 and not lost
        return Trial(
            trial=slot.trial,
            block=slot.block,
            order=slot.order,
            position=slot.position,
            environment=slot.environment,
            workload=slot.workload,
            generation=generation,
            partner=slot.partner,
            side=slot.side,
            status="failed" if lost else "ok",
            epoch_ns=now,
            start_ns=now,
            end_ns=now + round(self.work_s * self.iterations * SECOND),
            metrics={} if lost else {name: float(np.mean(slow))},
            iterations=tuple({name: float(seconds)} for seconds in slow) if several else (),
        )

    def _started(self, now: int) -> Started:
        return Started(epoch_ns=now, start_ns=0, pid=1, tag="t", resumed=now > SECOND, boot_id="b")


def test_the_family_is_every_primary_metric_of_every_other_environment() -> None:
    _, cells = planned("again: [other]\n")
    assert [comparison.key for comparison in comparisons(cells)] == ["other/command/seconds"]


def test_the_levels_are_told_apart() -> None:
    generated = SyntheticRun(60, 5, 4, deviations=(0.2, 0.1, 0.05))
    (spread,) = learn(generated.folder(), *planned()).spreads.values()
    deviations = [math.sqrt(v) for v in spread.components.variances]
    # Degrees of freedom: 59, 240 and 900; the error of a deviation is 1/√(2·df) of it.
    assert deviations == pytest.approx([0.2, 0.1, 0.05], rel=0.28)
    assert deviations[1:] == pytest.approx([0.1, 0.05], rel=0.14)
    assert (spread.pairs, spread.generations, spread.generation_known) == (300, 60, True)
    unit = math.sqrt(deviations[0] ** 2 + (deviations[1] ** 2 + deviations[2] ** 2 / 2) / 3)
    assert spread.unit(3, 2) == pytest.approx(unit)
    assert spread.unit(None, 1) == pytest.approx(math.hypot(deviations[1], deviations[2]))


def test_what_the_pilot_cannot_tell_apart_is_not_hoped_to_average_out() -> None:
    single = learn(SyntheticRun(1, 30, 1, (0, 0.05, 0)).folder(), *planned()).spreads
    (spread,) = single.values()
    assert not spread.generation_known
    assert spread.unit(None, 10) == spread.unit(None, 1) == pytest.approx(0.05, rel=0.3)
    (spread,) = learn(SyntheticRun(30, 1, 1, (0.05, 0, 0)).folder(), *planned()).spreads.values()
    assert spread.unit(None, 1) == pytest.approx(0.05, rel=0.3)
    assert spread.unit(10, 1) == spread.unit(1, 1)
    assert spread.degrees(None) == spread.degrees(2) == 29


def test_the_spread_is_that_of_the_pairs() -> None:
    folder = SyntheticRun(1, 12).folder()
    name = folder.resolved.workloads[0].metrics[0].name
    figures = [t.metrics[name] for t in folder.trials if t.environment == "other"]
    (spread,) = learn(folder, *planned()).spreads.values()
    assert spread.unit(None, 1) == pytest.approx(np.std(np.log(figures), ddof=1))
    assert spread.degrees(None) == 11


def test_a_failed_trial_is_no_pair() -> None:
    for iterations in (1, 3):
        generated = SyntheticRun(1, 6, iterations, failed=(1, 4))
        (spread,) = learn(generated.folder(), *planned()).spreads.values()
        assert spread.pairs == 4
    assert learn(SyntheticRun(1, 3, failed=(0, 1)).folder(), *planned()).spreads == {}


def test_what_each_level_costs() -> None:
    costs = learn(SyntheticRun(4, 3, 5).folder(), *planned()).costs
    assert costs is not None
    # native, native~again and other: three trials of 2 s each a time.
    assert (costs.generation, costs.block, costs.iteration) == pytest.approx((40.0, 0.5, 6.0))
    once = learn(SyntheticRun(1, 3).folder(), *planned()).costs
    assert once is not None
    assert once.generation is None


def test_a_pause_is_no_cost() -> None:
    generated = SyntheticRun(3, 2, paused=2)
    costs = learn(generated.folder(), *planned()).costs
    assert costs is not None
    assert costs.generation == pytest.approx(40.0)


def test_the_two_of_a_duet_cost_their_time_once() -> None:
    costs = learn(
        SyntheticRun(1, 4, plan="design: duet\n").folder(), *planned("design: duet\n")
    ).costs
    assert costs is not None
    assert costs.iteration == pytest.approx(4.0)


def test_a_duet_is_no_pilot_of_a_solo_run() -> None:
    duet = SyntheticRun(1, 8, plan="design: duet\n").folder()
    assert learn(duet, *planned()).spreads == {}
    assert len(learn(duet, *planned("design: duet\n")).spreads) == 1


def test_what_was_not_the_same_is_named() -> None:
    changed = PLAN.replace('[sleep, "1"]', '[sleep, "2"]')
    assert learn(SyntheticRun().folder(), *planned()).differs == ()
    assert learn(SyntheticRun().folder(), *planned(text=changed)).differs == ("command",)


def test_a_run_without_blocks_teaches_nothing() -> None:
    empty = SyntheticRun(0, 0).folder()
    pilot_ = learn(empty, *planned())
    assert (pilot_.spreads, pilot_.costs) == ({}, None)
    assert suggest(pilot_, planned()[0]) is None


def test_the_newest_finished_run_of_the_same_plan(tmp_path: Path) -> None:
    checked, cells = planned()
    assert newest(tmp_path, checked, cells) is None
    good = SyntheticRun(seed=1).write(tmp_path / "20261121T000001-small")
    SyntheticRun(seed=2, finished=False).write(tmp_path / "20261121T000002-small")
    SyntheticRun(seed=3, plan="design: duet\n").write(tmp_path / "20261121T000003-small")
    SyntheticRun(seed=4).write(tmp_path / "20261121T000004-otherwise")
    broken = SyntheticRun(seed=5).write(tmp_path / "20261121T000005-small")
    (broken / "journal.jsonl").write_text("no json\n")
    found_folder = newest(tmp_path, checked, cells)
    assert found_folder is not None
    assert found_folder.path == good
    longer = planned(text=PLAN.replace('[sleep, "1"]', '[sleep, "2"]'))
    assert newest(tmp_path, *longer) is None


def test_the_suggestion_is_the_optimum_of_the_costs_and_spreads() -> None:
    """40 s a generation, 0.5 s a block, 6 s an iteration."""
    generated = SyntheticRun(200, 4, 4, deviations=(0.05, 0.1, 0.1))
    pilot_ = learn(generated.folder(), *planned())
    suggestion = suggest(pilot_, planned()[0])
    assert suggestion is not None
    # A block repeats its work once: √(0.5/6) < 1; then √(40/6.5 · 0.02/0.0025) = 7.02.
    assert suggestion.iterations == 1
    assert suggestion.blocks_each in (7, 8)
    assert suggestion.comparison == "other/command/seconds"


def test_dear_blocks_are_worth_several_iterations() -> None:
    generated = SyntheticRun(200, 4, 4, deviations=(0.05, 0.05, 0.1), rest_s=54.0)
    suggestion = suggest(learn(generated.folder(), *planned()), planned()[0])
    assert suggestion is not None
    # √(54/6 · 0.01/0.0025) = 6; √(40/54) < 1: as many generations as blocks.
    assert suggestion.blocks_each == 1
    assert suggestion.iterations is not None
    assert 5 <= suggestion.iterations <= 7


def test_one_level_gives_no_suggestion_and_two_give_theirs() -> None:
    checked, cells = planned()
    assert suggest(learn(SyntheticRun(1, 8, 1).folder(), checked, cells), checked) is None
    inside = suggest(
        learn(SyntheticRun(1, 40, 5, (0, 0.02, 0.1)).folder(), checked, cells), checked
    )
    assert inside is not None
    assert inside.blocks_each is None
    assert inside.iterations is not None
    between = suggest(
        learn(SyntheticRun(60, 4, 1, (0.05, 0.1, 0)).folder(), checked, cells), checked
    )
    assert between is not None
    assert between.iterations is None
    assert between.blocks_each is not None


def test_generations_that_add_nothing_are_not_asked_for() -> None:
    generated = SyntheticRun(12, 6, 1, deviations=(0.0, 0.1, 0.0))
    pilot_ = learn(generated.folder(), *planned())
    (spread,) = pilot_.spreads.values()
    assert spread.components.raw[0] is not None
    assert spread.components.raw[0] < 0, "the seed was chosen so"
    suggestion = suggest(pilot_, planned()[0])
    assert suggestion is not None
    assert suggestion.blocks_each is None


def test_a_suggestion_goes_no_further_than_the_pilot_bears() -> None:
    """Two iterations whose blocks added nothing once suggested a thousand of them."""
    checked, cells = planned()
    nothing = suggest(
        learn(SyntheticRun(1, 12, 2, (0, 0, 0.1), seed=1).folder(), checked, cells), checked
    )
    assert nothing is not None
    assert nothing.iterations is None or nothing.iterations <= 20
    little = learn(SyntheticRun(1, 200, 2, (0, 0.001, 0.3)).folder(), checked, cells)
    suggestion = suggest(little, checked)
    assert suggestion is not None
    assert suggestion.iterations is None or suggestion.iterations <= 20


def test_the_suggestion_can_be_pasted() -> None:
    checked, cells = planned("blocks: {min: 4, max: 50, until: {half_width: 2.5%}, budget: 10m}\n")
    pilot_ = learn(SyntheticRun(200, 4, 4, (0.05, 0.1, 0.1)).folder(), checked, cells)
    suggestion = suggest(pilot_, checked)
    assert suggestion is not None
    every = suggestion.blocks_each
    assert every is not None
    lines = as_plan(suggestion, checked)
    pasted, _ = planned("\n".join(lines) + "\n")
    assert pasted.repeat.instances == every
    assert pasted.blocks.min == 6 * every
    assert pasted.blocks.max == every * math.ceil(50 / every)
    assert pasted.blocks.until == checked.blocks.until
    assert pasted.blocks.budget == checked.blocks.budget
    assert list(yaml.safe_load("\n".join(lines))) == ["repeat", "blocks"]


def test_blocks_from_which_cells_had_left_tell_nothing_of_a_block_s_cost() -> None:
    folder = SyntheticRun(1, 8).folder()
    left = (CellLeft(environment="other", workload="command"),)
    judged = Judged(epoch_ns=1, blocks=5, left=left)
    short = [
        event.model_copy(update={"seconds": 0.1})
        if isinstance(event, BlockDone) and event.block >= 5
        else event
        for event in folder.events
    ]
    raced = replace(folder, events=(*short, judged))
    assert learn(raced, *planned()).costs == learn(folder, *planned()).costs


def test_a_suggestion_for_a_race_is_one() -> None:
    pilot = learn(SyntheticRun(12, 2, 3, deviations=(0.1, 0.05, 0.05)).folder(), *planned())
    plan, _ = planned("blocks: {min: 6, max: 40, until: {verdicts: all}}\n")
    suggestion = suggest(pilot, plan)
    assert suggestion is not None and suggestion.blocks_each is not None
    assert "until: {verdicts: all}" in as_plan(suggestion, plan)[1]
