"""What is forecast of a run before it begins."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_pilot import PLAN, SyntheticRun, planned
from ullage.cli.output import dryrun
from ullage.common.console import stdout
from ullage.runs.reader import RunFolder
from ullage.stats.planning import Aim, outlook
from ullage.stats.stop import StopRule
from ullage.stats.uncertainty import APART

SEVERAL = "repeat: {instances: 2, iterations: 3}\nblocks: {min: 12, max: 24}\n"


@pytest.fixture(autouse=True)
def no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))


class DryRun:
    """What `show` prints of the small plan with `more` in it."""

    def __init__(self, capsys: pytest.CaptureFixture[str], runs: Path) -> None:
        self.capsys, self.runs = capsys, runs

    def text(self, more: str = "", pilot: RunFolder | None = None) -> str:
        dryrun.show(*planned(more), as_json=False, pilot=pilot, runs=self.runs)
        return self.capsys.readouterr().out

    def json(self, more: str = "", pilot: RunFolder | None = None) -> dict[str, Any]:
        dryrun.show(*planned(more), as_json=True, pilot=pilot, runs=self.runs)
        document: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return document


@pytest.fixture
def dry_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> DryRun:
    monkeypatch.setattr(stdout, "width", 300)
    return DryRun(capsys, tmp_path / "runs")


def test_without_a_pilot_it_says_so_and_lets_one_choose(dry_run: DryRun) -> None:
    text = dry_run.text()
    assert "pilot: none, so nothing is known of the spread" in text
    assert [line.split("  ")[0] for line in text.splitlines()[-3:]] == ["1 %", "3 %", "10 %"]
    forecast = dry_run.json()
    assert forecast["pilot"] is None
    assert forecast["comparisons"] == []
    assert [spread["spread"] for spread in forecast["assumed"]] == [0.01, 0.03, 0.1]


def test_every_figure_is_that_of_the_mathematics(dry_run: DryRun) -> None:
    forecast = dry_run.json("blocks: {min: 6, max: 30, until: {half_width: 3%}}\nmargin: 5%\n")
    aim = Aim(StopRule(6, 30, 0.03), margin=0.05, family=1)
    look = outlook(0.03, aim, (6, 30))
    assumed = forecast["assumed"][1]
    assert assumed["reaches"][0]["difference"] == look.reaches[0].difference
    assert assumed["reaches"][1]["half_width"] == look.reaches[1].half_width
    assert assumed["units_for_target"] == look.units_for_target
    assert assumed["units_for_equivalence"] == look.units_for_equivalence
    assert look.units_for_target is not None
    assert assumed["seconds_for_target"] == pytest.approx(
        forecast["provision_s"] + look.units_for_target * forecast["block_s"]
    )
    assert (forecast["family"], forecast["level"]) == (1, pytest.approx(0.05))


def test_the_newest_run_of_the_plan_is_its_pilot(dry_run: DryRun) -> None:
    SyntheticRun(1, 12).write(dry_run.runs / "20261121T000001-small")
    forecast = dry_run.json()
    assert forecast["pilot"]["run"] == "20261121T000001-small"
    (comparison,) = forecast["comparisons"]
    assert comparison["spread"] == pytest.approx(0.05, rel=0.5)
    assert comparison["variances"]["generation"] is None
    assert math.sqrt(comparison["variances"]["block"]) == pytest.approx(comparison["spread"])
    text = dry_run.text()
    assert "pilot: 20261121T000001-small, 12 blocks" in text
    assert "0.71 to 1.7 times" in text, "χ² with 11 degrees of freedom: √(11/21.92), √(11/3.816)"
    assert "other, command, seconds" in text


def test_the_pilot_can_be_named(dry_run: DryRun) -> None:
    SyntheticRun(1, 12).write(dry_run.runs / "20261121T000001-small")
    named = SyntheticRun(1, 30, seed=8).folder(Path("mine"))
    assert dry_run.json(pilot=named)["pilot"]["run"] == "mine"


def test_a_pilot_of_another_design_is_refused_in_words(dry_run: DryRun) -> None:
    text = dry_run.text(pilot=SyntheticRun(1, 8, plan="design: duet\n").folder(Path("mine")))
    assert "mine has no comparison of this plan in the same design" in text
    assert "if the spread is" in text


def test_a_pilot_that_was_not_quite_the_same_is_named(dry_run: DryRun) -> None:
    longer = SyntheticRun(1, 8, text=PLAN.replace('"1"', '"2"')).folder(Path("mine"))
    assert "but not the same there: command" in dry_run.text(pilot=longer)


def test_generations_are_what_counts(dry_run: DryRun) -> None:
    folder = SyntheticRun(12, 2, 3, deviations=(0.05, 0.05, 0.05)).folder()
    forecast = dry_run.json(SEVERAL, folder)
    (comparison,) = forecast["comparisons"]
    assert (forecast["unit"], forecast["blocks_each"]) == ("generation", 2)
    assert [reach["units"] for reach in comparison["reaches"]] == [6, 12]
    parts = [max(0.0, v) for v in comparison["variances"].values()]
    assert comparison["spread"] == pytest.approx(
        math.sqrt(parts[0] + (parts[1] + parts[2] / 3) / 2)
    )
    text = dry_run.text(SEVERAL, folder)
    assert "12 generations find" in text
    assert "spread of a generation" in text


def test_one_generation_is_none(dry_run: DryRun) -> None:
    forecast = dry_run.json("repeat: {instances: 12}\nblocks: {min: 12, max: 12}\n")
    assert (forecast["unit"], forecast["assumed"][0]["reaches"][-1]["units"]) == ("block", 12)


def test_generations_that_the_pilot_did_not_have_are_said_to_be_unknown(dry_run: DryRun) -> None:
    text = dry_run.text(SEVERAL, SyntheticRun(1, 12).folder())
    assert "what making them anew adds is not known" in text


def test_it_says_which_events_it_may_miss(dry_run: DryRun) -> None:
    text = dry_run.text("blocks: {min: 6, max: 40}\n")
    assert "may not happen in any (chance 5 %): 39 % with 6 blocks, 7.2 % with 40 blocks" in text
    document = dry_run.json("blocks: {min: 6, max: 40}\n")
    assert document["unseen_least"] == pytest.approx(1 - 0.05 ** (1 / 6))
    assert document["unseen_most"] == pytest.approx(1 - 0.05 ** (1 / 40))
    assert document["rare"] is None


def test_a_plan_that_asks_for_rare_events(dry_run: DryRun) -> None:
    text = dry_run.text("rare: 2%\n")
    assert "149 blocks" in text
    assert "2 % with 149 blocks; the plan asks for 2 %" in text


def test_too_few_for_a_verdict(dry_run: DryRun) -> None:
    text = dry_run.text("blocks: {min: 1, max: 5}\n")
    assert "5 blocks at most: no verdict comes from under 6" in text
    assert (
        dry_run.json("blocks: {min: 1, max: 5}\n")["assumed"][0]["reaches"][-1]["difference"]
        is None
    )


def test_the_budget_cuts_the_blocks_that_are_reckoned_with(dry_run: DryRun) -> None:
    forecast = dry_run.json("blocks: {min: 6, max: 40, budget: 33s}\n")
    assert 6 < forecast["blocks_reached"] < 40
    assert forecast["assumed"][0]["reaches"][-1]["units"] == forecast["blocks_reached"]
    assert "as many as the budget allows" in dry_run.text("blocks: {max: 40, budget: 33s}\n")


def test_the_suggestion_can_be_pasted(dry_run: DryRun) -> None:
    folder = SyntheticRun(100, 3, 3, deviations=(0.05, 0.1, 0.1)).folder()
    forecast = dry_run.json(SEVERAL, folder)
    lines = forecast["suggestion"]["plan"]
    pasted, _ = planned("\n".join(lines) + "\n")
    assert pasted.repeat.instances == forecast["suggestion"]["blocks_each"]
    text = dry_run.text(SEVERAL, folder)
    assert all(f"    {line}\n" in text for line in lines)
    assert "generation 40 s, block 0.5 s, iteration 6 s" in text


def test_generations_that_add_nothing_are_said_to(dry_run: DryRun) -> None:
    folder = SyntheticRun(12, 6, 1, deviations=(0.0, 0.1, 0.0)).folder()
    assert "added nothing that 12 generations could show" in dry_run.text(SEVERAL, folder)


def test_a_duet_shows_who_runs_beside_whom(dry_run: DryRun) -> None:
    text = dry_run.text("design: duet\n")
    assert "command in other beside native" in text
    order = dry_run.json("design: duet\n")["order"]
    assert sorted(environment for _, environment in order) == [
        "native",
        "native",
        "native~again",
        "other",
    ]


def test_a_duet_reckons_with_a_baseline_of_each_comparisons_own(dry_run: DryRun) -> None:
    more = "blocks: {min: 6, max: 30}\n"
    duet = dry_run.json("design: duet\n" + more)["assumed"][0]["reaches"]
    aim = Aim(StopRule(6, 30, None), margin=0.02, family=1, correlation=APART)
    differences = [reach.difference for reach in outlook(0.01, aim, (6, 30)).reaches]
    assert [reach["difference"] for reach in duet] == differences
    solo = dry_run.json(more)["assumed"][0]["reaches"]
    assert duet[0]["difference"] > solo[0]["difference"]


def test_where_the_run_is_expected_to_end(dry_run: DryRun) -> None:
    more = "blocks: {min: 6, max: 60, until: {half_width: 3%}}\n"
    folder = SyntheticRun(1, 30, deviations=(0, 0.05, 0)).folder()
    forecast = dry_run.json(more, folder)
    (comparison,) = forecast["comparisons"]
    assert forecast["expected_units"] == comparison["units_for_target"]
    assert [reach["units"] for reach in comparison["reaches"]] == [
        6,
        forecast["expected_units"],
        60,
    ]
    assert comparison["reaches"][1]["half_width"] <= 0.03
    text = dry_run.text(more, folder)
    assert f"expected to end after {forecast['expected_units']} blocks" in text
    short = dry_run.text("blocks: {min: 6, max: 8, until: {half_width: 1%}}\n", folder)
    assert "after 8 blocks, the most that it may" in short


RACE = "blocks: {min: 6, max: 48, until: {verdicts: all}}\n"


def test_a_race_says_when_it_looks_and_what_each_look_can_find(dry_run: DryRun) -> None:
    text, forecast = dry_run.text(RACE), dry_run.json(RACE)
    assert "race: judged after 6, 12, 24 and 48 blocks; what is decided leaves the run" in text
    assert (forecast["looks"], forecast["raced_s"]) == ([6, 12, 24, 48], None)
    assert forecast["level"] == pytest.approx(0.05 / 2)
    assert [reach["units"] for reach in forecast["assumed"][0]["reaches"]] == [6, 12, 48]
    assert "race:" not in dry_run.text()
    likely = dry_run.text(RACE.replace("all", "likely"))
    assert "48 blocks; what is decided, or unlikely to be, leaves the run" in likely


def test_a_pilot_tells_how_long_a_race_takes(dry_run: DryRun) -> None:
    """Its environment is as fast as the baseline within 0.1 %: equivalent at the first look."""
    folder = SyntheticRun(1, 12, deviations=(0.0, 0.001, 0.0)).folder()
    forecast = dry_run.json(RACE, folder)
    assert forecast["raced_s"] == pytest.approx(forecast["least_s"])
    assert "1 of 1 comparison are decided, in " in dry_run.text(RACE, folder)
    noisy = SyntheticRun(1, 12, deviations=(0.0, 0.5, 0.0)).folder()
    assert dry_run.json(RACE, noisy)["raced_s"] == pytest.approx(forecast["most_s"])


def test_what_a_run_may_take_of_the_disk_is_said_before_it(dry_run: DryRun) -> None:
    assert "disk: at most 300KiB (`outputs:`), then it stops" in dry_run.text("outputs: 300KiB\n")
    assert dry_run.json("outputs: 300KiB\n")["outputs_bytes"] == 300 << 10
    assert "it would end earlier" in dry_run.text("outputs: 9999TiB\n")
