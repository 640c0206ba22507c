"""Runs against runs: a change that is there is found, one that is not is not."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, TRUTH, WORKLOADS, make_run
from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.analysis.runchanges import CURVE, Changes, ComparedRun, compare
from ullage.cli.output import compare as output
from ullage.common import errors
from ullage.runs.reader import RunFolder
from ullage.stats.interval import moments
from ullage.stats.unpaired import difference

CELL = ("container", "iperf3")
logs = st.lists(st.floats(-2, 2), min_size=2, max_size=40)


def run(path: Path, **options: object) -> ComparedRun:
    return ComparedRun.of(RunFolder.open(make_run(path, raw=False, failures=(), **options)))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> ComparedRun:
    return run(tmp_path_factory.mktemp("runs") / "first", blocks=30, noise_sd=0.05)


@given(logs, logs)
def test_the_difference_is_welchs(mine: list[float], theirs: list[float]) -> None:
    a, b = moments(mine), moments(theirs)
    moments_of_change = difference(a, b)
    assert moments_of_change.mean == pytest.approx(a.mean - b.mean)
    if min(a.deviation, b.deviation) < 1e-6:
        return
    reference = stats.ttest_ind(mine, theirs, equal_var=False)
    assert moments_of_change.mean / moments_of_change.error == pytest.approx(reference.statistic)
    assert reference.df - 1 < moments_of_change.df <= reference.df + 1e-6


def by_cell(changes: Changes) -> dict[tuple[str, str], str | None]:
    return {(c.environment, c.workload): c.verdict for c in changes.changes}


def test_a_change_is_found_and_nothing_else(tmp_path: Path, first: ComparedRun) -> None:
    truth = {**TRUTH, CELL: TRUTH[CELL] * 1.3}
    later = run(tmp_path / "later", seed=2, blocks=30, noise_sd=0.05, truth=truth)
    changes = compare(first, [later])
    verdicts = by_cell(changes)
    assert verdicts.pop(CELL) == "worse"
    assert set(verdicts.values()) <= {"inconclusive", "equivalent"}
    changed = next(c for c in changes.changes if (c.environment, c.workload) == CELL)
    assert changed.change is not None
    assert changed.change.low < 1.3 < changed.change.high
    text = output.sentence(changes, changed)
    assert text.startswith("container (crun) in TCP, 1 stream costs 1.")
    assert "more in later than in first (95 % interval 1." in text
    back = compare(later, [first])
    assert by_cell(back)[CELL] == "better"


def test_the_same_precisely_measured_is_equivalent(tmp_path: Path) -> None:
    runs = [run(tmp_path / f"r{i}", seed=i, blocks=60, noise_sd=0.005) for i in (1, 2)]
    assert set(by_cell(compare(runs[0], runs[1:])).values()) == {"equivalent"}


def test_overheads_change_less_than_the_floors_of_both(tmp_path: Path, first: ComparedRun) -> None:
    """What both apparatuses may do alone is no change, however narrow the interval."""
    later = run(tmp_path / "later", seed=2, blocks=30, noise_sd=0.05)
    for c in compare(first, [later]).changes:
        mine, theirs = (
            next(
                x.floor
                for x in changed_run.analysis.primary()
                if (x.environment, x.workload) == (c.environment, c.workload)
            )
            for changed_run in (first, later)
        )
        assert mine is not None and theirs is not None
        assert c.floor == pytest.approx(mine * theirs)


def test_makings_count_where_instances_were_made_anew(tmp_path: Path) -> None:
    runs = [
        run(tmp_path / f"r{i}", seed=i, blocks=24, noise_sd=0.02, blocks_each=3, between_sd=0.1)
        for i in (1, 2)
    ]
    for c in compare(runs[0], runs[1:]).changes:
        assert c.change is not None
        assert c.change.n <= 15, "eight makings each, not 24 blocks"


def test_a_curve_has_no_verdict(tmp_path: Path) -> None:
    works = (WORKLOADS[0], CURVE_WORKLOAD)
    runs = [run(tmp_path / f"r{i}", seed=i, blocks=12, workloads=works) for i in (1, 2)]
    curves = [c for c in compare(runs[0], runs[1:]).changes if c.workload == CURVE_WORKLOAD.key]
    assert {c.no_verdict for c in curves} == {CURVE}
    assert {c.verdict for c in curves} == {None}


def test_few_blocks_are_no_verdict_and_say_so(tmp_path: Path, first: ComparedRun) -> None:
    later = run(tmp_path / "later", blocks=1)
    changes = compare(first, [later])
    assert {c.verdict for c in changes.changes} == {None}
    assert {c.change for c in changes.changes} == {None}
    assert all(c.no_verdict for c in changes.changes)
    assert (
        "no verdict in later" in output.answer(changes)[0]
        or "no change" in output.answer(changes)[0]
    )


def other_parameters(path: Path) -> ComparedRun:
    first_work = WORKLOADS[0]
    changed = first_work.model_copy(update={"parameters": {**first_work.parameters, "x": 1}})
    return run(path, blocks=12, workloads=(changed, *WORKLOADS[1:]))


def test_work_that_is_not_the_same_is_left_out(tmp_path: Path, first: ComparedRun) -> None:
    changes = compare(first, [other_parameters(tmp_path / "later")])
    assert WORKLOADS[0].key not in {c.workload for c in changes.changes}
    assert any("other parameters (x)" in text for text in changes.left_out)


def without_anything_shared(path: Path) -> ComparedRun:
    renamed = WORKLOADS[0].model_copy(update={"key": "mine"})
    return run(path, workloads=(renamed,), truth={})


def on_another_baseline(path: Path) -> ComparedRun:
    moved = [
        e.model_copy(update={"provider": "lxc"}) if e.key == "native" else e for e in ENVIRONMENTS
    ]
    return run(path, environments=moved)


def beside_each_other(path: Path) -> ComparedRun:
    return run(path, design="duet")


@pytest.mark.parametrize(
    ("make_run", "reason"),
    [
        (without_anything_shared, "share no environment"),
        (on_another_baseline, "baselines are not alike"),
        (beside_each_other, "one is solo, the other duet"),
    ],
)
def test_runs_that_are_not_alike_are_refused(
    tmp_path: Path, first: ComparedRun, make_run: Callable[[Path], ComparedRun], reason: str
) -> None:
    with pytest.raises(errors.UllageError, match=reason) as caught:
        compare(first, [make_run(tmp_path / "later")])
    assert caught.value.kind is errors.RUNS_NOT_ALIKE


def test_what_else_differs_is_told(tmp_path: Path, first: ComparedRun) -> None:
    changed = [
        e.model_copy(update={"treatments": {**e.treatments, "kernel": "9.9"}})
        if e.key == "container"
        else e
        for e in ENVIRONMENTS
    ]
    changes = compare(first, [run(tmp_path / "later", environments=changed)])
    assert changes.differs == ("later: other treatments of container than in first: kernel",)
    assert any("native itself in CPU" in text for text in changes.baselines)


def ullage(*argv: str) -> Done:
    return commandkit.ullage("compare", *argv)


def test_the_command(tmp_path: Path, first: ComparedRun) -> None:
    later = run(tmp_path / "later", seed=2, blocks=30, noise_sd=0.05)
    runs = (str(first.folder.path), str(later.folder.path))
    done = ullage(*runs, "--json", "--out", str(tmp_path / "changes.csv"))
    assert done.code == 0, done.stderr
    answer = json.loads(done.stdout)
    rows = (tmp_path / "changes.csv").read_text().splitlines()
    assert len(rows) == 1 + len(answer["changes"])
    assert math.isfinite(answer["changes"][0]["change"]["estimate"])
    printed = ullage(*runs)
    assert "overhead of" in printed.stdout
    assert "native itself" in printed.stderr
    refused = ullage(*runs, "--margin", "3%")
    assert refused.code == 2
    assert "--margin is for a table" in refused.stderr
    assert "at least two run folders" in ullage(runs[0]).stderr
    assert "needs --baseline" in ullage(str(tmp_path / "changes.csv")).stderr
