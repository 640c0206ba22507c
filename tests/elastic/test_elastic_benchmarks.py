"""What the benchmarks of elasticity print when something in them fails, or is worth nothing."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.elastic import allocation, twin, viewers
from benchmarks.elastic.__main__ import BENCHMARKS
from benchmarks.figures import Figure, main_of_all
from tests.synthetic import WORKLOADS, make_run
from ullage.elastic.reading import ElasticRun
from ullage.folder import RunFolder
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
    assert ended.value.code == "without rows, as they failed: broken"  # status 1
    said = capsys.readouterr()
    assert [(each["name"], each["value"]) for each in json.loads(said.out)] == [
        ("first", 2.0),
        ("second", 2.0),
    ]
    assert "no such tool" in said.err


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
    made = make_run(
        tmp_path / "run",
        blocks=BLOCKS,
        workloads=[load],
        failures=[(block, "vm", load.key) for block in range(BLOCKS)] + [(0, "lxc", load.key)],
        raw=False,
    )
    rows = {figure.name: figure for figure in allocation.rows(RunFolder.open(made))}
    assert len(rows) == 2 * 4
    for name in ("TaR", "TlR"):
        lost = rows[f"{name}, qemu-tcg (emulated), allocate 1"]
        assert math.isnan(lost.value)
        assert (lost.low, lost.high, lost.holds) == (None, None, None)
        assert lost.note.startswith(f"{BLOCKS} failed: ")
    one = rows["TaR, LXC, allocate 1"]
    assert "2 trials, 1 failed" in one.note
    assert one.note.startswith("geometric mean; arithmetic ")
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    main_of_all({"rows": lambda _: list(rows.values())}, "all")
    assert "no figure" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--json"])
    main_of_all({"rows": lambda _: list(rows.values())}, "all")
    values = {each["name"]: each["value"] for each in json.loads(capsys.readouterr().out)}
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
    monkeypatch.setattr(viewers, "watch", lambda _: viewers.Ran(summary, 1e4))
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
    left = iter(runs)
    monkeypatch.setattr(viewers, "_begun", lambda stalled: next(left) if stalled else 1.0)
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
    for found in ({("lxc-40", n): good for n in range(3)}, {}):
        monkeypatch.setattr(twin, "twins", lambda _, found=found: found)
        none, some, every = twin.rows(cast(ElasticRun, run))
        assert math.isnan(none.value)
        assert none.note == "3 repetitions without figures, none with"
        assert math.isnan(some.value) is math.isnan(every.value) is (not found)
        assert (none.holds, some.holds, every.holds) == (None, None, None)
        assert every.reach == "within ±0.5"
