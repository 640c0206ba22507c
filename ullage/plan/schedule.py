"""The order of trials: seeded, balanced, the same again for the same seed.

A block runs every cell once. Within a block the workloads (groups) come in random order; within a
group all environments run back to back, so that a pair is seconds apart. Over `2n` consecutive
blocks of `n` environments the order follows Williams' design (E. J. Williams, 1949, "Experimental
designs balanced for the estimation of residual effects of treatments"): every environment stands
equally often at every place and equally often right after every other one.

In a duet (Bulej et al. 2020, "Duet benchmarking: improving measurement accuracy in the cloud",
arXiv 2001.05811) what stands in this order is a pair: an environment and the baseline at the same
time, each on its side of the CPUs. In every two blocks each pair runs once either way round.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ullage.environments.placement import Side


@dataclass(frozen=True)
class Slot:
    """One trial to come."""

    block: int
    order: int
    """Place in the block, from 0."""
    position: int
    """Place among the environments, or pairs, of its group, from 0."""
    environment: str
    workload: str
    partner: str | None = None
    """Of a duet: the environment that runs at the same time."""
    side: Side | None = None
    """Of a duet: which of the two sets of CPUs it has."""

    @property
    def trial(self) -> str:
        """Name of the trial: `b003-t017`."""
        return f"b{self.block:03d}-t{self.order:03d}"


Turn = tuple[Slot, ...]
"""Trials that run at the same time: one, or the two of a duet, the environment's first."""
Left = Collection[tuple[str, str]]
"""(Environment, workload) of the cells that have left the run: they are in no later block."""


def duet(
    seed: int,
    number: int,
    others: Sequence[str],
    workloads: Sequence[str],
    baseline: str,
    *,
    left: Left = (),
) -> tuple[Turn, ...]:
    """The pairs of block `number` (from 0), each other environment with the baseline once."""
    slots = block(seed, number, others, workloads, left=left)
    return tuple(_pair(seed, slot, baseline) for slot in slots)


def generation(number: int, every: int | None) -> int:
    """How often all instances have been made anew when block `number` runs.

    every: how many blocks they live; None: the whole run.
    """
    return 0 if every is None else number // every


def block(
    seed: int,
    number: int,
    environments: Sequence[str],
    workloads: Sequence[str],
    *,
    left: Left = (),
) -> tuple[Slot, ...]:
    """The slots of block `number` (from 0), in the order in which they run.

    Those that stay are in an order that is balanced among them.
    """
    groups = list(workloads)
    random.Random(f"{seed}/groups/{number}").shuffle(groups)
    slots: list[Slot] = []
    for workload in groups:
        staying = [key for key in environments if (key, workload) not in left]
        group = _group(seed, number, staying, workload) if staying else []
        for position, environment in enumerate(group):
            slots.append(Slot(number, len(slots), position, environment, workload))
    return tuple(slots)


def _pair(seed: int, slot: Slot, baseline: str) -> Turn:
    """The environment of the slot and the baseline; sides drawn anew every two blocks."""
    cycle, second = divmod(slot.block, 2)
    drawn = random.Random(f"{seed}/side/{slot.workload}/{slot.environment}/{cycle}").getrandbits(1)
    mine: Side = 1 if drawn ^ second else 0
    theirs: Side = 0 if mine else 1
    return (
        replace(slot, order=2 * slot.order, partner=baseline, side=mine),
        replace(
            slot,
            order=2 * slot.order + 1,
            environment=baseline,
            partner=slot.environment,
            side=theirs,
        ),
    )


def _group(seed: int, number: int, environments: Sequence[str], workload: str) -> list[str]:
    """Row `number` of an endless Williams design, relabelled at random in every cycle."""
    count = len(environments)
    rows = williams(count)
    cycle, row = divmod(number, len(rows))
    rng = random.Random(f"{seed}/order/{workload}/{cycle}")
    labels = list(environments)
    rng.shuffle(labels)
    rng.shuffle(rows)
    return [labels[i] for i in rows[row]]


def williams(count: int) -> list[list[int]]:
    """Rows of a Williams design: `count` of them when that is even, else twice as many."""
    first = [0]
    low, high = 1, count - 1
    while len(first) < count:
        first.append(low if len(first) % 2 else high)
        if len(first) % 2:
            high -= 1
        else:
            low += 1
    rows = [[(item + shift) % count for item in first] for shift in range(count)]
    if count % 2:
        rows += [row[::-1] for row in rows]
    return rows if count > 1 else [[0]]
