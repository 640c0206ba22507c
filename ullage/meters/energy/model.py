"""Meter `model`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from ullage.common.errors import (
    ENERGY_FIT_POOR,
    ENERGY_METER_ABSENT,
    ENERGY_METER_BAD_ANSWER,
    UllageError,
)
from ullage.meters import procfs
from ullage.meters.energy.base import EnergyMeter, FaultError, MeterOptions, refusal
from ullage.runs.readings import Channel
from ullage.runs.records import Record

FEWEST: Final = 10
"""Pairs of power and load, at least."""


class Coefficients(Record):
    """A line through power by load: the file that `fit:` names in a plan.

    Uncertainties are standard ones (GUM), in W.
    """

    format: Literal[1] = 1
    idle_watts: float = Field(ge=0, allow_inf_nan=False)
    idle_u_watts: float = Field(ge=0, allow_inf_nan=False)
    core_watts: float = Field(ge=0, allow_inf_nan=False)
    core_u_watts: float = Field(ge=0, allow_inf_nan=False)
    accuracy: float = Field(ge=0, lt=1, allow_inf_nan=False)
    """Relative half width about the line within which 95 % of the pairs are."""
    pairs: int = Field(ge=FEWEST)
    least_load: float = Field(ge=0, allow_inf_nan=False)
    most_load: float = Field(ge=0, allow_inf_nan=False)
    """Busy CPUs; beyond it the line is a guess."""
    scope: Literal["wall", "package"]
    source: str = ""
    """What the power was read from."""


_NARROWEST: Final = 0.5
"""Between the least load and the most, in CPUs."""
_COVERED: Final = 0.95


def fit(
    power: Sequence[float],
    load: Sequence[float],
    scope: Literal["wall", "package"] = "wall",
    source: str = "",
) -> Coefficients:
    """The line through power (W) by load (busy CPUs), by least squares, for `ullage meter fit`.

    The load is what `model` recorded beside the other meter with `idle_watts: 0` and
    `core_watts: 1`: joules are CPU seconds.
    Uncertainties are those of ordinary regression (Draper and Smith, Applied Regression Analysis,
    1998, section 1.4): of pairs whose errors are independent, so those of neighbouring readings are
    somewhat larger. ENERGY_FIT_POOR when the readings do not tell a line.
    """
    watts, cpus = np.asarray(power, dtype=float), np.asarray(load, dtype=float)
    _refuse_unfit(watts, cpus)
    line, covariance = np.polyfit(cpus, watts, 1, cov=True)
    core, idle = (float(number) for number in line)
    core_u, idle_u = (float(number) for number in np.sqrt(np.diag(covariance)))
    if not core > 2 * core_u:
        raise _poor(f"{core:.3g} ± {2 * core_u:.2g} W for a busy CPU cannot be told from none")
    if not idle > 0:
        raise _poor(f"the line has {idle:.3g} W without load")
    away = np.abs(watts - (idle + core * cpus)) / (idle + core * cpus)
    accuracy = float(np.quantile(away, _COVERED, method="higher"))
    if not accuracy < 1:
        raise _poor("the readings are further from the line than from nothing")
    return Coefficients(
        idle_watts=idle,
        idle_u_watts=idle_u,
        core_watts=core,
        core_u_watts=core_u,
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
    for quantity, values in (("power", watts), ("load", cpus)):
        if not np.isfinite(values).all() or (values < 0).any():
            raise _poor(f"a {quantity} is negative or no number")
    width = float(np.ptp(cpus))
    if width < _NARROWEST:
        raise _poor(f"the load was between {cpus.min():.2f} and {cpus.max():.2f} busy CPUs only")


def _poor(reason: str) -> UllageError:
    return UllageError(ENERGY_FIT_POOR, reason=reason)


_FIX: Final = "write `idle_watts` and `core_watts`, or make the file with `ullage meter fit`"
_WATTS: Final = 100_000


class ModelOptions(MeterOptions):
    """What a plan may say of `model`: the coefficients, or a file with them."""

    idle_watts: float | None = Field(
        None,
        ge=0,
        le=_WATTS,
        allow_inf_nan=False,
        description="power of the machine that does nothing",
    )
    core_watts: float | None = Field(
        None,
        ge=0,
        le=_WATTS,
        allow_inf_nan=False,
        description="power that a busy CPU adds, as Linux counts CPUs",
    )
    fit: str | None = Field(
        None, min_length=1, description="file with the coefficients, of `ullage meter fit`"
    )
    scope: Literal["wall", "package"] | None = Field(
        None, description="of what the stated watts are: `wall` unless said; a file knows"
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        stated = (self.idle_watts is not None, self.core_watts is not None)
        if self.fit is None and not all(stated):
            raise ValueError("needs `idle_watts` and `core_watts`, or `fit`")
        if self.fit is not None and (any(stated) or self.scope is not None):
            raise ValueError("`fit` stands without `idle_watts`, `core_watts` and `scope`")
        return self


class Model(EnergyMeter):
    """An estimate from how busy the CPUs are: idle power, and so much for each busy CPU.

    E = idle_watts · time + core_watts · CPU seconds that were not idle, from the counters of all
    CPUs in `/proc/stat`, which also tell what went on between two readings. One channel,
    `estimate`, always marked as estimated, and never put together with a figure of an instrument.
    The coefficients are yours, or come from readings of a meter by `ullage meter fit`. It knows
    nothing of frequency, of which instructions run, of memory, disks and cards: with stated
    coefficients its error is not known, with fitted ones `accuracy` says how far 95 % of the
    readings were from the line, on that machine and for that load. In a guest it counts what the
    guest runs; time that the hypervisor took away counts as idle.
    """

    name = "model"
    Options = ModelOptions
    STAT = Path("/proc/stat")

    def __init__(self, options: ModelOptions) -> None:
        super().__init__(options)
        self._idle_w = self._core_w = 0.0
        self._began = (0.0, 0.0)
        self._busy_s = 0.0

    def open(self) -> tuple[Channel, ...]:
        accuracy, scope = None, self.options.scope or "wall"
        idle_w, core_w = self.options.idle_watts, self.options.core_watts
        if self.options.fit is not None:
            fitted = self._fitted(Path(self.options.fit))
            idle_w, core_w = fitted.idle_watts, fitted.core_watts
            accuracy, scope = fitted.accuracy, fitted.scope
        try:
            busy_s = self._busy()
        except FaultError as fault:
            raise refusal(self.name, str(self.STAT), fault, "mount /proc") from fault
        self._idle_w, self._core_w, self._busy_s = idle_w, core_w, busy_s
        self._began = (time.monotonic(), busy_s)
        channel = Channel(
            name="estimate",
            kind="energy",
            method="estimated",
            scope=scope,
            observer="host",
            resolution=self._core_w * procfs.TICK_S,
            accuracy=accuracy,
            source=f"{self._idle_w:g} W + {self._core_w:g} W for each busy CPU ({self.STAT})",
        )
        return (channel,)

    def read(self) -> Mapping[str, float]:
        """Since it was opened."""
        busy_s, now_s = self._busy(), time.monotonic()
        if busy_s < self._busy_s:
            fell = f"CPU time fell from {self._busy_s:g} to {busy_s:g} s"
            raise FaultError("nonsense", fell)
        self._busy_s = busy_s
        seconds, cpu_seconds = now_s - self._began[0], busy_s - self._began[1]
        return {"estimate": self._idle_w * seconds + self._core_w * cpu_seconds}

    def close(self) -> None:
        """Nothing is held."""

    def _busy(self) -> float:
        """CPU seconds since boot in which a CPU did something, of programs, kernel or guests."""
        words = (procfs.read(self.STAT) or "").partition("\n")[0].split()
        if len(words) < 8 or words[0] != "cpu" or not all(word.isdecimal() for word in words[1:8]):
            raise FaultError("nonsense", f"{self.STAT} does not begin with the time of all CPUs")
        user, nice, system, _idle, _iowait, irq, softirq = map(int, words[1:8])
        return (user + nice + system + irq + softirq) * procfs.TICK_S

    def _fitted(self, file: Path) -> Coefficients:
        where = str(file)
        try:
            return Coefficients.model_validate_json(file.read_bytes())
        except OSError as error:
            raise UllageError(
                ENERGY_METER_ABSENT, meter=self.name, where=where, reason=error.strerror, fix=_FIX
            ) from error
        except ValidationError as error:
            reason = f"it holds no coefficients ({error.error_count()} faults)"
            raise UllageError(
                ENERGY_METER_BAD_ANSWER, meter=self.name, where=where, reason=reason, fix=_FIX
            ) from error
