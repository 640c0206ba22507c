"""Few trials for many settings: two-level fractional designs of resolution IV, and their effects.

In a design of resolution IV no setting's effect is mixed up with that of another one, nor with
what two of them do together (Box & Hunter 1961, Technometrics 3:311).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ullage.stats import Floats
from ullage.stats.interval import check_confidence, t_quantile, t_tail
from ullage.stats.multiple import holm

GENERATORS: Final[dict[int, tuple[int, tuple[tuple[int, ...], ...]]]] = {
    1: (1, ()),
    2: (2, ()),
    3: (3, ()),
    4: (3, ((0, 1, 2),)),
    5: (4, ((0, 1, 2),)),
    6: (4, ((0, 1, 2), (1, 2, 3))),
    7: (4, ((0, 1, 2), (1, 2, 3), (0, 2, 3))),
    8: (4, ((0, 1, 2), (1, 2, 3), (0, 2, 3), (0, 1, 3))),
}
"""Settings → how many are free, and of which of these each other one is the product.

After Box & Hunter 1961, table 1 (2⁴⁻¹, 2⁶⁻², 2⁷⁻³, 2⁸⁻⁴, all IV). Every product is of three, so the
run with nothing changed is in each design.
"""

MOST: Final = max(GENERATORS)


def design(settings: int) -> Floats:
    """Runs × settings, −1 as it was and +1 changed; nothing is changed in the first run.

    ValueError for none, or for more than `MOST`.
    """
    if settings not in GENERATORS:
        raise ValueError(f"{settings} settings, and designs are for 1 to {MOST}")
    free, products = GENERATORS[settings]
    runs = np.array(list(itertools.product((-1.0, 1.0), repeat=free)))
    more = [runs[:, list(columns)].prod(axis=1, keepdims=True) for columns in products]
    whole: Floats = np.hstack([runs, *more])
    return whole


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """What changing a setting does, over all runs with it and without: a ratio, above 1 is worse.

    Of settings that work together (an interaction) it is the square root of how much the effect of
    one differs with the other and without: 1 where they do not.
    """

    settings: tuple[tuple[int, ...], ...]
    """Of one setting: ((3,),). Pairs that the design cannot tell apart: ((0, 1), (2, 3))."""
    ratio: float
    low: float
    high: float
    p: float
    """Adjusted for the whole family, by Holm's procedure."""

    @property
    def is_interaction(self) -> bool:
        return len(self.settings[0]) > 1


def effects(
    log_figures: ArrayLike, settings: int, confidence: float = 0.95
) -> tuple[list[SettingEffect], list[SettingEffect]]:
    """Effects of single settings and of pairs, from blocks × runs of log figures (higher is worse).

    Every block has every run once, so what a block has of its own drops out of each effect. What
    remains between the same run's figures of several blocks is the noise: its variance is of
    (blocks − 1)(runs − 1) degrees of freedom. The intervals of each family hold together, by
    Bonferroni's bound. ValueError under two blocks, or unless all figures are finite.
    """
    check_confidence(confidence)
    y: Floats = np.asarray(log_figures, dtype=np.float64)
    runs = design(settings)
    if y.ndim != 2 or y.shape[1] != len(runs) or len(y) < 2 or not np.isfinite(y).all():
        raise ValueError(f"figures of {y.shape}: at least two blocks of {len(runs)} are needed")
    blocks = len(y)
    rest = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0, keepdims=True) + y.mean()
    df = (blocks - 1) * (len(runs) - 1)
    error = math.sqrt(float((rest**2).sum()) / df / (blocks * len(runs)))
    noise = _Noise(runs, y.mean(axis=0), error, df, confidence)
    singles = [((setting,),) for setting in range(settings)]
    return noise.family(singles), noise.family(aliases(settings))


@dataclass(frozen=True, slots=True)
class _Noise:
    """The means of all runs, and how far chance moves them."""

    runs: Floats
    means: Floats
    error: float
    """Of the mean of all figures; an effect is a difference of halves, so twice as uncertain."""
    df: int
    confidence: float

    def family(self, family: Sequence[tuple[tuple[int, ...], ...]]) -> list[SettingEffect]:
        if not family:
            return []
        columns = [self.runs[:, list(pairs[0])].prod(axis=1) for pairs in family]
        logs = [2 * float(column @ self.means) / len(self.runs) for column in columns]
        error = 2 * self.error
        half = t_quantile(1 - (1 - self.confidence) / (2 * len(family)), self.df) * error
        adjusted = holm([_p(log, error, self.df) for log in logs])
        return [
            SettingEffect(pairs, math.exp(log), math.exp(log - half), math.exp(log + half), p)
            for pairs, log, p in zip(family, logs, adjusted, strict=True)
        ]


def _p(log: float, error: float, df: int) -> float:
    if error == 0:
        return 0.0 if log else 1.0
    return min(1.0, 2 * t_tail(abs(log) / error, df))


def aliases(settings: int) -> list[tuple[tuple[int, ...], ...]]:
    """Pairs of settings, those together whose joint effects the design cannot tell apart."""
    runs = design(settings)
    strings: dict[bytes, list[tuple[int, ...]]] = {}
    for pair in itertools.combinations(range(settings), 2):
        column = runs[:, list(pair)].prod(axis=1)
        strings.setdefault(column.tobytes(), []).append(pair)
    return [tuple(pairs) for pairs in strings.values()]
