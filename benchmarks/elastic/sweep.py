"""A sweep of the simulator on two CPUs beside the same one on one of them.

Each is a process that may run on those CPUs only, timed from its first simulation to its last,
without its start; which goes first is drawn. The figure is the geometric mean of the paired ratios
of elapsed time. Two CPUs at most halve it, and whoever else works on them is in it.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from benchmarks.elastic.simulator_runs import application
from benchmarks.figures import Figure, main, needs, none
from ullage.stats.interval import t_interval

AIM: Final = 1.9
NAME: Final = "a sweep of the simulator, 2 CPUs ÷ one: speed"
SEEDS: Final = 32
"""As many simulations, of one point and about the same cost."""
_TIMED: Final = """
import sys, time
from ullage.experiments.elastic.simulator import sweep
texts = sys.stdin.read().split("\\n")
began = time.perf_counter()
sweep.in_threads(texts, lambda *_: None)
print(time.perf_counter() - began)
"""

Cpus = frozenset[int]


def seconds(cpus: Cpus, sessions: int) -> float:
    """Of all simulations, by a process on these CPUs."""
    specification = application(10_000, sessions, "exponential")
    texts = (json.dumps({**specification, "seed": seed, "points": 0}) for seed in range(SEEDS))
    done = subprocess.run(
        ["taskset", "--cpu-list", ",".join(map(str, sorted(cpus))), sys.executable, "-c", _TIMED],
        input="\n".join(texts),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(done.stdout)


def beside(cpus: Sequence[int], pairs: int, took: Callable[[Cpus], float]) -> Figure:
    """In pairs; no figure where there are not two CPUs."""
    if len(cpus) < 2:
        return none(NAME, "×", "there is one CPU here")
    rng = random.Random(13)
    both, one = frozenset(cpus[:2]), frozenset(cpus[:1])
    logs = []
    for _ in range(pairs):
        order = rng.sample((both, one), 2)
        elapsed = {these: took(these) for these in order}
        logs.append(math.log(elapsed[one] / elapsed[both]))
    speed = t_interval(logs, 0.95)
    return Figure(
        NAME,
        speed.estimate,
        "×",
        speed.low,
        speed.high,
        peer="on one CPU",
        peer_value=1.0,
        reach=f"at least {AIM:g}",
        holds=True if speed.low >= AIM else False if speed.high < AIM else None,
        note=f"{pairs} pairs of {SEEDS} simulations",
    )


@needs("taskset")
def measure(quick: bool) -> Iterator[Figure]:
    pairs, sessions = (3, 100_000) if quick else (10, 1_000_000)
    cpus = sorted(os.sched_getaffinity(0))
    yield beside(cpus, pairs, lambda these: seconds(these, sessions))


if __name__ == "__main__":
    main(measure, __doc__ or "")
