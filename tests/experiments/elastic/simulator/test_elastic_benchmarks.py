"""What the benchmarks of elasticity print when something in them fails, or is worth nothing."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.elastic import allocation, decisions, paced, policies, published, twin, viewers
from benchmarks.elastic.__main__ import BENCHMARKS
from benchmarks.figures import Figure, main_of_all
from testing.synthetic import WORKLOADS, make_run
from ullage import _elastic
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.runs.reader import RunFolder
from ullage.workloads.provisioning import Provisioning

BLOCKS = 3


def fails(quick: bool) -> list[Figure]:
    raise RuntimeError("no such tool")


def row(name: str) -> Callable[[bool], list[Figure]]:
    return lambda quick: [Figure(name, 2.0 if quick else 1.0, "s")]


def test_one_that_fails_takes_no_rows_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick", "--json"])
    with pytest.raises(SystemExit) as ended:
        main_of_all({"one": row("first"), "broken": fails, "two": row("second")}, "all")
    assert ended.value.code == "failed, so that rows are missing: broken"  # status 1
    output = capsys.readouterr()
    assert [(entry["name"], entry["value"]) for entry in json.loads(output.out)] == [
        ("first", 2.0),
        ("second", 2.0),
    ]
    assert "no such tool" in output.err


def test_all_that_go_well_end_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    main_of_all({"one": row("first")}, "all")
    assert "first" in capsys.readouterr().out


def test_all_parts_are_among_them() -> None:
    """But for the one that takes hours, and what only helps."""
    folder = Path(viewers.__file__).parent
    main = 'if __name__ == "__main__":\n    main(measure'
    parts = {file.stem for file in folder.glob("*.py") if main in file.read_text()}
    assert parts - {"allocation", "closed_forms"} == set(BENCHMARKS)


def test_an_environment_without_figures_has_a_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = tuple(metric for metric in Provisioning.metrics if metric.coordinate is None)
    load = WORKLOADS[0].model_copy(update={"metrics": metrics, "title": "allocate 1"})
    run = make_run(
        tmp_path / "run",
        blocks=BLOCKS,
        workloads=[load],
        failures=[(block, "vm", load.key) for block in range(BLOCKS)] + [(0, "lxc", load.key)],
        raw=False,
    )
    rows = {figure.name: figure for figure in allocation.rows(RunFolder.open(run))}
    assert len(rows) == 2 * 4
    for name in ("TaR", "TlR"):
        lost = rows[f"{name}, qemu-tcg (emulated), allocate 1"]
        assert math.isnan(lost.value)
        assert (lost.low, lost.high, lost.holds) == (None, None, None)
        assert lost.note.startswith(f"{BLOCKS} failed: ")
    row = rows["TaR, LXC, allocate 1"]
    assert "2 trials, 1 failed" in row.note
    assert row.note.startswith("geometric mean; arithmetic ")
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    main_of_all({"rows": lambda _: list(rows.values())}, "all")
    assert "no figure" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--json"])
    main_of_all({"rows": lambda _: list(rows.values())}, "all")
    values = {entry["name"]: entry["value"] for entry in json.loads(capsys.readouterr().out)}
    assert values["TaR, qemu-tcg (emulated), allocate 1"] is None


SUMMARY: dict[str, Any] = {
    "valid": True,
    "why": [],
    "rate_error": 1e-6,
    "delivered_error": 1e-6,
    "most_playing": viewers.MANY,
    "shards": 6,
    "requests": 10,
    "seconds": 10.0,
    "cpu_share": 0.5,
    "lateness_s": {"p99": 1e-4},
    "violations": {"viewers": 0},
    "outcomes": {"failed": 0},
    "memory": {"per_viewer_bytes": 300},
}


@contextmanager
def no_nodes(count: int, *, realtime: bool) -> Iterator[list[object]]:
    yield []


@pytest.mark.parametrize("valid", [True, False])
def test_no_aim_is_held_by_an_invalid_run(monkeypatch: pytest.MonkeyPatch, valid: bool) -> None:
    summary = SUMMARY | ({} if valid else {"valid": False, "why": ["shard 2 was killed"]})
    monkeypatch.setattr(viewers, "nodes", no_nodes)
    monkeypatch.setattr(viewers, "watch", lambda _: viewers.ViewersRun(summary, 1e4))
    monkeypatch.setattr(viewers, "_httperf_at_once", lambda: 1000)
    aims = [figure for figure in viewers._many(True) if figure.reach]
    assert len(aims) == 2
    assert [figure.holds for figure in aims] == [True if valid else None] * 2
    assert all(("invalid: shard 2 was killed" in figure.note) is not valid for figure in aims)


@pytest.mark.parametrize(
    ("runs", "holds"),
    [([1.5], None), ([1.0] * 7, True), ([1.5] * 7, False), ([1.0] * 3 + [1.5] * 4, None)],
)
def test_one_run_decides_nothing_and_seven_by_their_interval(
    monkeypatch: pytest.MonkeyPatch, runs: list[float], holds: bool | None
) -> None:
    remaining = iter(runs)
    monkeypatch.setattr(viewers, "_begun", lambda stalled: next(remaining) if stalled else 1.0)
    assert viewers._stalled(len(runs) == 1).holds is holds
    assert viewers._lateness("plain", [1e-5], [0.5], 0).holds is None
    assert viewers._lateness("plain", [1e-5] * 4 + [1.0] * 3, [0.5] * 7, 3).holds is True
    assert viewers._lateness("plain", [1e-5] * 3 + [1.0] * 4, [0.5] * 7, 4).holds is False


def test_repetitions_without_a_twin_have_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    environments = [SimpleNamespace(key=key) for key in ("lxc-10", "lxc-40")]
    run = SimpleNamespace(
        resolved=SimpleNamespace(environments=environments),
        repetitions=range(6),
        of=lambda _: range(3),
        label=str,
    )
    good = SimpleNamespace(real=0.02, blocked=0.03, difference=0.01)
    for twins in ({("lxc-40", n): good for n in range(3)}, {}):
        monkeypatch.setattr(twin, "twins", lambda _, twins=twins: twins)
        none, some, every = twin.rows(cast(ElasticRun, run))
        assert math.isnan(none.value)
        assert none.note == "3 repetitions without figures, none with"
        assert math.isnan(some.value) is math.isnan(every.value) is (not twins)
        assert (none.holds, some.holds, every.holds) == (None, None, None)
        assert every.reach == "within ±0.5"


def test_every_reading_has_every_published_experiment() -> None:
    experiments = published.experiments()
    exact = [[experiment.blocked] * 2 for experiment in experiments]
    off = [[max(0.0, 2 * experiment.blocked - 0.1), 0.1] for experiment in experiments]
    first, *others = published.READINGS
    rows = published.rows(experiments, {**dict.fromkeys(others, off), first: exact})
    distances, blocked_rows = rows[: len(published.READINGS)], rows[len(published.READINGS) :]
    assert (distances[0].name.endswith(first.name), distances[0].value) == (True, 0.0)
    assert distances[1].value > 0
    names = {
        f"PcBl, {reading.name}: {one.name}" for reading in (first, *others) for one in experiments
    }
    assert {figure.name for figure in blocked_rows} == names
    assert len(blocked_rows) == len(experiments) * len(published.READINGS)
    for figure, experiment in zip(blocked_rows, experiments, strict=False):  # the nearest is first
        assert figure.value == pytest.approx(figure.peer_value)
        assert figure.peer_value == pytest.approx(100 * experiment.blocked)
        assert (figure.low, figure.high) == (None, None)  # all seeds agree
    assert any(figure.low is not None for figure in blocked_rows)


def test_every_policy_is_beside_the_same_viewers_of_elastic_movie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policies, "DEMANDS", {"steady": policies.DEMANDS["steady"]})
    figures = {figure.name: figure for figure in policies.measure(True)}
    assert len(figures) == len(policies.FIGURES) * len(policies.POLICIES)
    base, spare = (figures[f"PcBl, steady: {name}"] for name in ("elastic-movie", "spare, 1 node"))
    assert (base.peer, base.note) == ("", "")
    assert spare.peer_value == base.value
    assert spare.value < base.value
    paired = re.fullmatch(r"(\S+) pp \((\S+) to (\S+)\)", spare.note)
    assert paired
    middle, low, high = map(float, paired.groups())
    assert middle == pytest.approx(spare.value - base.value, rel=1e-3)
    assert low < middle < high < 0


def test_every_policy_is_one_that_there_is() -> None:
    assert {policy["name"] for policy in policies.POLICIES.values()} == set(_elastic.policies())


def test_decisions_have_a_row_for_each_size_and_kind_of_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(nodes: int) -> dict[str, float]:
        return {"viewers": 90 * nodes, "any_ids": 1e9 / nodes, "small_ids": 2e9 / nodes}

    monkeypatch.setattr(decisions, "_run", run)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    figures = {figure.name: figure for figure in decisions.measure(True)}
    assert len(figures) == 6
    slow = figures["decisions, 900,000 viewers, any ids, as in the front"]
    assert (slow.value, slow.holds) == (1e5, False)
    assert figures["decisions, 360 viewers, small ids, as in the simulator"].value == 5e8


def test_the_pace_of_connections_is_told_by_when_their_requests_began() -> None:
    first = [0.3, 0.0, 0.7]
    even = [start + 1.0 * second for second in range(5) for start in first]
    assert paced.pace_of(even, 3) == pytest.approx((0.0, 0.0))
    late = [begun_s + 0.25 * (begun_s >= 4) for begun_s in even]  # the last request of each
    assert paced.pace_of(late, 3) == pytest.approx((0.25, 1 - 4 / 4.25))
