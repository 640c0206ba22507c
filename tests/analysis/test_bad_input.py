"""Runs that went wrong: each gets a right answer or a clear refusal, and never a zero."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, WORKLOADS, make_run
from ullage.analysis import overhead, sentences
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.report.export import export, lines, rich_table
from ullage.report.page import write
from ullage.runs.reader import RunFolder

CPU = WORKLOADS[0]
Event = dict[str, Any]


def _all_views(folder: RunFolder, analysis: Analysis, out: Path) -> str:
    """Everything that shows an answer; none of it may fail."""
    json.dumps(analysis.dump(), allow_nan=False)
    for form in ("csv", "json", "latex", "parquet"):
        assert export(analysis, form)
    assert rich_table(analysis).columns
    write(folder, analysis, out)
    return "\n".join([*sentences.answer(analysis), *lines(analysis)])


def _analysed(tmp_path: Path, **more: Any) -> tuple[Analysis, str]:
    options = {"workloads": [CPU], "failures": [], "noise_sd": 0.01}
    folder = RunFolder.open(make_run(tmp_path / "run", raw=False, **{**options, **more}))
    analysis = overhead.analyse(folder)
    return analysis, _all_views(folder, analysis, tmp_path / "page.html")


def _altered(
    tmp_path: Path, change: Callable[[Event], Event | None], **more: Any
) -> tuple[Analysis, str]:
    """After a change of every trial; None: it is not there."""
    options = {"workloads": [CPU], "failures": [], "noise_sd": 0.01}
    path = make_run(tmp_path / "run", raw=False, **{**options, **more})
    lines = []
    for line in (path / "journal.jsonl").read_text().splitlines():
        event = json.loads(line)
        changed = change(event) if event["event"] == "trial" else event
        lines += [] if changed is None else [json.dumps(changed)]
    (path / "journal.jsonl").write_text("\n".join(lines) + "\n")
    folder = RunFolder.open(path)
    analysis = overhead.analyse(folder)
    return analysis, _all_views(folder, analysis, tmp_path / "page.html")


def _cpu(analysis: Analysis, environment: str = "lxc") -> Comparison:
    return next(c for c in analysis.primary() if c.environment == environment)


def test_all_trials_failed(tmp_path: Path) -> None:
    failures = [(b, e.key, CPU.key) for b in range(8) for e in ENVIRONMENTS]
    analysis, answer = _analysed(tmp_path, blocks=8, failures=failures)
    for c in analysis.primary():
        assert (c.ratio, c.interval, c.budget, c.verdict) == (None, None, None, None)
        assert c.no_verdict is not None
    assert answer.startswith(
        "On this machine, with container (crun), CPU has no verdict: too many failures: 8 of 8 in "
    )
    assert "×" not in answer


@pytest.mark.parametrize("failed", [False, True])
def test_without_a_floor_that_was_planned_nothing_is_a_difference(
    tmp_path: Path, failed: bool
) -> None:
    again = next(e.key for e in ENVIRONMENTS if e.again_of is not None)
    failures = [(b, again, CPU.key) for b in range(12)] if failed else []
    analysis, _ = _analysed(tmp_path, blocks=12, failures=failures, truth={("vm", CPU.key): 2.0})
    verdicts = {c.verdict for c in analysis.primary()}
    assert ("worse" in verdicts) is not failed


@pytest.mark.parametrize("blocks", [0, 1])
def test_hardly_a_block(tmp_path: Path, blocks: int) -> None:
    analysis, answer = _analysed(tmp_path, blocks=blocks)
    c = _cpu(analysis)
    assert (c.interval, c.verdict, c.why) == (None, "inconclusive", "too-few-blocks")
    if blocks == 0:
        assert answer.startswith("No trial ran: ")
    else:
        assert "CPU is inconclusive: 1 block is too few, at least 5 more blocks" in answer
    assert (c.ratio is None) is (blocks == 0)


def test_no_spread_is_no_certainty(tmp_path: Path) -> None:
    """Figures that are all the same are exact, or too coarse: the doubt says so."""

    def change(event: Event) -> Event:
        slow = event["environment"] == "lxc"
        return event | {"metrics": {"events_rate": 100.0 if slow else 200.0}}

    analysis, answer = _altered(tmp_path, change)
    c = _cpu(analysis)
    assert c.interval is not None
    assert c.interval.low == c.interval.high == pytest.approx(2.0)
    assert c.budget is None or c.budget.type_a == 0
    assert "no-spread" in {doubt.code for doubt in c.doubts}
    assert (c.verdict, c.why, c.blocks_to_settle) == ("inconclusive", "no-spread", None)
    assert "worse" not in answer.partition(";")[0]
    assert "all pairs are equal: the figures are too coarse to tell, or exact" in answer


def test_all_trials_of_one_side_failed(tmp_path: Path) -> None:
    failures = [(b, "lxc", CPU.key) for b in range(12)]
    analysis, answer = _analysed(tmp_path, failures=failures)
    c = _cpu(analysis)
    assert (c.ratio, c.interval, c.losses, c.verdict) == (None, None, None, None)
    assert "LXC, CPU has no verdict: too many failures: 12 of 12 in LXC" in answer
    assert _cpu(analysis, "container").verdict == "equivalent", "the others do not suffer"


def test_rounding_is_called_no_difference(tmp_path: Path) -> None:
    """Truth 20.35 everywhere: native and its copy always print 20, LXC scatters about it."""
    rng = np.random.default_rng(6)

    def change(event: Event) -> Event:
        slow = event["environment"] == "lxc"
        rate = round(20.35 * float(np.exp(rng.normal(0, 0.05)))) if slow else 20
        return event | {"metrics": {"events_rate": float(rate)}}

    analysis, _ = _altered(tmp_path, change, blocks=100)
    c = _cpu(analysis)
    assert c.interval is not None and c.budget is not None
    assert c.interval.high < 1, "it would be called better by its interval"
    assert (c.verdict, c.floor) == ("inconclusive", None)
    assert {part.source for part in c.budget.components} == {"resolution"}
    assert "coarse" in {doubt.code for doubt in c.doubts}


def _losing(environment: str, blocks: tuple[int, ...]) -> Callable[[Event], Event]:
    def change(event: Event) -> Event:
        if event["environment"] == environment and event["block"] in blocks:
            return event | {"status": "failed", "metrics": {}}
        return event

    return change


def test_a_verdict_that_the_lost_trials_overturn_is_not_given(tmp_path: Path) -> None:
    """Equal within 2 % but for one pair, and what is lost may all have been like that one."""
    lose = _losing("lxc", (2, 30, 31, 32, 33))

    def change(event: Event) -> Event:
        if (event["environment"], event["block"]) == ("lxc", 7):
            event["metrics"]["events_rate"] *= 1.25
        return lose(event)

    analysis, answer = _altered(tmp_path, change, blocks=60, noise_sd=0.002, truth={})
    c = _cpu(analysis)
    assert c.losses is not None and c.interval is not None
    assert (c.losses.lost, c.pairs) == (5, 55)
    assert c.losses.low < 1 / 1.02 < c.interval.low
    assert (c.verdict, c.why) == ("inconclusive", "losses")
    assert "no verdict holds whatever the lost ones would have shown" in answer


def test_a_verdict_that_the_lost_trials_leave_stands_with_a_warning(tmp_path: Path) -> None:
    analysis, answer = _altered(
        tmp_path, _losing("lxc", (3,)), truth={("lxc", CPU.key): 2.0}, noise_sd=0.05
    )
    c = _cpu(analysis)
    assert c.losses is not None and c.interval is not None
    assert c.verdict == "worse"
    assert c.losses.low < c.interval.low < c.interval.high < c.losses.high
    assert "Read with care" in answer and "some-failures" in answer


@pytest.mark.parametrize(("late_ns", "split"), [(40_000, False), (90_000_000_000, True)])
def test_what_begins_together_is_not_split(tmp_path: Path, late_ns: int, split: bool) -> None:
    """Microseconds apart in place of none, as the halves of a duet are, mean nothing."""

    def change(event: Event) -> Event:
        at = event["block"] * 60_000_000_000
        if (event["environment"], event["block"]) == ("lxc", 3):
            at += late_ns
        elif event["environment"] == "lxc":
            at += 1_000
        return event | {"epoch_ns": 1_795_227_033_000_000_000 + at}

    analysis, _ = _altered(tmp_path, change)
    assert ("pair-split" in {doubt.code for doubt in _cpu(analysis).doubts}) is split


def test_a_floor_that_could_be_anything_lets_no_difference_through(tmp_path: Path) -> None:
    """Two A/A pairs at such a confidence have no upper bound."""

    def change(event: Event) -> Event:
        if event["environment"] == "native~again" and event["block"] > 1:
            return event | {"status": "failed", "metrics": {}}
        if event["environment"] == "native~again":
            event["metrics"]["events_rate"] *= 1.5 if event["block"] else 0.5
        if event["environment"] == "lxc":
            event["metrics"]["events_rate"] /= 1.1
        return event

    analysis, _ = _altered(tmp_path, change, confidence=0.9999)
    c = _cpu(analysis)
    assert c.floor is None
    assert c.verdict not in ("worse", "better")


@pytest.mark.parametrize("figure", [0.0, -3.0])
def test_zeros_and_negatives_have_no_ratio(tmp_path: Path, figure: float) -> None:
    def change(event: Event) -> Event:
        if (event["environment"], event["block"]) == ("lxc", 3):
            event["metrics"]["events_rate"] = figure
        return event

    analysis, answer = _altered(tmp_path, change)
    c = _cpu(analysis)
    assert (c.ratio, c.interval, c.verdict) == (None, None, None)
    assert "LXC, CPU has no verdict: zero or negative figures in 1 of 12 pairs" in answer
    assert _cpu(analysis, "container").verdict == "equivalent", "the others do not suffer"
    values = c.environment_values
    assert values is not None
    assert values.least == figure, "the figure is kept"


def test_a_missing_baseline_takes_its_blocks_only(tmp_path: Path) -> None:
    """As after a kill in the middle of a block: no trial, not a failed one."""

    def change(event: Event) -> Event | None:
        gone = event["environment"] == "native" and event["block"] in (2, 5, 9)
        return None if gone else event

    analysis, answer = _altered(tmp_path, change)
    c = _cpu(analysis)
    assert (c.pairs, analysis.blocks) == (9, 9)
    assert [p.block for p in c.points] == [0, 1, 3, 4, 6, 7, 8, 10, 11]
    assert c.interval is not None
    assert c.interval.n == 9
    assert "9 blocks" in answer


def test_a_baseline_that_is_never_there(tmp_path: Path) -> None:
    analysis, answer = _altered(
        tmp_path, lambda event: None if event["environment"] == "native" else event
    )
    assert all((c.pairs, c.interval) == (0, None) for c in analysis.primary())
    assert "0 blocks are too few" in answer


@pytest.mark.parametrize("figure", [math.nan, math.inf, -math.inf, 1e300, 5e-324])
@pytest.mark.parametrize("curve", [False, True])
def test_what_is_no_number_is_refused(tmp_path: Path, figure: float, curve: bool) -> None:
    work = CURVE_WORKLOAD if curve else CPU

    def change(event: Event) -> Event:
        if (event["environment"], event["block"]) == ("lxc", 3):
            name = work.metrics[0].name
            event["metrics"][name] = [[64.0, figure]] if curve else figure
        return event

    with pytest.raises(UllageError) as caught:
        _altered(tmp_path, change, workloads=[work])
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    assert work.metrics[0].name in caught.value.message


def test_a_run_without_a_primary_metric(tmp_path: Path) -> None:
    metrics = tuple(m.model_copy(update={"primary": False}) for m in CPU.metrics)
    analysis, answer = _analysed(tmp_path, workloads=[CPU.model_copy(update={"metrics": metrics})])
    assert (analysis.family, analysis.resources) == (0, ())
    assert answer.startswith("No metric of this run is a primary one: nothing is judged.")
    assert all(c.verdict is None and c.interval for c in analysis.comparisons if c.ratio)


def test_a_run_of_the_baseline_alone(tmp_path: Path) -> None:
    analysis, answer = _analysed(tmp_path, environments=ENVIRONMENTS[:2])
    assert analysis.comparisons == ()
    assert answer.startswith("This run compares nothing with native.")
    assert len(analysis.again) == 2


figures = st.sampled_from(
    [
        st.floats(-74, 74).map(lambda power: 10.0**power),
        st.floats(0.999, 1.001),
        st.sampled_from([1.0, 1.0, 1.0, 1e75, 1e-75]),
        st.sampled_from([-1.0, 0.0, 1.0]),
    ]
)


@settings(max_examples=20, deadline=None)
@given(data=st.data(), design=st.sampled_from(["solo", "nested"]))
def test_any_figures_get_an_answer(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, design: str
) -> None:
    """Whatever can be measured: far apart, nearly equal, equal, extreme, of any sign."""
    path = tmp_path_factory.mktemp("any")
    figure = data.draw(figures)
    design_options = {"blocks_each": 2} if design == "nested" else {}

    def change(event: Event) -> Event:
        return event | {"metrics": {"events_rate": data.draw(figure)}}

    options = {"workloads": [CPU], "failures": [], "blocks": 12, **design_options}
    run = make_run(path / "run", raw=False, environments=ENVIRONMENTS[:3], **options)  # type: ignore[arg-type]
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    changed = [change(e) if e["event"] == "trial" else e for e in events]
    (run / "journal.jsonl").write_text("".join(json.dumps(e) + "\n" for e in changed))
    analysis = overhead.analyse(RunFolder.open(run))
    json.dumps(analysis.dump(), allow_nan=False)
    text = "\n".join([*sentences.answer(analysis), *lines(analysis)])
    assert "nan" not in text.split() and "inf" not in text.split()
    for c in analysis.primary():
        assert c.verdict in ("worse", "better", "equivalent", "inconclusive") or c.no_verdict
