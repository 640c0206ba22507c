"""Advice is for somebody who did what he did: nobody is told to do what the plan does already."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, WORKLOADS, make_run
from tests.analysis.doubtkit import doubted, draft
from tests.analysis.tablekit import analysed, nested, only, paired
from ullage.analysis import doubts, overhead, sentences
from ullage.analysis.comparison.model import Comparison, Doubt
from ullage.analysis.doubts import machine
from ullage.runs.reader import RunFolder
from ullage.stats import Floats

CPU = WORKLOADS[0]
ANEW = "`repeat: instances:`"
INSTANCES_AND_LENGTH = [{}, {"blocks_each": 1}]
RNG = np.random.default_rng


def noisy(n: int, spread: float = 0.02) -> Floats:
    return RNG(1).normal(0, spread, n)


def doubt_of(logs: Floats, code: str, **plan: Any) -> Doubt:
    """The doubt about these log-ratios; with `blocks_each` every block is of new instances."""
    makings = list(range(logs.size)) if "blocks_each" in plan else None
    doubts = doubted(draft(np.exp(logs), np.ones(logs.size), generations=makings, settings=plan))
    return doubts[code]


@pytest.mark.parametrize("plan", INSTANCES_AND_LENGTH)
def test_whose_instances_are_made_anew_is_not_told_to(plan: dict[str, int]) -> None:
    rising = noisy(24) + 0.03 * np.arange(24)
    drift = doubt_of(rising, "drift", **plan).advice
    alike = doubt_of(rising, "autocorrelated", **plan).advice
    cold = noisy(24, 0.005)
    cold[:2] += 0.3
    warm = doubt_of(cold, "warm-up", **plan).advice
    assert [ANEW in advice for advice in (drift, alike, warm)] == [not plan] * 3
    if plan:
        assert "look for what stayed: the host's disk" in drift
        assert "more slowly than makings go by" in alike
        assert "so it is the host that was cold." in warm


@pytest.mark.parametrize(("blocks_each", "fewer"), [(1, False), (5, True)])
def test_fewer_blocks_than_one_cannot_be_written(blocks_each: int, fewer: bool) -> None:
    x = np.exp(noisy(10))
    comparison = draft(
        x, x[::-1], generations=[n // 2 for n in range(10)], settings={"blocks_each": blocks_each}
    )
    advice = doubted(comparison)["few-generations"].advice
    assert ("fewer blocks under" in advice) is fewer
    assert advice.endswith("a larger `blocks: max:`.")


@pytest.mark.parametrize(("makings", "says"), [(1, "run more blocks"), (12, "make the instances")])
def test_what_is_to_be_made_more_of(makings: int, says: str) -> None:
    x = noisy(24, 0.01)
    x[7] += 3
    generations = [n * makings // 24 for n in range(24)]
    doubts = doubted(draft(np.exp(x + 0.02), np.ones(24), generations=generations))
    assert says in doubts["outliers"].advice
    assert says in doubts["robust-disagrees"].advice


@pytest.mark.parametrize(
    ("governor", "turbo_off", "remedies", "done"),
    [
        (None, False, ["`performance`", "turbo off"], []),
        ("powersave", True, ["`performance`"], ["turbo off"]),
        ("performance", False, ["turbo off"], ["`performance`"]),
        ("performance", True, ["firmware"], ["fix the frequency"]),
    ],
)
def test_what_is_left_to_fix_of_the_frequency(
    governor: str | None, turbo_off: bool, remedies: list[str], done: list[str]
) -> None:
    facts = {"governor": governor, "turbo_disabled": "1" if turbo_off else "0"}
    assert machine.power(facts) == (governor, turbo_off)
    sides = (
        {"meters": {"cpu": {"frequency": f, "throttled": t}}} for f, t in ((2e9, 1.0), (3e9, 0.0))
    )
    mine, theirs = sides
    power = {"governor": governor, "turbo_off": turbo_off}
    x = np.exp(noisy(12))
    doubts = doubted(draft(x, x[::-1], mine=mine, theirs=theirs, settings=power))
    advice = doubts["frequency"].advice
    assert all(words in advice for words in remedies)
    assert not any(words in advice for words in done)
    assert ("turn turbo off" in doubts["throttled"].advice) is not turbo_off


def _run(tmp_path: Path, change: Any, **more: Any) -> tuple[RunFolder, list[Comparison]]:
    """A run of which `change` altered every trial, or took it out (None)."""
    options = {"workloads": [CPU], "failures": [], "noise_sd": 0.01, **more}
    path = make_run(tmp_path / "run", raw=False, **options)
    lines = []
    for line in (path / "journal.jsonl").read_text().splitlines():
        event = json.loads(line)
        after = change(event) if event["event"] == "trial" else event
        lines += [] if after is None else [json.dumps(after)]
    (path / "journal.jsonl").write_text("\n".join(lines) + "\n")
    folder = RunFolder.open(path)
    return folder, list(overhead.analyse(folder).primary())


def _codes(c: Comparison) -> dict[str, Doubt]:
    return {doubt.code: doubt for doubt in c.doubts}


def test_the_hosts_own_settings_reach_the_advice(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> dict[str, Any]:
        slow = event["environment"] == "lxc"
        cpu = {"frequency": 2e9 if slow else 3e9, "throttled": float(slow)}
        return {**event, "meters": {**event["meters"], "cpu": cpu}}

    folder, _ = _run(tmp_path, change)
    file = folder.path / "resolved.json"
    resolved = json.loads(file.read_text())
    resolved["host"] |= {"governor": "performance", "turbo_disabled": "1"}
    file.write_text(json.dumps(resolved))
    folder = RunFolder.open(folder.path)
    lxc = next(c for c in overhead.analyse(folder).primary() if c.environment == "lxc")
    assert "turbo is off already" in _codes(lxc)["frequency"].advice
    (heat,) = (d for d in doubts.of_run(folder, ()) if d.code == "throttled")
    assert heat.advice.endswith("Cool the machine, or use fewer CPUs.")


@pytest.mark.parametrize("planned", [True, False])
def test_a_second_copy_that_gave_nothing_is_not_missing_in_the_plan(
    tmp_path: Path, planned: bool
) -> None:
    def change(event: dict[str, Any]) -> dict[str, Any]:
        if event["environment"] == "native~again":
            event |= {"status": "failed", "metrics": {}}
        return event

    environments = [e for e in ENVIRONMENTS if planned or e.again_of is None]
    folder, analysis = _run(tmp_path, change, environments=environments)
    of_run = next(d for d in overhead.analyse(folder).doubts if d.code == "no-again")
    for doubt in (of_run, *(_codes(c)["no-again"] for c in analysis)):
        assert ("is in the plan" in doubt.advice) is planned
        assert ("Leave the second copy" in doubt.advice) is not planned


def test_blocks_that_were_lost_are_not_answered_by_more_of_them(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> dict[str, Any]:
        if event["environment"] == "lxc" and event["block"] > 3:
            event |= {"status": "failed", "metrics": {}}
        return event

    _, analysis = _run(tmp_path, change)
    advice = next(_codes(c)["too-few-blocks"].advice for c in analysis if c.environment == "lxc")
    assert advice.startswith("12 blocks were run, and 8 of them gave no pair: find out why")
    few = doubted(draft([1.0, 1.1], [1.0, 1.0]))["too-few-blocks"].advice
    assert "`blocks: min:`" in few


@pytest.mark.parametrize(("gone", "doubts"), [((2, 5, 9), True), ((11,), False)])
def test_trials_that_are_not_there_are_told(
    tmp_path: Path, gone: tuple[int, ...], doubts: bool
) -> None:
    """Not those of the last block: it may be in the making."""

    def change(event: dict[str, Any]) -> dict[str, Any] | None:
        lost = event["environment"] == "native" and event["block"] in gone
        return None if lost else event

    _, analysis = _run(tmp_path, change)
    for c in analysis:
        assert c.pairs == 12 - len(gone)
        assert ("metric-missing" in _codes(c)) is doubts
        if doubts:
            message = _codes(c)["metric-missing"].message
            assert message.startswith("3 of 12 blocks have a trial of one side only")


def test_curves_without_a_common_point_are_not_said_to_be_zero(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> dict[str, Any]:
        if event["environment"] == "lxc":
            event["metrics"]["throughput"] = [[x + 1, y] for x, y in event["metrics"]["throughput"]]
        return event

    folder, analysis = _run(tmp_path, change, workloads=[CURVE_WORKLOAD])
    c = next(c for c in analysis if c.environment == "lxc")
    assert c.no_verdict == "no value of message size has enough pairs"
    assert set(_codes(c)) == {"curve-ragged"}
    assert "zero" not in "".join(sentences.answer(overhead.analyse(folder)))
    assert all(comparison.no_verdict is None for comparison in analysis if comparison is not c)


def test_a_table_with_generations_is_not_told_to_name_them(tmp_path: Path) -> None:
    columns, _ = nested(generations=30, blocks=2)
    steps = np.repeat(np.cumsum(RNG(3).normal(0, 0.1, 30)), 2)
    columns["value"][60:] = np.exp(steps + RNG(4).normal(0, 0.01, 60)).tolist()
    several = _codes(only(analysed(tmp_path, columns)))["autocorrelated"]
    assert several.message.startswith("Neighbouring generations are alike")
    assert "`generation`" not in several.advice
    del columns["generation"]
    plain = _codes(only(analysed(tmp_path, columns)))["autocorrelated"]
    assert plain.message.startswith("Neighbouring blocks are alike")
    assert "`generation`" in plain.advice


@pytest.mark.parametrize(
    ("better", "method", "helps"),
    [("lower", "welch", True), ("higher", "welch", False), ("higher", "fieller", False)],
)
def test_fieller_is_named_where_it_can_say_something(
    tmp_path: Path, better: str, method: str, helps: bool
) -> None:
    columns = paired([1.0, 0.0, 1.1, 1.2] * 3, [1.2, 1.3, 1.4, 1.5] * 3)
    with_blocks = _codes(only(analysed(tmp_path, columns, better)))["no-ratio"].advice
    assert ("fieller" in with_blocks) is (better == "lower")
    del columns["block"]
    without = _codes(only(analysed(tmp_path, columns, better, method=method)))["no-ratio"].advice
    assert ("fieller" in without) is helps
