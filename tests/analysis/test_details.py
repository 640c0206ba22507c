"""What is told of one comparison to whoever wants to know how sure it is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from testing.synthetic import WORKLOADS, make_run
from ullage.analysis import overhead
from ullage.analysis.comparison import words
from ullage.analysis.comparison.estimates import Budget, Component
from ullage.analysis.comparison.model import Analysis
from ullage.analysis.comparison.rounding import ratio
from ullage.analysis.details import Detail, details, run_facts
from ullage.runs.reader import RunFolder
from ullage.stats.multiple import benjamini_hochberg, holm

CPU = WORKLOADS[0]


def _run(path: Path, **more: Any) -> Analysis:
    options = {"workloads": WORKLOADS[:2], "failures": [], "noise_sd": 0.02}
    return overhead.analyse(RunFolder.open(make_run(path, raw=False, **{**options, **more})))


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return _run(tmp_path_factory.mktemp("details") / "run", until=0.02)


def _facts(detail: Detail) -> dict[str, str]:
    return dict(detail.facts)


def _vm(analysis: Analysis) -> Detail:
    return next(d for d in details(analysis, CPU.key) if d.comparison.environment == "vm")


def test_every_primary_comparison_is_told_and_the_again_ones(analysis: Analysis) -> None:
    all_details = details(analysis)
    assert len(all_details) == len(analysis.primary()) + analysis.again_total
    assert [d.comparison.again for d in all_details][-2:] == [True, True]
    assert {d.comparison.workload for d in details(analysis, CPU.key)} == {CPU.key}


def test_both_kinds_of_uncertainty_stand_apart_and_together(analysis: Analysis) -> None:
    """The made-up VM has a clock of its own, so its figures have a part that does not average."""
    detail = _vm(analysis)
    budget, facts = detail.comparison.budget, _facts(detail)
    assert budget is not None
    assert budget.type_a == pytest.approx(
        math.log(detail.comparison.interval.high / detail.comparison.interval.low)  # type: ignore[union-attr]
        / (2 * 2.2009851600916384),  # t(11), 97.5 %
    )
    assert [part.source for part in budget.components] == ["clock-rate"]
    assert budget.expanded > 1.959 * math.hypot(budget.type_a, budget.type_b)
    assert facts["Type A"].startswith("standard uncertainty ")
    assert "clock-rate" in facts["Type B"]
    assert facts["both together"].endswith("95 % interval")
    alone = details(analysis, CPU.key)[0]
    assert _facts(alone)["Type B"] == "none is known"


def test_a_budget_is_told_as_it_is(analysis: Analysis) -> None:
    part = Component(source="resolution", standard=0.003, text="figures come in steps")
    budget = Budget(
        type_a=0.004,
        type_b=0.003,
        components=(part,),
        expanded=0.01,
        low=1.29,
        high=1.32,
        precision="intermediate",
        within=0.02,
        between=0.011,
    )
    c = analysis.primary()[0].model_copy(update={"budget": budget})
    changed = analysis.model_copy(update={"comparisons": (c,)})
    facts = _facts(details(changed)[0])
    assert facts["Type A"] == (
        "standard uncertainty 0.4 %, from the repetitions; single pairs vary by 2 % on the same "
        "instances, making the instances anew adds 1.1 %"
    )
    assert facts["Type B"] == (
        "standard uncertainty 0.3 %, from the instruments; resolution 0.3 %: figures come in steps"
    )
    assert facts["both together"] == "1.290 to 1.320, 95 % interval"


def test_precision_asked_for_and_reached(analysis: Analysis) -> None:
    detail = _vm(analysis)
    interval = detail.comparison.interval
    assert interval is not None
    half = (interval.high - interval.low) / (2 * interval.estimate)
    facts = _facts(detail)
    assert facts["precision"] == f"± 2 % asked for, ± {100 * half:.3g} % reached"
    assert "widened 1.15 times for having looked" in facts["rests on"]


def test_what_an_interval_covers_is_named(analysis: Analysis) -> None:
    for detail in details(analysis):
        covers = _facts(detail)["covers"]
        assert covers.startswith("repeatability: ")
        assert "other hosts are not in it" in covers


def test_robust_and_bootstrap_and_outliers_stand_beside(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", raw=False, workloads=[CPU], noise_sd=0.02, failures=[])
    events = [json.loads(line) for line in (path / "journal.jsonl").read_text().splitlines()]
    for event in events:
        if (event.get("environment"), event.get("block"), event["event"]) == ("lxc", 5, "trial"):
            event["metrics"]["events_rate"] /= 4
    (path / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    all_details = details(overhead.analyse(RunFolder.open(path)))
    for detail in all_details:
        facts, c = _facts(detail), detail.comparison
        verb = "disagrees" if c.robust_disagrees else "agrees"
        assert c.robust_disagrees is (c.environment == "lxc")
        assert f", {verb}; Hodges–Lehmann" in facts["robust variant"]
        assert "bootstrap" in facts["bootstrap"]
        assert ("without outliers" in facts) is (c.environment == "lxc")
    lxc = next(d for d in all_details if d.comparison.environment == "lxc")
    without = lxc.comparison.without_outliers
    assert without is not None
    assert _facts(lxc)["without outliers"] == (
        f"{ratio(without)[0]} ({words.between(without)}), 1 of 12 pairs left out; all other "
        "figures keep them"
    )
    assert {"outliers", "robust-disagrees"} <= {doubt.code for doubt in lxc.doubts}


def test_means_are_of_the_kind_that_the_figure_asks_for(analysis: Analysis) -> None:
    rate = _facts(_vm(analysis))
    assert ", harmonic, of 12 trials; interval " in rate["mean of the baseline"]
    times = [c for c in analysis.comparisons if c.metric == "latency_p95"]
    assert {c.baseline_values.mean_kind for c in times if c.baseline_values} == {"arithmetic"}


def test_the_totals_stand_beside_the_ratio(analysis: Analysis) -> None:
    c = _vm(analysis)
    assert c.comparison.totals is not None
    text = _facts(c)["ratio of totals"]
    assert text.startswith(f"{words.ratio_words(c.comparison.totals)}; ratio of arithmetic means")
    assert "ratio of the slowest" not in _facts(c)


@pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg"])
def test_the_correction_is_that_of_the_plan(tmp_path: Path, correction: str) -> None:
    analysis = _run(tmp_path / "run", noise_sd=0.1, correction=correction)
    adjust = holm if correction == "holm" else benjamini_hochberg
    plain = [c.p_difference for c in analysis.primary() if c.p_difference is not None]
    # At least those of the first copy: the larger p-value of both copies is corrected.
    adjusted = [c.p_difference_adjusted or 0.0 for c in analysis.primary()]
    assert all(mine >= p * (1 - 1e-9) for mine, p in zip(adjusted, adjust(plain), strict=True))
    text = words.correction(analysis)
    assert text.startswith("6 primary comparisons, corrected together by ")
    assert ("the chance that any claim" in text) is (correction == "holm")
    assert ("are expected to be false" in text) is (correction != "holm")


def test_the_layout_of_the_run_is_told(analysis: Analysis) -> None:
    facts = dict(run_facts(analysis))
    assert facts["levels"] == "1 making of the instances"
    assert facts["design"].startswith("trials one after another")
    several = dict(run_facts(analysis.model_copy(update={"iterations": 3})))
    assert several["levels"].endswith("; each figure is the mean of 3 iterations within its trial")
