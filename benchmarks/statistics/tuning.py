"""Does `ullage tune` find the best settings? Planted ones, over the noise that was recorded here.

`python -m benchmarks.statistics.tuning --campaigns 200`

Each campaign draws a response surface of seven settings: two to four of them change the figure by
3 % to 20 %, for better or worse, and one or two pairs of these do a little more or less together.
The other settings do nothing. What a tuning recommends is held against the best of all 128
combinations, which the surface knows; so is what the same number of trials finds that change one
setting at a time, and what the best of all combinations seems to be when each is tried once. One
more way reads the trials of the tuning anew: each beside the one before it, whatever its block.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.statistics.table import Table, show
from benchmarks.statistics.traces import Trace, all_traces, segments
from ullage.experiments.tuning import screening
from ullage.stats import Floats

SETTINGS = 7
BLOCKS = 2
WITHIN = 0.01
"""A recommendation whose figure is so near the best one's has found it."""
ROUNDS = 15
"""Of weighing anew: they no longer move then."""
MAKING = 0.01
"""Standard deviation, in logs, of what a VM has by chance from its making."""

Rng = np.random.Generator


@dataclass(frozen=True)
class Surface:
    """What settings really do, in logs; above 0 is worse."""

    single: Floats
    joint: Floats
    """Settings × settings, of pairs i < j."""

    def __call__(self, levels: Floats) -> Floats:
        """Of combinations × settings, −1 or +1."""
        pairs = np.einsum("ni,ij,nj->n", levels, self.joint, levels)
        values: Floats = levels @ self.single + pairs
        return values


@dataclass(frozen=True)
class Recommendations:
    """Of how many campaigns the recommendation was the best, by one noise."""

    noise: str
    spread: float
    campaigns: int
    tune: int
    proven: int
    """With those changes alone that are proven."""
    neighbours: int
    """By the same trials, each held against the one before it."""
    one_at_a_time: int
    every_once: int
    trials: int
    matrix: int


def draw(rng: Rng) -> Surface:
    single, joint = np.zeros(SETTINGS), np.zeros((SETTINGS, SETTINGS))
    active = rng.choice(SETTINGS, int(rng.integers(2, 5)), replace=False)
    # Half of the difference between changed and not.
    sizes = np.log1p(rng.uniform(0.03, 0.20, active.size)) / 2
    single[active] = sizes * rng.choice((-1, 1), active.size)
    pairs = list(itertools.combinations(sorted(active), 2))
    for number in rng.choice(len(pairs), min(len(pairs), int(rng.integers(1, 3))), replace=False):
        first, second = pairs[number]
        least = min(abs(single[first]), abs(single[second]))
        joint[first, second] = least * rng.uniform(-0.5, 0.5)
    return Surface(single, joint)


def everything() -> Floats:
    return np.array(list(itertools.product((-1.0, 1.0), repeat=SETTINGS)))


Slots = NDArray[np.intp]
Noise = Callable[[int], Floats]
"""So many slots of it, in the order of a run."""


def measured(
    surface: Surface, runs: Floats, blocks: int, noise: Noise, rng: Rng
) -> tuple[Floats, Slots]:
    """Blocks × runs, each block in an order of its own, every VM made anew: figures, and slots."""
    slots = noise(blocks * len(runs)).reshape(blocks, len(runs))
    order = np.argsort(rng.random((blocks, len(runs))), axis=1)
    shuffled = np.take_along_axis(slots, order, axis=1)
    making = rng.normal(0, MAKING, (blocks, len(runs)))
    figures: Floats = surface(runs) + shuffled + making
    return figures, order


def by_neighbours(runs: Floats, figures: Floats, slots: Slots) -> Floats:
    """Settings from the differences of trials that follow each other, those far out weighing less.

    What a busy host does to one trial it does to the next: a difference has little of it. Huber's
    weights, by the median of what remains.
    """
    order = np.argsort(slots, axis=1)
    levels = np.diff(runs[order].reshape(-1, SETTINGS), axis=0)
    y = np.diff(np.take_along_axis(figures, order, axis=1).ravel())
    weights = np.ones(len(y))
    for _ in range(ROUNDS):
        effects = np.linalg.lstsq(levels * weights[:, None], y * weights, rcond=None)[0]
        rest = np.abs(y - levels @ effects)
        scale = np.median(rest) / 0.6745 + 1e-12
        weights = np.sqrt(np.minimum(1.0, scale / np.maximum(rest, 1e-12)))
    return np.where(effects < 0, 1.0, -1.0)


def tuned(figures: Floats) -> tuple[Floats, Floats]:
    """The settings that `ullage tune` takes into its plan, and those that it calls proven."""
    effects, _ = screening.effects(figures, SETTINGS)
    better = np.array([1.0 if effect.ratio < 1 else -1.0 for effect in effects])
    return better, np.array([1.0 if effect.high < 1 else -1.0 for effect in effects])


def one_at_a_time(surface: Surface, trials: int, noise: Noise, rng: Rng) -> Floats:
    """Each setting alone against none, with as many trials; what has the better mean is changed."""
    runs = np.vstack([-np.ones(SETTINGS), 2 * np.eye(SETTINGS) - 1])
    figures, _ = measured(surface, runs, trials // len(runs), noise, rng)
    means = figures.mean(axis=0)
    return np.where(means[1:] < means[0], 1.0, -1.0)


def campaign(surface: Surface, noise: Noise, rng: Rng) -> tuple[bool, bool, bool, bool, bool]:
    """Was the best found: by a tuning, by what it calls proven, by neighbours, one at a time, by
    each once?
    """
    runs, combinations = screening.design(SETTINGS), everything()
    figures, slots = measured(surface, runs, BLOCKS, noise, rng)
    better, proven = tuned(figures)
    beside = by_neighbours(runs, figures, slots)
    alone = one_at_a_time(surface, BLOCKS * len(runs), noise, rng)
    once = measured(surface, combinations, 1, noise, rng)[0][0]
    truth = surface(combinations)

    def good(choice: Floats) -> bool:
        return bool(surface(choice[None])[0] <= truth.min() + np.log1p(WITHIN))

    tried = combinations[int(np.argmin(once))]
    return good(better), good(proven), good(beside), good(alone), good(tried)


def over(trace: Trace, measure: str, campaigns: int, seed: int) -> Recommendations:
    rng = np.random.default_rng(seed)
    column = trace.columns[measure]

    def noise(slots: int) -> Floats:
        row: Floats = segments(column, rng, 1, slots)[0]
        return row

    counts = np.sum([campaign(draw(rng), noise, rng) for _ in range(campaigns)], axis=0)
    tune, proven, neighbours, alone, once = map(int, counts)
    runs = len(screening.design(SETTINGS))
    return Recommendations(
        f"{trace.name}, {measure}",
        float(column.std()),
        campaigns,
        tune,
        proven,
        neighbours,
        alone,
        once,
        trials=BLOCKS * (runs + 1),
        matrix=2**SETTINGS,
    )


def table(results: Sequence[Recommendations]) -> Table:
    first = results[0]
    result = Table(
        "Best settings found by `ullage tune`",
        [
            "noise",
            "its spread",
            "tune",
            "tune, proven alone",
            "neighbours",
            "one at a time",
            "every once",
        ],
        f"Of {first.campaigns} campaigns, {SETTINGS} settings: {first.trials} trials of `tune` (its"
        f" second copies counted), {BLOCKS * len(screening.design(SETTINGS))} that change one at a"
        f" time, {first.matrix} that try every combination once.",
    )
    for row in results:
        shares = (row.tune, row.proven, row.neighbours, row.one_at_a_time, row.every_once)
        result.rows.append(
            [row.noise, f"{row.spread:.1%}", *(f"{n / row.campaigns:.1%}" for n in shares)]
        )
    result.notes.append(f"found: within {WITHIN:.0%} of the best combination's true figure")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics.tuning")
    parser.add_argument("--campaigns", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = [
        over(trace, measure, options.campaigns, options.seed)
        for trace in all_traces()
        for measure in trace.columns
    ]
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        show([table(results)])


if __name__ == "__main__":
    main()
