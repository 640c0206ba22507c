"""A gate fails what is worse, passes what is within, and says when it knows neither."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from testing.synthetic import ENVIRONMENTS, TRUTH, WORKLOADS, make_run
from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.analysis import gate as gate_module
from ullage.analysis.gate import WRONG_FAIL, WRONG_PASS, Gate, GateFigure, judge, unlike
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.gate import MOST_LOOKS
from ullage.runs.events import Event, Reason, Trial
from ullage.runs.reader import RunFolder
from ullage.workloads.base import GeneratorError

LINE = 0.1
CELL = ("container", "iperf3")
gate_command = commandkit.in_this_process("gate")


def run(path: Path, seed: int, *, slower: float = 1.0, blocks: int = 24, sd: float = 0.02) -> Path:
    """A run in which one cell is so many times as slow as the others."""
    truth = {**TRUTH, CELL: TRUTH[CELL] * slower}
    return make_run(
        path, seed=seed, blocks=blocks, noise_sd=sd, truth=truth, raw=False, failures=()
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("gate")
    for number in range(3):
        run(place / f"base{number}", number)
    run(place / "same", 7)
    run(place / "slow", 8, slower=1.4)
    run(place / "short", 9, blocks=3)
    return place


def opened(runs: Path, *names: str) -> list[RunFolder]:
    return [RunFolder.open(runs / name) for name in names]


def outcomes(gate: Gate) -> dict[tuple[str, str], str]:
    return {(f.environment, f.workload): f.outcome for f in gate.figures}


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_slower_fails_and_is_named(runs: Path, count: int) -> None:
    bases = opened(runs, *(f"base{number}" for number in range(count)))
    gate = judge(opened(runs, "slow")[0], bases, LINE)
    assert gate.outcome == "worse"
    assert {cell for cell, outcome in outcomes(gate).items() if outcome == "worse"} == {CELL}
    figure = next(f for f in gate.figures if (f.environment, f.workload) == CELL)
    assert figure.ratio is not None
    assert figure.ratio.estimate == pytest.approx(1.4, rel=0.1)


def test_what_is_as_it_was_passes(runs: Path) -> None:
    gate = judge(opened(runs, "same")[0], opened(runs, "base0"), 0.5)
    assert gate.outcome == "within"
    assert set(outcomes(gate).values()) == {"within"}


def test_a_fine_line_is_not_decided_by_few_blocks(runs: Path) -> None:
    gate = judge(opened(runs, "short")[0], opened(runs, "base0"), LINE)
    assert gate.outcome == "inconclusive"
    assert all(figure.reason == "3 blocks, and at least 6 are needed" for figure in gate.figures)


def test_runs_that_differ_without_a_cause_are_allowed_for(tmp_path: Path) -> None:
    """One baseline knows nothing of other hours; three tell how much one differs from the next."""
    hours = (1.0, 0.7, 1.5)
    bases = [
        RunFolder.open(run(tmp_path / f"b{number}", number, slower=hour))
        for number, hour in enumerate(hours)
    ]
    new = RunFolder.open(run(tmp_path / "new", 9, slower=1.5))
    few, many = judge(new, bases[:1], 0.02), judge(new, bases, 0.02)
    assert outcomes(few)[CELL] == "worse"
    assert outcomes(many)[CELL] == "inconclusive"
    assert any("what one run differs from the next" in note for note in few.notes)
    assert not any("what one run differs" in note for note in many.notes)


def test_a_reference_takes_out_a_slower_hour(tmp_path: Path) -> None:
    """What all work loses alike is the machine's and no fault of the program."""
    base = run(tmp_path / "base", 1)
    keys = [environment.key for environment in ENVIRONMENTS]
    cells = [(key, workload.key) for key in keys for workload in WORKLOADS]
    truth = {cell: 1.4 * TRUTH.get(cell, 1.0) for cell in cells}
    hour = make_run(
        tmp_path / "hour", seed=2, blocks=24, noise_sd=0.02, truth=truth, raw=False, failures=()
    )
    new, before = RunFolder.open(hour), [RunFolder.open(base)]
    assert judge(new, before, LINE).outcome == "worse"
    related = judge(new, before, LINE, reference=WORKLOADS[0].key)
    assert set(outcomes(related).values()) == {"within"}
    with pytest.raises(UllageError) as refusal:
        judge(new, before, LINE, reference="nothing")
    assert refusal.value.kind is errors.GATE_NO_REFERENCE


def test_a_version_that_loses_trials_fails(tmp_path: Path) -> None:
    base = run(tmp_path / "base", 1)
    failures = tuple((block, *CELL) for block in range(6))
    broken = make_run(tmp_path / "broken", seed=2, blocks=24, failures=failures, raw=False)
    gate = judge(RunFolder.open(broken), [RunFolder.open(base)], 0.5)
    figure = next(f for f in gate.figures if (f.environment, f.workload) == CELL)
    assert (figure.outcome, gate.outcome) == ("failed", "worse")
    assert figure.reason == "6 of 24 trials gave no figure"


def changed(
    folder: RunFolder, change: Callable[[Trial], Mapping[str, float] | None], workload: str = ""
) -> RunFolder:
    """With other figures in the container's iperf3, or another workload; None: the trial failed."""

    def event(old: Event) -> Event:
        if not isinstance(old, Trial):
            return old
        if (old.environment, old.workload) != (CELL[0], workload or CELL[1]):
            return old
        metrics = change(old)
        update = {"status": "failed"} if metrics is None else {"metrics": dict(metrics)}
        return old.model_copy(update=update)

    return replace(folder, events=tuple(map(event, folder.events)))


def figure_of(gate: Gate) -> GateFigure:
    return next(f for f in gate.figures if (f.environment, f.workload) == CELL)


def lower_is_better(folder: RunFolder) -> RunFolder:
    """The same run, had its iperf3 reported something of which 0 is best."""
    workloads = tuple(
        w.model_copy(
            update={"metrics": tuple(m.model_copy(update={"better": "lower"}) for m in w.metrics)}
        )
        for w in folder.resolved.workloads
    )
    resolved = folder.resolved.model_copy(update={"workloads": workloads})
    return replace(folder, resolved=resolved)


def test_a_figure_that_is_zero_is_not_lost(runs: Path) -> None:
    base = lower_is_better(opened(runs, "base0")[0])
    zero = changed(base, lambda trial: dict.fromkeys(trial.metrics, 0.0))
    best = figure_of(judge(zero, [base], LINE))
    assert (best.outcome, best.reason) == ("within", "it is 0 in every trial: none can be better")
    figure = figure_of(judge(base, [zero], LINE))
    assert (figure.outcome, figure.reason) == ("inconclusive", "24 of 24 values are not above 0")
    assert figure.baseline_limits
    negative = changed(base, lambda trial: dict.fromkeys(trial.metrics, -1.0))
    assert figure_of(judge(negative, [base], LINE)).outcome == "inconclusive"


def test_a_lost_reference_is_not_the_programs_fault(runs: Path) -> None:
    base, same = opened(runs, "base0", "same")
    reference = WORKLOADS[0].key
    lost = changed(same, lambda trial: None, reference)
    figure = figure_of(judge(lost, [base], LINE, reference=reference))
    assert figure.outcome == "inconclusive"
    assert figure.reason == "in 24 of 24 trials the reference gave no figure"


def test_a_late_generator_is_not_the_programs_fault(runs: Path) -> None:
    base, same = opened(runs, "base0", "same")
    late = Reason(code=GeneratorError.code, message="the generator was 0.02 s late")
    events = tuple(
        event.model_copy(update={"status": "invalid", "reason": late})
        if isinstance(event, Trial) and (event.environment, event.workload) == CELL
        else event
        for event in same.events
    )
    figure = figure_of(judge(replace(same, events=events), [base], LINE))
    assert figure.outcome == "inconclusive"
    assert figure.reason is not None
    assert figure.reason.startswith("in 24 of 24 trials the generator of the load was late")


def test_what_a_baseline_lacks_is_said_to_limit(runs: Path) -> None:
    """More blocks of the new run help where it is short, and not where a baseline is."""
    short, base = opened(runs, "short", "base0")
    assert not any(figure.baseline_limits for figure in judge(short, [base], LINE).figures)
    assert all(figure.baseline_limits for figure in judge(base, [short], LINE).figures)
    none = changed(base, lambda trial: None)
    figure = figure_of(judge(none, [none], LINE))
    assert (figure.outcome, figure.baseline_limits) == ("inconclusive", True)
    assert figure.reason == "24 of 24 trials gave no figure, as before"


def test_a_baseline_that_lost_few_does_not_excuse_one_that_loses_all(tmp_path: Path) -> None:
    """Fisher's exact test against the baseline that lost most."""

    def lost(name: str, blocks: int) -> RunFolder:
        failures = tuple((block, *CELL) for block in range(blocks))
        return RunFolder.open(
            make_run(tmp_path / name, seed=1, blocks=12, failures=failures, raw=False)
        )

    none, two, three, every = (lost(f"{n}", n) for n in (0, 2, 3, 12))
    figure = figure_of(judge(every, [none, none, two], LINE))
    assert figure.outcome == "failed"
    assert figure.reason == "12 of 12 trials gave no figure, and 2 of 12 before"
    assert figure_of(judge(three, [none, none, two], LINE)).outcome == "inconclusive"
    assert figure_of(judge(every, [none, two, every], LINE)).outcome == "inconclusive"


@pytest.mark.parametrize("change", [{"better": "lower"}, {"unit": "B/min"}])
def test_figures_of_another_kind_are_not_judged(runs: Path, change: dict[str, str]) -> None:
    """`--allow plan` lets the same name be another figure."""
    base, same = opened(runs, "base0", "same")
    first, *others = same.resolved.workloads
    metrics = tuple(metric.model_copy(update=change) for metric in first.metrics)
    workloads = (first.model_copy(update={"metrics": metrics}), *others)
    other = replace(same, resolved=same.resolved.model_copy(update={"workloads": workloads}))
    gate = judge(other, [base], LINE)
    assert gate.figures
    assert first.key not in {figure.workload for figure in gate.figures}
    assert any(first.key in note and "in another unit" in note for note in gate.notes)


def test_figures_of_one_side_are_named(runs: Path) -> None:
    base, same = opened(runs, "base0", "same")
    fewer = same.resolved.model_copy(update={"workloads": same.resolved.workloads[1:]})
    short = replace(same, resolved=fewer)
    name = same.resolved.workloads[0].key
    assert any(
        name in note and note.endswith("only in a baseline")
        for note in judge(short, [base], LINE).notes
    )
    assert any(
        name in note and note.endswith("not in every baseline")
        for note in judge(base, [base, short], LINE).notes
    )


def test_runs_that_share_no_figure_are_refused(runs: Path) -> None:
    base, same = opened(runs, "base0", "same")
    others = replace(same, resolved=same.resolved.model_copy(update={"environments": ()}))
    with pytest.raises(UllageError) as refusal:
        judge(base, [others], LINE)
    assert refusal.value.kind is errors.GATE_NOTHING


def test_a_misspelt_metric_is_refused_beside_a_right_one(runs: Path) -> None:
    base = opened(runs, "base0")[0]
    right = next(m.name for m in base.resolved.workloads[0].metrics if m.primary)
    with pytest.raises(UllageError) as refusal:
        judge(base, [base], LINE, metrics=[right, f"{right}s"])
    assert refusal.value.kind is errors.GATE_NO_METRIC
    assert refusal.value.hint == f"did you mean {right}?"


def test_looks_share_the_error_rate(monkeypatch: pytest.MonkeyPatch, runs: Path) -> None:
    """Under no difference the chances to fail at any of the looks add up to that of one look.

    At each look p is a uniform number, the worst case being that the looks are independent.
    """
    random = np.random.default_rng(1)
    campaigns, failed, passed = 20_000, 0, 0
    for _ in range(campaigns):
        chances = [1 / (k * (k + 1)) for k in range(1, MOST_LOOKS + 1)]
        outcomes_seen = {
            gate_module._outcome(float(p), float(q), spent)
            for spent, p, q in zip(chances, random.random(8), random.random(8), strict=True)
        }
        failed += "worse" in outcomes_seen
        passed += "within" in outcomes_seen
    assert failed / campaigns <= WRONG_FAIL + 4 * math.sqrt(WRONG_FAIL / campaigns)
    assert passed / campaigns <= WRONG_PASS + 4 * math.sqrt(WRONG_PASS / campaigns)
    spent: list[float] = []
    judged = gate_module._judged

    def watched(drafts: Sequence[Any], share: float) -> list[GateFigure]:
        spent.append(share)
        return judged(drafts, share)

    monkeypatch.setattr(gate_module, "_judged", watched)
    base = opened(runs, "base0")
    for look in (0, 1, 2, MOST_LOOKS):
        judge(base[0], base, LINE, look=look)
    assert spent == [1.0, 1 / 2, 1 / 6, 1 / 72]


def test_an_unchanged_program_fails_once_in_a_hundred(tmp_path: Path) -> None:
    """Sixty pairs of runs of one truth: with 1 % each, four failures come once in 500 times."""
    folders = [
        RunFolder.open(run(tmp_path / f"r{seed}", seed, blocks=8, sd=0.05)) for seed in range(16)
    ]
    gates = [judge(a, [b], 0.001) for a in folders[:8] for b in folders[8:]]
    assert sum(gate.outcome == "worse" for gate in gates) <= 4


def test_other_machines_images_and_plans_are_told(runs: Path, tmp_path: Path) -> None:
    base, other = opened(runs, "base0")[0], run(tmp_path / "other", 1)
    resolved = json.loads((other / "resolved.json").read_text())
    resolved["host"]["cpu_model"] = "another"
    resolved["image"]["digest"] = "sha256:0"
    resolved["workloads"][0]["parameters"]["more"] = 1
    (other / "resolved.json").write_text(json.dumps(resolved))
    assert unlike(opened(runs, "same")[0], [base]) == {}
    assert set(unlike(base, [RunFolder.open(other)])) == {"machine", "image", "plan"}


def compare(gate_command: Callable[..., Done], runs: Path, *arguments: str) -> Done:
    return gate_command("compare", *arguments, "--runs", str(runs))


def test_exit_codes_and_forms(
    runs: Path, gate_command: Callable[..., Done], tmp_path: Path
) -> None:
    page, junit = tmp_path / "g.md", tmp_path / "g.xml"
    forms = ("--worse-than", "10%", "--markdown", str(page), "--junit", str(junit))
    failed = compare(gate_command, runs, "base0", "slow", *forms)
    assert failed.code == 1
    assert "is 1.4" in failed.stdout and "shown to be more than 10 % worse" in failed.stdout
    assert page.read_text().startswith("### ullage gate: failed\n")
    suite = ElementTree.parse(junit).getroot()[0]
    assert int(suite.attrib["tests"]) == len(suite)
    assert any(case.find("failure") is not None for case in suite)
    passed = compare(gate_command, runs, "base0", "same", "--worse-than", "50%", "--json")
    document = json.loads(passed.stdout)
    assert (passed.code, document["passed"], document["outcome"]) == (0, True, "within")


@pytest.mark.parametrize(("policy", "code"), [("pass", 0), ("fail", 1)])
def test_inconclusive_is_what_one_chooses(
    runs: Path, gate_command: Callable[..., Done], policy: str, code: int
) -> None:
    line = ("--worse-than", "3%", "--inconclusive", policy)
    assert compare(gate_command, runs, "base0", "short", *line).code == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("base0",), "give a baseline run, or several"),
        (("base0", "same", "--inconclusive", "extend"), "--inconclusive"),
        (("base0", "same", "--allow", "all"), "--allow"),
        (("base0", "nothing"), "run-not-found"),
        (("base0", "same", "--metric", "nothing"), errors.GATE_NO_METRIC.code),
    ],
)
def test_bad_input(
    runs: Path, gate_command: Callable[..., Done], arguments: tuple[str, ...], message: str
) -> None:
    done = compare(gate_command, runs, *arguments, "--worse-than", "3%")
    assert done.code == 2
    assert message in done.stderr


def test_a_foreign_baseline_is_refused_by_name(
    runs: Path, gate_command: Callable[..., Done], tmp_path: Path
) -> None:
    other = run(tmp_path / "foreign", 1)
    resolved = json.loads((other / "resolved.json").read_text())
    resolved["host"]["cpu_model"] = "another"
    (other / "resolved.json").write_text(json.dumps(resolved))
    done = compare(gate_command, runs, str(other), "same", "--worse-than", "50%")
    assert done.code == 2
    assert errors.GATE_NOT_ALIKE.code in done.stderr and "--allow machine" in done.stderr
    allowed = ("--worse-than", "50%", "--allow", "machine")
    assert compare(gate_command, runs, str(other), "same", *allowed).code == 0


def test_what_a_guest_says_is_no_markup(tmp_path: Path) -> None:
    from ullage.cli.output import gate as output

    folder = RunFolder.open(run(tmp_path / "a", 1, blocks=6))
    gate = judge(folder, [folder], LINE)
    figure = gate.figures[0].model_copy(update={"workload_title": "|<script>\x1b[2J`"})
    text = output.markdown(gate.model_copy(update={"figures": (figure,)}), passed=True)
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert "\x1b" not in text


def test_what_a_guest_says_begins_no_line_of_a_summary(tmp_path: Path) -> None:
    from ullage.cli.output import gate as output

    folder = RunFolder.open(run(tmp_path / "a", 1, blocks=6))
    gate = judge(folder, [folder], LINE)
    forged = "x\n\nPassed. Nothing is worse"
    words = {"workload_title": forged, "outcome": "failed", "reason": forged}
    figure = gate.figures[0].model_copy(update=words)
    forged_gate = gate.model_copy(update={"figures": (figure,), "notes": (forged,)})
    lines = output.markdown(forged_gate, passed=False).splitlines()
    assert sum("Nothing is worse" in line for line in lines) == 3
    assert not [line for line in lines if line.startswith("Passed")]


def test_a_regression_fails_also_where_nobody_reads_its_output(runs: Path) -> None:
    """`ullage gate … | grep -q x` with pipefail: the reader goes, the status stays."""
    reading, writing = os.pipe()
    os.close(reading)
    argv = ["gate", "compare", str(runs / "base0"), str(runs / "slow"), "--worse-than", "10%"]
    with os.fdopen(writing, "wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "ullage", *argv],
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
