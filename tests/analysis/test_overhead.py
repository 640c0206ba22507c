from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, TRUTH, WORKLOADS, make_run
from tests.support.racekit import raced
from ullage.analysis import overhead, sentences
from ullage.analysis.comparison import judging
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.report.export import export
from ullage.runs.reader import RunFolder
from ullage.stats import RULES
from ullage.stats.interval import t_interval
from ullage.stats.stop import widening

CPU, MEMORY, DISK, NETWORK = WORKLOADS
NATIVE, AGAIN, CONTAINER, LXC, VM = ENVIRONMENTS
Make = Callable[..., Analysis]


@pytest.fixture
def analyse(tmp_path: Path) -> Make:
    def make(**more: Any) -> Analysis:
        run = make_run(tmp_path / "run", raw=False, **more)
        return overhead.analyse(RunFolder.open(run))

    return make


def _find(analysis: Analysis, environment: str, workload: str, metric: str = "") -> Comparison:
    return next(
        c
        for c in (*analysis.comparisons, *analysis.again)
        if (c.environment, c.workload) == (environment, workload)
        and (c.metric == metric if metric else c.primary)
    )


def _codes(comparison: Comparison) -> set[str]:
    return {doubt.code for doubt in comparison.doubts}


def test_known_ratios_come_out(analyse: Make) -> None:
    analysis = analyse(noise_sd=0.01, blocks=12)
    for c in analysis.primary():
        truth = TRUTH.get((c.environment, c.workload), 1.0)
        assert c.ratio == pytest.approx(truth, rel=0.02)
        expected = "equivalent" if truth == 1 else "worse"
        assert c.verdict == expected, (c.environment, c.workload, c.interval)
    assert (analysis.blocks, analysis.trials, analysis.failed) == (12, 240, 1)
    assert analysis.family == 12
    assert analysis.again_total == 4


def test_rates_and_times_point_the_same_way(analyse: Make) -> None:
    analysis = analyse(noise_sd=0.01)
    rate = _find(analysis, "vm", CPU.key, "events_rate")
    time = _find(analysis, "vm", CPU.key, "latency_p95")
    assert rate.ratio == pytest.approx(time.ratio)
    assert (rate.better, time.better) == ("higher", "lower")
    assert time.verdict is None, "a secondary metric has figures, but no verdict"
    assert time.interval is not None


def test_the_interval_is_over_the_pairs_of_the_blocks(analyse: Make) -> None:
    c = _find(analyse(), "container", NETWORK.key)
    assert c.interval is not None
    reference = t_interval([math.log(p.ratio) for p in c.points], 0.95, c.memory)
    assert (c.interval.low, c.interval.high) == pytest.approx((reference.low, reference.high))
    assert [p.block for p in c.points] == list(range(12))


def test_a_stop_by_precision_widens_every_interval(analyse: Make) -> None:
    plain = analyse()
    looked = analyse(until=0.02)
    assert looked.stop.widening == widening(6) > plain.stop.widening == 1
    assert looked.stop.target_half_width == 0.02
    for a, b in zip(plain.comparisons, looked.comparisons, strict=True):
        if a.interval and b.interval:
            wide = math.log(b.interval.high / b.interval.low)
            assert wide == pytest.approx(widening(6) * math.log(a.interval.high / a.interval.low))


def test_a_failed_trial_drops_its_pair(analyse: Make) -> None:
    c = _find(analyse(), "vm", DISK.key)
    assert (c.pairs, c.dropped) == (11, 1)
    assert (c.environment_cell.failed, c.environment_cell.trials) == (1, 12)
    assert c.environment_cell.reasons == ("exit-status",)
    assert "some-failures" in _codes(c)
    assert c.verdict == "worse"


def test_over_ten_percent_of_failures_there_is_no_verdict(analyse: Make) -> None:
    failures = [(block, "vm", DISK.key) for block in (1, 4, 9)]
    analysis = analyse(blocks=14, failures=failures, noise_sd=0.01)
    c = _find(analysis, "vm", DISK.key)
    assert (c.verdict, c.why, c.p_difference_adjusted) == (None, None, None)
    assert c.no_verdict == "too many failures: 3 of 14 in qemu-tcg (emulated)"
    assert c.interval is not None, "the figures are shown all the same"
    assert "too-many-failures" in _codes(c)
    assert analysis.family == 12, "it stays in the family"


def test_a_failing_baseline_takes_all_verdicts_of_its_workload(analyse: Make) -> None:
    analysis = analyse(failures=[(block, "native", CPU.key) for block in range(3)])
    for c in analysis.primary():
        assert (c.no_verdict is not None) is (c.workload == CPU.key)


@pytest.mark.parametrize("blocks", [0, 1, 2, 5])
def test_too_few_blocks(analyse: Make, blocks: int) -> None:
    analysis = analyse(blocks=blocks, failures=[])
    for c in analysis.primary():
        assert (c.verdict, c.why) == ("inconclusive", "too-few-blocks")
        assert c.blocks_to_settle == 6 - blocks
        assert (c.interval is None) is (blocks < 2)
        assert "too-few-blocks" in _codes(c)
    json.dumps(analysis.dump(), allow_nan=False)


def test_absolute_values_stand_beside(analyse: Make) -> None:
    c = _find(analyse(blocks=24, failures=[]), "vm", CPU.key)
    assert c.baseline_values is not None
    assert c.environment_values is not None
    assert c.baseline_values.median == pytest.approx(2300, rel=0.2)
    assert c.environment_values.median == pytest.approx(2300 / 6.9, rel=0.2)
    assert c.baseline_values.mean_kind == "harmonic"
    assert c.baseline_values.n == 24
    assert c.baseline_values.least <= c.baseline_values.q1 <= c.baseline_values.median
    assert c.baseline_values.p95 is not None
    time = _find(analyse(blocks=6, failures=[]), "vm", CPU.key, "latency_p95")
    assert time.baseline_values is not None
    assert (time.baseline_values.mean_kind, time.baseline_values.p95) == ("arithmetic", None)


def test_figures_of_nothing_have_no_ratio(analyse: Make) -> None:
    c = _find(analyse(), "vm", NETWORK.key, "retransmits")
    assert (c.ratio, c.interval) == (None, None)
    assert _codes(c) == {"emulated", "no-ratio"}
    assert c.baseline_values is not None


def test_drift_of_the_whole_machine_does_not_matter(analyse: Make) -> None:
    analysis = analyse(noise_sd=0.01, drift=0.1, blocks=20)
    for c in analysis.primary():
        assert c.ratio == pytest.approx(TRUTH.get((c.environment, c.workload), 1.0), rel=0.02)
        assert "drift" not in _codes(c)


def _alter(path: Path, change: Callable[[dict[str, Any]], None]) -> Analysis:
    """Analyse a run after changing its trials."""
    lines = []
    for line in (path / "journal.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "trial":
            change(event)
        lines.append(json.dumps(event))
    (path / "journal.jsonl").write_text("\n".join(lines) + "\n")
    return overhead.analyse(RunFolder.open(path))


def test_a_metric_that_nobody_yields_is_left_out(tmp_path: Path) -> None:
    """sysbench's latency is absent under its resolution, on principle and everywhere."""

    def change(event: dict[str, Any]) -> None:
        event["metrics"].pop("latency_p95", None)

    analysis = _alter(make_run(tmp_path / "n", workloads=[CPU], raw=False), change)
    assert {c.metric for c in analysis.comparisons} == {"events_rate"}


def test_a_primary_metric_that_is_often_missing_has_no_verdict(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> None:
        if event["environment"] == "lxc" and event["block"] in (2, 3):
            del event["metrics"]["events_rate"]

    analysis = _alter(make_run(tmp_path / "m", workloads=[CPU], raw=False), change)
    c = _find(analysis, "lxc", CPU.key)
    assert c.no_verdict == "events_rate is missing in 2 of 12 pairs"
    assert "metric-missing" in _codes(c)


def test_drift_is_told(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> None:
        if event["environment"] == "vm":
            factor = math.exp(-0.05 * event["block"])
            event["metrics"] = {k: v * factor for k, v in event["metrics"].items()}

    run = make_run(tmp_path / "d", blocks=20, noise_sd=0.02, failures=[], raw=False)
    analysis = _alter(run, change)
    assert "drift" in _codes(_find(analysis, "vm", CPU.key))
    assert "drift" not in _codes(_find(analysis, "lxc", CPU.key))


def test_an_outlier_is_flagged_kept_and_shown_without(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> None:
        if (event["environment"], event["workload"], event["block"]) == ("lxc", CPU.key, 5):
            event["metrics"]["events_rate"] /= 4

    c = _find(_alter(make_run(tmp_path / "o", noise_sd=0.02, raw=False), change), "lxc", CPU.key)
    assert [p.block for p in c.points if p.outlier] == [5]
    assert (c.pairs, c.interval is not None and c.interval.n) == (12, 12)
    assert c.without_outliers is not None
    assert c.without_outliers.n == 11
    assert c.without_outliers.estimate == pytest.approx(1.0, abs=0.03)
    assert {"outliers", "robust-disagrees"} <= _codes(c)
    assert c.robust_disagrees


def test_a_biased_apparatus_is_told_and_forbids_small_claims(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> None:
        if event["environment"] == "native~again" and event["workload"] == CPU.key:
            event["metrics"]["events_rate"] /= 1.1

    analysis = _alter(make_run(tmp_path / "b", noise_sd=0.01, raw=False), change)
    null = _find(analysis, "native~again", CPU.key)
    assert (null.again, null.verdict, null.baseline) == (True, None, "native")
    c = _find(analysis, "lxc", CPU.key)
    assert c.floor_biased
    assert c.floor == pytest.approx(1.1, rel=0.02)
    assert (c.verdict, c.why) == ("inconclusive", "second-copy")
    assert "again-differs" in _codes(c)
    assert [d.code for d in analysis.doubts] == ["again-differs"]
    assert analysis.again_differing == 1
    assert _find(analysis, "lxc", MEMORY.key).verdict == "equivalent"
    assert _find(analysis, "vm", CPU.key).verdict == "worse", "6.9 is above any floor"


def test_a_second_copy_of_an_environment_raises_its_floor_only(tmp_path: Path) -> None:
    copy = CONTAINER.model_copy(update={"key": "container~again", "again_of": "container"})

    def change(event: dict[str, Any]) -> None:
        if event["environment"] == "container~again":
            event["metrics"] = {k: v / 1.3 for k, v in event["metrics"].items()}

    run = make_run(
        tmp_path / "c",
        environments=[*ENVIRONMENTS, copy],
        noise_sd=0.01,
        workloads=[CPU],
        failures=[],
        raw=False,
    )
    analysis = _alter(run, change)
    mine, lxc = _find(analysis, "container", CPU.key), _find(analysis, "lxc", CPU.key)
    assert mine.floor == pytest.approx(1.3, rel=0.02)
    assert lxc.floor == pytest.approx(1.0, abs=0.02)
    assert _find(analysis, "container~again", CPU.key).baseline == "container"
    assert analysis.family == 3


def test_without_a_second_copy_the_floor_is_unknown(analyse: Make) -> None:
    analysis = analyse(environments=[NATIVE, LXC], failures=[])
    assert analysis.floor is None
    assert [d.code for d in analysis.doubts] == ["no-again"]
    assert all("no-again" in _codes(c) for c in analysis.primary())


def test_a_floor_beyond_all_numbers_is_unknown(tmp_path: Path) -> None:
    """Two pairs at 99.99 %: the lower bound of an A/A is 0 as a float, the upper one infinite."""
    run = make_run(
        tmp_path / "r", blocks=2, confidence=0.9999, noise_sd=0.5, failures=[], raw=False
    )
    analysis = overhead.analyse(RunFolder.open(run))
    unknown = [c for c in analysis.comparisons if c.floor is None and c.primary]
    assert unknown
    assert all("no-again" in {doubt.code for doubt in c.doubts} for c in unknown)
    assert all(math.isfinite(c.floor) for c in analysis.comparisons if c.floor is not None)
    exported = json.loads(export(analysis, "json"))["rows"]
    assert {row["floor"] for row in exported if row["is_primary"]} >= {None}
    json.dumps(analysis.model_dump(mode="json"), allow_nan=False)
    assert sentences.answer(analysis)


def test_a_pair_that_was_split_is_told(analyse: Make) -> None:
    analysis = analyse(pause=(3, 900.0))
    split = [c for c in (*analysis.comparisons, *analysis.again) if "pair-split" in _codes(c)]
    assert split
    assert all(max(p.gap_s for p in c.points) > 890 for c in split)
    assert analysis.seconds < 400, "the pause is no part of the run"


def test_steal_time_is_told(analyse: Make) -> None:
    assert "steal" in {d.code for d in analyse(steal=0.05).doubts}
    assert "steal" not in {d.code for d in analyse(steal=0.002).doubts}


def test_emulation_and_allowed_inequality_are_told(analyse: Make) -> None:
    small = CONTAINER.model_copy(
        update={"nuisances": {**CONTAINER.nuisances, "memory": "536870912"}}
    )
    analysis = analyse(environments=[NATIVE, AGAIN, small, VM], allowed=["memory"])
    container, vm = _find(analysis, "container", CPU.key), _find(analysis, "vm", CPU.key)
    assert (container.unequal, vm.unequal) == (("memory",), ())
    assert "nuisance-unequal" in _codes(container)
    assert vm.emulated
    assert "emulated" in _codes(vm)


def test_a_run_without_an_end_says_so(analyse: Make) -> None:
    analysis = analyse(finished=False)
    assert "not-finished" in {d.code for d in analysis.doubts}
    assert analysis.stop.reason is None


def test_a_curve_counts_once(analyse: Make) -> None:
    truth = {("lxc", CURVE_WORKLOAD.key): 1.2}
    analysis = analyse(workloads=[CURVE_WORKLOAD], truth=truth, noise_sd=0.02, failures=[])
    assert analysis.family == 3
    c = _find(analysis, "lxc", CURVE_WORKLOAD.key)
    assert c.ratio == pytest.approx(1.2, rel=0.02)
    assert c.verdict == "worse"
    assert [p.coordinate for p in c.curve] == [64, 1024, 16384, 262144]
    assert c.interval is not None
    for point in c.curve:
        assert point.low is not None
        assert point.high is not None
        assert point.low < 1.2 < point.high
        assert point.baseline_median > point.environment_median


def test_a_curve_that_differs_both_ways_is_not_equivalent(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> None:
        if event["environment"] == "lxc":
            points = event["metrics"]["throughput"]
            factors = (1.1, 1.0, 1.0, 1 / 1.1)
            event["metrics"]["throughput"] = [
                [x, y * f] for (x, y), f in zip(points, factors, strict=True)
            ]

    run = make_run(
        tmp_path / "k",
        workloads=[CURVE_WORKLOAD],
        truth={},
        noise_sd=0.005,
        blocks=20,
        failures=[],
        raw=False,
    )
    analysis = _alter(run, change)
    c, container = _find(analysis, "lxc", "netpipe"), _find(analysis, "container", "netpipe")
    assert c.ratio == pytest.approx(1.0, abs=0.01)
    assert c.verdict == "inconclusive"
    assert "curve-mixed" in _codes(c)
    assert container.verdict == "equivalent"


def test_the_same_run_gives_the_same_answer(analyse: Make) -> None:
    assert analyse() == analyse()


def test_everything_goes_through_json(analyse: Make) -> None:
    analysis = analyse(tails="heavy")
    text = json.dumps(analysis.dump(), allow_nan=False)
    assert Analysis.model_validate_json(text) == analysis
    assert "<script>" not in text, "what a guest said stays in the trials"


def test_intervals_of_whole_runs_cover_the_truth(tmp_path: Path) -> None:
    """24 runs of 12 comparisons, noise as on a shared machine: coverage and false differences."""
    hits, total, false, nulls = 0, 0, 0, 0
    for seed in range(24):
        run = make_run(tmp_path / str(seed), seed=seed, raw=False, failures=[])
        analysis = overhead.analyse(RunFolder.open(run))
        wrong = False
        for c in analysis.primary():
            truth = TRUTH.get((c.environment, c.workload), 1.0)
            assert c.interval is not None
            hits += c.interval.low <= truth <= c.interval.high
            total += 1
            wrong |= truth == 1 and c.verdict in ("worse", "better")
        false += wrong
        nulls += analysis.again_differing
    assert 0.91 <= hits / total <= 0.99
    assert false <= 4
    assert nulls / 96 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 96)


def test_a_claim_must_hold_against_the_second_copy(tmp_path: Path) -> None:
    """The baseline's own slot is 5 % faster than it should be: everything looks worse."""

    def change(event: dict[str, Any]) -> None:
        if event["environment"] == "native" and event["workload"] == CPU.key:
            event["metrics"]["events_rate"] *= 1.05

    run = make_run(tmp_path / "s", noise_sd=0.01, failures=[], raw=False)
    c = _find(_alter(run, change), "lxc", CPU.key)
    assert c.interval is not None
    assert c.interval.low > 1.02
    assert (c.verdict, c.why) == ("inconclusive", "second-copy")
    assert c.other_copy is not None
    assert c.other_copy.low < 1 < c.other_copy.high


def test_a_second_copy_without_figures_leaves_no_claim(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> None:
        if event["environment"] == "native~again" and event["workload"] == CPU.key:
            event["metrics"] = {}

    run = make_run(tmp_path / "l", noise_sd=0.01, failures=[], raw=False)
    analysis = _alter(run, change)
    assert _find(analysis, "vm", CPU.key).why == "no-copy"
    assert "no-again" in _codes(_find(analysis, "vm", CPU.key))
    assert _find(analysis, "vm", MEMORY.key).verdict == "worse"


def test_memory_of_an_environment_widens_all_of_its_intervals(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> None:
        if event["environment"] == "lxc":
            factor = 1 + 0.1 * math.sin(event["block"] / 4)
            event["metrics"] = {k: v * factor for k, v in event["metrics"].items()}

    run = make_run(tmp_path / "k", blocks=30, noise_sd=0.01, failures=[], raw=False)
    analysis = _alter(run, change)
    mine = [c for c in analysis.comparisons if c.environment == "lxc"]
    assert {c.memory for c in mine} == {mine[0].memory}
    assert mine[0].memory > 1.5
    assert all(c.memory < 1.3 for c in analysis.comparisons if c.environment != "lxc")


def test_a_run_of_older_rules_says_which_verdicts_were_others(tmp_path: Path) -> None:
    """8 % better from twelve blocks of one workload: slow trials may have been missed."""
    run = make_run(
        tmp_path / "r",
        workloads=[CPU],
        truth={("lxc", CPU.key): 1 / 1.08},
        noise_sd=0.01,
        failures=[],
        raw=False,
    )
    resolved = json.loads((run / "resolved.json").read_text())
    analysis = overhead.analyse(RunFolder.open(run))
    assert _find(analysis, "lxc", CPU.key).why == "unseen"
    assert resolved.pop("rules", 1) == 1
    assert [(r.environment_label, r.before, r.now, r.why) for r in analysis.rejudged] == [
        ("LXC", "better", "inconclusive", "unseen")
    ]
    (run / "resolved.json").write_text(json.dumps({**resolved, "rules": RULES}))
    assert overhead.analyse(RunFolder.open(run)).rejudged == ()


@pytest.mark.parametrize("race", [False, True])
def test_a_changed_formula_is_told_of_a_run_that_was_made_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, race: bool
) -> None:
    """Rules 2 took the root of the squares' sum where rules 3 add."""
    more: dict[str, Any] = {"truth": {("lxc", CPU.key): 1.08}, "noise_sd": 0.01, "failures": []}
    run = (
        raced(tmp_path / "r", (6, 12), **more).path
        if race
        else make_run(tmp_path / "r", raw=False, workloads=[CPU], **more)
    )
    plain = _find(overhead.analyse(RunFolder.open(run)), "lxc", CPU.key)
    assert plain.interval is not None and plain.verdict == "worse"
    mean = math.log(plain.interval.estimate)
    part = mean - (mean - math.log(plain.interval.low)) / 2
    monkeypatch.setattr(judging, "systematic", lambda draft: part)
    resolved = json.loads((run / "resolved.json").read_text())
    for rules, changes in ((2, [("worse", "inconclusive", "systematic")]), (RULES, [])):
        (run / "resolved.json").write_text(json.dumps({**resolved, "rules": rules}))
        analysis = overhead.analyse(RunFolder.open(run))
        of_cpu = [r for r in analysis.rejudged if r.environment_label == "LXC"]
        assert [(r.before, r.now, r.why) for r in of_cpu if "CPU" in r.workload_title] == changes


def test_an_older_correction_of_memory_is_told(tmp_path: Path) -> None:
    def change(event: dict[str, Any]) -> None:
        if event["environment"] == "lxc":
            factor = 1.03 + 0.04 * math.sin(event["block"] / 3)
            event["metrics"] = {k: v * factor for k, v in event["metrics"].items()}

    run = make_run(tmp_path / "k", blocks=30, noise_sd=0.02, failures=[], raw=False)
    _alter(run, change)
    folder = RunFolder.open(run)
    factors = {
        rules: {j.draft.environment.key: j.draft.memory for j in overhead.judged(folder, rules)}
        for rules in range(1, RULES + 1)
    }
    assert factors[1]["lxc"] == 1 < factors[2]["lxc"] < factors[3]["lxc"]
