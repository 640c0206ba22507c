"""Coefficients of the meter `model` from pairs of power and load, for `ullage meter fit`.

`Coefficients.model_dump_json()` is the file that `fit:` names in a plan. The load is what `model`
recorded beside the other meter with `idle_watts: 0` and `core_watts: 1`: joules are CPU seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ullage.energy.coefficients import FEWEST, Coefficients
from ullage.errors import ENERGY_FIT_POOR, UllageError

_NARROWEST: Final = 0.5
"""Between the least load and the most, in CPUs."""
_COVERED: Final = 0.95


def fit(
    power: Sequence[float],
    load: Sequence[float],
    scope: Literal["wall", "package"] = "wall",
    source: str = "",
) -> Coefficients:
    """The line through power (W) by load (busy CPUs), by least squares.

    Uncertainties are those of ordinary regression (Draper and Smith, Applied Regression Analysis,
    1998, section 1.4): of pairs whose errors are independent, so those of neighbouring readings are
    somewhat larger. ENERGY_FIT_POOR when the readings do not tell a line.
    """
    watts, cpus = np.asarray(power, dtype=float), np.asarray(load, dtype=float)
    _refuse_unfit(watts, cpus)
    line = stats.linregress(cpus, watts)
    idle, core = float(line.intercept), float(line.slope)
    if not core > 2 * line.stderr:
        raise _poor(f"{core:.3g} ± {2 * line.stderr:.2g} W for a busy CPU cannot be told from none")
    if not idle > 0:
        raise _poor(f"the line has {idle:.3g} W without load")
    away = np.abs(watts - (idle + core * cpus)) / (idle + core * cpus)
    accuracy = float(np.quantile(away, _COVERED, method="higher"))
    if not accuracy < 1:
        raise _poor("the readings are further from the line than from nothing")
    return Coefficients(
        idle_watts=idle,
        idle_u_watts=float(line.intercept_stderr),
        core_watts=core,
        core_u_watts=float(line.stderr),
        accuracy=accuracy,
        pairs=len(watts),
        least_load=float(cpus.min()),
        most_load=float(cpus.max()),
        scope=scope,
        source=source,
    )


def _refuse_unfit(watts: NDArray[np.float64], cpus: NDArray[np.float64]) -> None:
    if watts.shape != cpus.shape or len(watts) < FEWEST:
        raise _poor(f"{len(watts)} powers and {len(cpus)} loads, no {FEWEST} pairs")
    for what, values in (("power", watts), ("load", cpus)):
        if not np.isfinite(values).all() or (values < 0).any():
            raise _poor(f"a {what} is negative or no number")
    width = float(np.ptp(cpus))
    if width < _NARROWEST:
        raise _poor(f"the load was between {cpus.min():.2f} and {cpus.max():.2f} busy CPUs only")


def _poor(reason: str) -> UllageError:
    return UllageError(ENERGY_FIT_POOR, reason=reason)
