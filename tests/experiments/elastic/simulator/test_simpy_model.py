"""The simulator's peer in SimPy is the same model: both count alike."""

import json
from typing import Any

import pytest

from benchmarks.elastic.closed_forms import erlang_a, erlang_b
from benchmarks.elastic.simpy_model import simulate
from benchmarks.elastic.simulator_runs import application
from ullage import _elastic


def parts(counts: dict[str, int]) -> list[float]:
    """Parts of all requests that were served at once, after a wait, and not at all."""
    ends = [counts["at_once"], counts["waited"], counts["blocked"]]
    assert sum(ends) == counts["requests"]
    return [end / counts["requests"] for end in ends]


@pytest.mark.parametrize("watch", ["fixed", "exponential"])
@pytest.mark.parametrize(("room", "patience_s"), [(10, 8.0), (3, 12.0), (5, 30.0)])
def test_both_count_alike(watch: str, room: int, patience_s: float) -> None:
    # Two in a second for 10 s each: nodes come and go all the time, and many have to wait.
    spec: dict[str, Any] = application(3_600, 20_000, watch, seed=5)
    spec["application"]["room"] = room
    spec["patience"]["s"] = patience_s
    spec["watch"] = {
        "fixed": {"kind": "fixed", "s": 10.0},
        "exponential": {"kind": "exponential", "mean_s": 10.0},
    }[watch]
    ours = parts(json.loads(_elastic.simulate(json.dumps(spec)))["viewers"])
    theirs = parts(simulate(spec))
    # The random numbers differ, and are the same in each run of this test.
    assert ours == pytest.approx(theirs, abs=0.02)
    assert ours[1] + ours[2] > 0.05


def test_closed_forms_are_those_of_the_tables() -> None:
    # Of published tables: 10 Erlang on 10 servers lose 21.5 %.
    assert erlang_b(10, 10.0) == pytest.approx(0.2146, abs=1e-4)
    # With patience as long as service, the chain is M/M/∞: as many leave as if all were served.
    lost, waiting = erlang_a(1, 1.0, 1.0, 1.0)
    assert lost == pytest.approx(waiting) == pytest.approx(2.718281828**-1)
