"""All regimes and traces are run, on processes, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from benchmarks.statistics import aa_traces, campaign, doc_claims, run_all, sample_size
from benchmarks.statistics.attacks import counts, limits
from benchmarks.statistics.attacks.counts import Struck
from benchmarks.statistics.attacks.regimes import ATTACKS
from benchmarks.statistics.attacks.totals import COUNTS, TIMES
from benchmarks.statistics.campaign import Outcome
from benchmarks.statistics.noise import SYNTHETIC, recorded
from benchmarks.statistics.run_all import Results, Size
from benchmarks.statistics.table import Share
from benchmarks.statistics.traces import all_traces


def test_results_come_in_the_order_of_the_tasks(capfd: pytest.CaptureFixture[str]) -> None:
    tasks = [(text, partial(int, text)) for text in ("3", "1", "2")]
    assert run_all.in_processes(tasks, 2) == [3, 1, 2]
    assert "3/3" in capfd.readouterr().err


def test_a_task_that_fails_ends_it() -> None:
    tasks = [("good", partial(int, "1")), ("bad", partial(int, "one"))]
    with pytest.raises(ValueError, match="one"):
        run_all.in_processes(tasks, 1)


def test_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def here(tasks: Sequence[tuple[str, Callable[[], object]]], _jobs: int) -> list[object]:
        return [task() for _, task in tasks]

    monkeypatch.setattr(run_all, "in_processes", here)
    monkeypatch.setattr(campaign, "run", lambda regime, *_: Outcome(regime))
    monkeypatch.setattr(sample_size, "run", lambda regime, *_: [sample_size.Row(regime, 1.05)])
    monkeypatch.setattr(aa_traces, "run", lambda trace, *_: _null(trace.name))
    monkeypatch.setattr(counts, "strike", lambda attack, *_: Struck(attack, 1))
    results: Results = run_all.run(Size(1, 1, 1, 1, 1, 1), 1)
    assert [struck.attack for struck in results.struck] == list(ATTACKS)
    assert {(paid.times, paid.blocks) for paid in results.paid} == {
        (times.name, blocks) for times in TIMES for blocks in COUNTS
    }
    assert {of.attack for of in results.limits} == {
        attack.name for attack in ATTACKS if limits.memory_of(attack) is not None
    }
    traces = all_traces()
    names = [*SYNTHETIC, *(regime for trace in traces for regime in recorded(trace))]
    assert [o.regime.name for o in results.outcomes] == [regime.name for regime in names]
    assert {row.regime.name for row in results.sample_sizes} == {
        regime.name for regime in names if run_all.comparable(regime)
    }
    assert [null.trace for null in results.nulls] == [trace.name for trace in traces]
    assert {"looks", "duet"} <= {part.__name__ for part in doc_claims.PARTS} and results.doc_claims


def _null(name: str) -> aa_traces.Null:
    none = Share(0, 1)
    return aa_traces.Null(name, 8, 48, 6, none, none, none, none, none)
