"""Meters that are read more often than they look: a UPS that is polled, a controller that averages.

Their value stands for several readings, so those between say nothing, and the one at which it
changed is late by up to the time since the reading before it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ullage.stats import Floats

_CHANGES: Final = 6
"""So many whole stretches of equal readings tell how long a value stands."""

_LONGEST_S: Final = 15.0
"""No meter that we know looks less often than that, while a load may well be steady for longer."""
_REGULAR: Final = 0.9

Instants = NDArray[np.int64]


def stands(raw: Floats, every_s: float) -> int:
    """Readings for which a value stands; 1: it may be new at each, or nobody can tell.

    A meter that looks every so often lets a value stand for that time or a multiple of it, give or
    take a reading. A steady load on a coarse meter stands for any time: its plateaus are not to be
    taken for looks.
    """
    changed = np.flatnonzero(np.diff(raw) != 0) + 1
    lengths = np.diff(changed)
    if lengths.size < _CHANGES:
        return 1
    period = int(lengths.min())
    over = lengths % period
    regular = np.mean((over <= 1) | (over == period - 1))
    return period if period * every_s <= _LONGEST_S and regular >= _REGULAR else 1


def renewed(raw: Floats, period: int) -> NDArray[np.int64]:
    """The readings that count, of values that each stand for `period`: where new, and the last."""
    starts = np.concatenate(([0], np.flatnonzero(np.diff(raw) != 0) + 1))
    ends = np.append(starts[1:], raw.size)
    indices = [np.arange(a, b, period) for a, b in zip(starts, ends, strict=True)]
    return np.unique(np.append(np.concatenate(indices), raw.size - 1))


def moved(
    at_ns: Instants, within_ns: Instants, indices: NDArray[np.int64]
) -> tuple[Instants, Instants]:
    """Instants of the kept readings and how sure they are: half-way to the reading before each."""
    since = np.diff(at_ns, prepend=at_ns[:1])[indices]
    return at_ns[indices] - since // 2, within_ns[indices] + (since + 1) // 2
