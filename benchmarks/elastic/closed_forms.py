"""The simulator where mathematics knows the answer: M/G/∞, Erlang B, Erlang A.

Each row is the mean over seeds with its 99 % interval by Student's t, beside the exact value, which
has to be inside. With so many rows, one in a hundred is expected to miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from scipy import stats

from benchmarks.elastic.simulator_runs import Json, build, simulate
from benchmarks.figures import Figure, main

CONFIDENCE: Final = 0.99
OFFERED: Final = 50.0
"""One viewer in a second, who stays 50 s."""

Value = Callable[[Json], float]


def _spec(seed: int, **changes: Any) -> Json:
    now = {"kind": "fixed", "s": 0.0}
    return {
        "application": {"room": 10},
        "arrivals": {"kind": "poisson", "rate_hz": 1.0},
        "sessions": 100_000,
        "watch": {"kind": "exponential", "mean_s": OFFERED},
        "allocation": {"rows": [{"stages": [{"name": "none", "time": now}]}]},
        "warm_up_s": 1_000.0,
        "points": 0,
        "seed": seed,
        **changes,
    }


def _servers(count: int, waiting_room: int | None) -> Json:
    return {"room": 1, "min_nodes": count, "max_nodes": count, "waiting_room": waiting_room}


def _part(count: str) -> Value:
    def value(steady: Json) -> float:
        return float(steady[count] / steady["requests"])

    return value


def _level(quantity: str, moment: str = "mean") -> Value:
    def value(steady: Json) -> float:
        return float(steady["levels"][quantity][moment])

    return value


def erlang_b(servers: int, offered: float) -> float:
    """Part of all requests that find all servers busy."""
    lost = 1.0
    for n in range(1, servers + 1):
        lost = offered * lost / (n + offered * lost)
    return lost


def erlang_a(servers: int, rate: float, watch_s: float, patience_s: float) -> tuple[float, float]:
    """Part of all requests that lose patience, and how many wait, from the stationary chain."""
    n = np.arange(1, 10_000)
    queue = np.maximum(n - servers, 0)
    leave = np.minimum(n, servers) / watch_s + queue / patience_s
    logs = np.concatenate([[0.0], np.cumsum(np.log(rate / leave))])
    weights = np.exp(logs - logs.max())
    waiting = float((weights[1:] * queue).sum() / weights.sum())
    return waiting / patience_s / rate, waiting


def _cases() -> Iterator[tuple[str, dict[str, Any], list[tuple[str, Value, float]]]]:
    fixed = {"kind": "fixed", "s": OFFERED}
    drawn = {"kind": "exponential", "mean_s": OFFERED}
    heavy = {"kind": "pareto", "least_s": 0.6 * OFFERED, "shape": 2.5}
    for name, watch in (("fixed", fixed), ("exponential", drawn), ("Pareto", heavy)):
        yield (
            f"M/G/∞, {name}",
            {"watch": watch, "patience": {"kind": "fixed", "s": 0.0}},
            [
                ("viewers, mean", _level("watching"), OFFERED),
                ("viewers, variance", _level("watching", "variance"), OFFERED),
            ],
        )
    for name, watch in (("fixed", fixed), ("exponential", drawn)):
        lost = erlang_b(50, OFFERED)
        yield (
            f"Erlang B, 50 servers, {name}",
            {"watch": watch, "application": _servers(50, 0)},
            [
                ("part turned away", _part("turned_away"), lost),
                ("viewers, mean", _level("watching"), OFFERED * (1 - lost)),
            ],
        )
    for patience_s in (10.0, 60.0):
        abandoned, queue = erlang_a(50, 1.0, OFFERED, patience_s)
        yield (
            f"Erlang A, 50 servers, patience {patience_s:g} s",
            {
                "patience": {"kind": "exponential", "mean_s": patience_s},
                "application": _servers(50, None),
            },
            [
                ("part that lost patience", _part("blocked"), abandoned),
                ("waiting, mean", _level("waiting"), queue),
            ],
        )


def measure(quick: bool) -> Iterator[Figure]:
    build()
    seeds = 20 if quick else 100
    for name, changes, values in _cases():
        runs = [simulate(_spec(seed, **changes)).outcome["steady"] for seed in range(1, seeds + 1)]
        for quantity, value, exact in values:
            means = [value(run) for run in runs]
            mean, error = float(np.mean(means)), float(stats.sem(means))
            low, high = stats.t.interval(CONFIDENCE, seeds - 1, mean, error)
            yield Figure(
                f"{name}: {quantity}",
                mean,
                "",
                float(low),
                float(high),
                peer="closed form",
                peer_value=exact,
                reach="inside the 99 % interval",
                holds=bool(low <= exact <= high),
            )


if __name__ == "__main__":
    main(measure, __doc__ or "")
