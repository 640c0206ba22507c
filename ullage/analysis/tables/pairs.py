"""Pairs from a table: two cells, matched by block, all in columns.

The same rules as `ullage.runs.pairs` has for trials: a block in which one side gave no figure loses
its pair and is counted; a zero or a negative figure takes away the ratio of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ullage.analysis.tables.codes import Codes
from ullage.analysis.tables.figures import TableFigure
from ullage.analysis.tables.table import Rows
from ullage.stats import Floats
from ullage.stats.interval import IntervalEstimate, MeanKind
from ullage.stats.verdict import PValues

LEAST_P = 1e-12
"""No smaller p-value is told apart: it would rest on the far tail of an approximation."""
_STEPS, _STEPS_MANY, _MANY = 24, 10, 100_000
"""Halvings on the log scale; fewer for many values, where each costs a pass over them."""


def by_inversion(at: Callable[[float], IntervalEstimate], margin: float, number: int) -> PValues:
    """P-values of a difference and of equivalence from the intervals at all confidences.

    A test of level α rejects a ratio that the interval at 1 − α excludes (Lehmann & Romano 2005,
    §3.5), so the p-value is the least α at which 1 is excluded; for the two one-sided tests, the
    least at which the interval at 1 − 2α lies inside 1/(1+margin) to 1+margin (Schuirmann 1987).
    Rounded up, never down. number: of values, for what the search may cost.
    """
    steps = _STEPS if number < _MANY else _STEPS_MANY
    difference = _least(lambda alpha: _excludes_one(at, 1 - alpha), 1.0, steps)
    equivalence = _least(lambda alpha: _inside(at, 1 - 2 * alpha, margin), 0.5, steps)
    return PValues(difference, equivalence)


def _least(rejects: Callable[[float], bool], most: float, steps: int) -> float:
    """The least level that rejects, to the safe side; 1 when none under `most` does."""
    low, high = math.log(LEAST_P), math.log(most * (1 - 1e-9))
    if not rejects(math.exp(high)):
        return 1.0
    if rejects(LEAST_P):
        return LEAST_P
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if rejects(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _excludes_one(at: Callable[[float], IntervalEstimate], confidence: float) -> bool:
    try:
        return at(confidence).excludes(1.0)
    except ValueError:  # too few values, or a mean not clear of 0, for so much confidence
        return False


def _inside(at: Callable[[float], IntervalEstimate], confidence: float, margin: float) -> bool:
    try:
        interval = at(confidence)
    except ValueError:
        return False
    return 1 / (1 + margin) < interval.low and interval.high < 1 + margin


def halves_repeat(value: Floats) -> bool:
    """Is the second half the first one again, and not just the same value throughout?"""
    half = value.size // 2
    if value.size % 2 or half < 2 or value[0] != value[half]:
        return False
    return bool(np.ptp(value[:half]) > 0 and (value[:half] == value[half:]).all())


_NONE: Final = np.zeros(0)


@dataclass(frozen=True, slots=True)
class CellSide:
    """One cell with one value for each of its blocks, in the order of the blocks."""

    block: Codes
    value: Floats
    """NaN: no measurement of the block gave a figure."""
    generation: Codes | None
    averaged: int
    """Blocks with several values, whose mean stands here."""
    copies: int
    """Rows that are exact copies of another one."""


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """What became of the blocks of two cells."""

    pairs: int
    failed: int
    """Blocks with rows of both sides, but without a figure on one."""
    alone: int
    """Blocks with rows of one side only."""
    no_ratio: int
    """Blocks in which a figure is zero or negative: then there are no pairs at all."""
    both: int
    """Blocks with rows of both sides, whatever became of them."""
    averaged: int
    """Times that a cell has several values in a block."""
    copies: int
    """Rows that are exact copies of another one."""
    crossed: bool
    """Both sides have several generations, but they cannot be told apart: all hang together."""

    @property
    def blocks(self) -> int:
        """Blocks with rows of any side."""
        return self.both + self.alone

    @property
    def dropped(self) -> int:
        """Blocks without a pair."""
        return self.blocks - self.pairs


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two cells, matched."""

    block: Codes
    log_ratios: Floats
    """In the order of the blocks, above 0 is worse."""
    values: tuple[Floats, Floats]
    """Of both sides, pair by pair."""
    groups: Codes | None
    """Of each pair: what is independent of the other pairs; None: all are, as far as is known."""
    counts: BlockCounts


def pair(mine: Rows, theirs: Rows, figure: TableFigure) -> Pairs:
    """Match two cells by block.

    Several values of a cell in one block: their mean, harmonic for rates. Where the numbers of
    blocks begin anew in another generation, a block is one of that generation.
    """
    kind: MeanKind = "harmonic" if figure.is_rate else "arithmetic"
    anew = _begins_anew(mine) or _begins_anew(theirs)
    a, b = (_side(rows, kind, anew) for rows in (mine, theirs))
    at_a, at_b = _common(a.block, b.block)
    x, y = a.value[at_a], b.value[at_b]
    complete = ~(np.isnan(x) | np.isnan(y))
    failed = int(complete.size - np.count_nonzero(complete))
    if failed:
        x, y = x[complete], y[complete]
    bad = (x <= 0) | (y <= 0)
    if no_ratio := int(np.count_nonzero(bad)):
        log_ratios: Floats = _NONE
        x = y = _NONE
        complete = np.zeros_like(complete)
    else:
        log_ratios = np.log(x)
        log_ratios -= np.log(y)
        if figure.better == "higher":
            np.negative(log_ratios, out=log_ratios)
    whole = failed == 0 and no_ratio == 0
    groups, crossed = _groups(a, at_a, b, at_b, slice(None) if whole else complete)
    both = complete.size
    return Pairs(
        block=a.block[at_a] if whole else a.block[at_a][complete],
        log_ratios=log_ratios,
        values=(x, y),
        groups=groups,
        counts=BlockCounts(
            pairs=log_ratios.size,
            failed=failed,
            alone=a.block.size + b.block.size - 2 * both,
            no_ratio=no_ratio,
            both=both,
            averaged=a.averaged + b.averaged,
            copies=a.copies + b.copies,
            crossed=crossed,
        ),
    )


def _begins_anew(rows: Rows) -> bool:
    """Does a block come back in another generation?"""
    if rows.generation is None or rows.block is None:
        return False
    order = np.argsort(rows.block, kind="stable")
    block, generation = rows.block[order], rows.generation[order]
    return bool(((block[1:] == block[:-1]) & (generation[1:] != generation[:-1])).any())


def _side(rows: Rows, kind: MeanKind, anew: bool) -> CellSide:
    assert rows.block is not None
    block, value, generation = rows.block, rows.value, rows.generation
    if anew and generation is not None and block.size:
        block = (generation.astype(np.int64) << 32) + block
    if (block[1:] > block[:-1]).all():
        return CellSide(block, value, generation, 0, 0)
    order = np.argsort(block, kind="stable")
    block, value = block[order], value[order]
    generation = generation if generation is None else generation[order]
    first = np.concatenate(([True], block[1:] != block[:-1]))
    if first.all():
        return CellSide(block, value, generation, 0, 0)
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, block.size))
    return CellSide(
        block[starts],
        _means(value, starts, kind),
        generation if generation is None else generation[starts],
        averaged=int(np.count_nonzero(lengths > 1)),
        copies=_copies(block, value),
    )


def _means(value: Floats, starts: NDArray[np.int64], kind: MeanKind) -> Floats:
    """Of each stretch, without its missing values; NaN where it has no others."""
    missing = np.isnan(value)
    number = np.add.reduceat((~missing).astype(np.float64), starts)
    with np.errstate(divide="ignore", invalid="ignore"):
        if kind == "arithmetic":
            return np.asarray(np.add.reduceat(np.where(missing, 0.0, value), starts) / number)
        inverse = np.add.reduceat(np.where(missing, 0.0, 1 / value), starts)
        means = number / inverse
    # Without a harmonic mean: the least of them says why.
    least = np.minimum.reduceat(np.where(missing, np.inf, value), starts)
    return np.asarray(np.where(least <= 0, least, means))


def _copies(block: Codes, value: Floats) -> int:
    order = np.lexsort((value, block))
    block, value = block[order], value[order]
    return int(np.count_nonzero((block[1:] == block[:-1]) & (value[1:] == value[:-1])))


def _common(a: Codes, b: Codes) -> tuple[Any, Any]:
    """Places of the blocks that both have."""
    if a.size == b.size and (a == b).all():
        return slice(None), slice(None)
    _, at_a, at_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
    return at_a, at_b


def _groups(
    a: CellSide, at_a: Any, b: CellSide, at_b: Any, chosen: Any
) -> tuple[Codes | None, bool]:
    """Which pairs share an instance, on either side: groups that share none are independent.

    Where one side was made once, the other's generations are the groups, and the claim is about
    that one. Where all groups hang together by instances in common, they cannot be told apart.
    """
    if a.generation is None or b.generation is None:
        return None, False
    x, y = a.generation[at_a][chosen], b.generation[at_b][chosen]
    if x.size == 0:
        return None, False
    several_x, several_y = bool((x != x[0]).any()), bool((y != y[0]).any())
    if not (several_x or several_y):
        return None, False
    if not (several_x and several_y) or (x == y).all():
        return (x if several_x else y), False
    size = int(max(x.max(), y.max())) + 1
    edges = coo_array((np.ones(x.size, dtype=np.int8), (x, y + size)), shape=(2 * size, 2 * size))
    _, component = connected_components(edges, directed=False)
    groups = component[x]
    crossed = bool((groups == groups[0]).all())
    return (None if crossed else groups), crossed
