"""The simulator beside SimPy, a bare heap and mathematics, and what a billion sessions cost.

SimPy: `simpy_model.py` is the same application, with its nodes indexed by how full they are, so
that what is compared is the machinery and not a slow search. CPU time for a session, in pairs in
random order; `tests/experiments/elastic/simulator/test_simpy_model.py` compares what both count.
In the published experiment all watch for the same 30 minutes; with exponential times the simulator
has to sort the ends.

Heap: Rust's `BinaryHeap` does nothing but push and pop the ends of the same number of sessions,
with times that were drawn before; the simulator draws, decides, counts and measures besides. How
much of the processor's cache its neighbours leave moves the two differently, for minutes at a time:
hence three times as many pairs. An interval tells of its own minutes only.

Size: CPU time for a session with 10^6, 10^7 … sessions at 10,000 viewers at a time, and the most
memory that the process had. 10^9 only without `--quick`: some minutes.

Closed forms: see `closed_forms.py`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from benchmarks.elastic import closed_forms
from benchmarks.elastic.simulator_runs import Run, application, build, heap, simpy, simulate
from benchmarks.figures import Figure, lacks, main, median_interval, needs, none
from ullage.stats.interval import t_interval

SIMPY_SESSIONS: Final = 40_000
SESSIONS: Final = 2_000_000
SPEED_AIM: Final = 80.0
HEAP_AIM: Final = 0.8
GROWTH_AIM: Final = 1.3
MEMORY_AIM: Final = 2 << 30


def _pairs(
    ours: Callable[[int], float], peer: Callable[[int], float], pairs: int
) -> tuple[list[float], list[float]]:
    """Logarithms of peer ÷ ours, and ours; who goes first is drawn."""
    rng = random.Random(11)
    logs: list[float] = []
    own: list[float] = []
    for seed in range(1, pairs + 1):
        took: dict[bool, float] = {}
        first = rng.random() < 0.5
        for ours_now in (first, not first):
            took[ours_now] = ours(seed) if ours_now else peer(seed)
        logs.append(math.log(took[False] / took[True]))
        own.append(took[True])
    return logs, own


def _ratio(name: str, logs: Sequence[float], peer: str, aim: float, note: str) -> Figure:
    interval = t_interval(logs, 0.95)
    return Figure(
        name,
        interval.estimate,
        "×",
        interval.low,
        interval.high,
        peer=peer,
        peer_value=1.0,
        reach=f"at least {aim:g}",
        holds=True if interval.low >= aim else False if interval.high < aim else None,
        note=note,
    )


def _beside_simpy(viewers: int, watch: str, pairs: int) -> Figure:
    name = f"{viewers:,} viewers, {watch} times: speed"
    if why := lacks("simpy"):
        return none(name, "×", why)

    def ours(seed: int) -> float:
        return simulate(application(viewers, SESSIONS, watch, seed)).cpu_s / SESSIONS

    def theirs(seed: int) -> float:
        sessions = max(SIMPY_SESSIONS, 4 * viewers)
        return float(simpy(application(viewers, sessions, watch, seed))["cpu_s"]) / sessions

    logs, own = _pairs(ours, theirs, pairs)
    return _ratio(
        name,
        logs,
        "SimPy",
        SPEED_AIM,
        f"{pairs} pairs; {median_interval(own).estimate * 1e9:.0f} ns for a session",
    )


def _beside_heap(pending: int, watch: str, pairs: int) -> Figure:
    def ours(seed: int) -> float:
        # What it takes until there are as many as there will be is left out, as it is of the heap.
        start, whole = 5 * pending, 5 * pending + SESSIONS
        short = simulate(application(pending, start, watch, seed)).cpu_s
        return simulate(application(pending, whole, watch, seed)).cpu_s - short

    logs, own = _pairs(ours, lambda _: heap(pending, SESSIONS), pairs)
    rate = 2 * SESSIONS / median_interval(own).estimate
    return _ratio(
        f"{pending:,} pending, {watch} times: speed",
        logs,
        "a bare binary heap in Rust",
        HEAP_AIM,
        f"{pairs} pairs; {rate / 1e6:.1f} M arrivals and ends a second",
    )


def _growth(quick: bool) -> list[Figure]:
    most = 7 if quick else 9
    few = [_large(6, seed) for seed in range(1, 4)]
    many = [_large(most, seed) for seed in range(1, 4 if quick else 2)]
    base = median_interval([run.cpu_s / 10**6 for run in few]).estimate
    cost = median_interval([run.cpu_s / 10**most for run in many]).estimate
    memory = max(run.memory_bytes for run in many)
    note = f"{cost * 1e9:.0f} ns for a session"
    return [
        Figure(
            f"cost of a session of 10^{most} ÷ of one of 10^6",
            cost / base,
            "×",
            peer="10^6 sessions",
            peer_value=1.0,
            reach=f"at most {GROWTH_AIM:g} × at 10^9",
            holds=None if quick else cost / base <= GROWTH_AIM,
            note=note,
        ),
        Figure(f"CPU time of 10^{most} sessions", max(run.cpu_s for run in many), "s"),
        Figure(
            f"memory of 10^{most} sessions",
            memory,
            "B",
            peer="10^6 sessions",
            peer_value=max(run.memory_bytes for run in few),
            reach=f"at most {MEMORY_AIM:.3g} B at 10^9",
            holds=None if quick else memory <= MEMORY_AIM,
        ),
    ]


def _large(power: int, seed: int) -> Run:
    return simulate(application(10_000, 10**power, "exponential", seed))


@needs("cargo")
def measure(quick: bool) -> Iterator[Figure]:
    build()
    pairs = 5 if quick else 20
    for viewers in (1_000, 10_000):
        yield _beside_simpy(viewers, "fixed", pairs)
    yield _beside_simpy(1_000, "exponential", pairs)
    for watch in ("exponential", "fixed"):
        yield _beside_heap(100_000, watch, 3 * pairs)
    yield from _growth(quick)
    yield from closed_forms.measure(quick)


if __name__ == "__main__":
    main(measure, __doc__ or "")
