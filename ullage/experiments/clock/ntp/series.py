"""From readings of a guest's clocks to the corrections that its daemon made.

Nothing here knows of chrony: the kernel's clock discipline and the clocks themselves were read at
a fixed rate, and CLOCK_MONOTONIC_RAW is what no daemon can change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ullage.common.clock_model import FrozenModel
from ullage.stats import Floats

if TYPE_CHECKING:
    from ullage.host.clock import Fix

Integers = NDArray[np.int64]

_COLUMNS: Final = 6
_TICK_US: Final = 10_000
"""adjtimex(2): the tick that neither gains nor loses, at 100 Hz."""
_SCALED_PPM: Final = 65536e6
_STEP_NS: Final = 50_000
"""A change of the clock that the kernel's rate leaves unexplained by more is a step."""


class SeriesError(ValueError):
    """Readings that cannot be used."""


class ClockCorrection(FrozenModel):
    """What was done to the clock while the kernel's rate stayed as it was, or at once."""

    at_ns: int
    """When it began, in true time since the first reading."""
    duration_ns: int
    """0 for a step."""
    size_ns: int
    """How far the clock moved against true time: positive: forward."""
    rate_ppb: int
    """Gained against true time for each unit of it; 0 for a step."""
    kind: Literal["step", "slew"]


@dataclass(frozen=True)
class ClockExchange:
    """One exchange of clocks between host and guest."""

    host_ns: int
    """The host's CLOCK_MONOTONIC."""
    guest_mono_ns: int
    """The guest's CLOCK_MONOTONIC at that instant, which its daemon slews."""
    bound_ns: int
    """It may be wrong by this much, either way."""
    fix: Fix | None = None
    """Where our clock in the guest was to that of the host, found out just before."""


@dataclass(frozen=True)
class OscillatorRate:
    """How fast the guest's oscillator really runs."""

    error_ppb: float
    """Positive: it gains on the host's clock."""
    bound_ppb: float
    """Wrong by this much at most, from the round trips alone."""


@dataclass(frozen=True)
class ClockReadings:
    """The readings, one row of each array a sample."""

    raw: Integers
    real: Integers
    mono: Integers
    width: Integers
    kernel: Floats
    """The rate that the kernel was told: 1.0 leaves the counter as it is."""

    @classmethod
    def load(cls, path: Path) -> ClockReadings:
        """What `ntp_sampler.py` printed. SeriesError when it is something else, or too little."""
        # The last line may be cut: the sampler is ended while it writes.
        whole = path.read_text(encoding="ascii", errors="replace").rpartition("\n")[0]
        if not whole:
            raise SeriesError("there are no readings")
        try:
            rows = np.loadtxt(whole.split("\n"), dtype=np.int64, ndmin=2, comments=None)
        except ValueError as error:
            raise SeriesError(f"the readings: {error}") from error
        if rows.shape[1] != _COLUMNS or len(rows) < 2:
            raise SeriesError("the readings are no table of six columns and two rows")
        raw, real, mono, width, tick, frequency = rows.T
        if not (np.diff(raw) > 0).all():
            raise SeriesError("CLOCK_MONOTONIC_RAW went backwards")
        return cls(raw, real, mono, width, tick / _TICK_US + frequency / _SCALED_PPM)

    def rate(self, exchanges: Sequence[ClockExchange]) -> OscillatorRate:
        """The rate of the guest's raw clock against the host's, by least squares.

        The exchanges were on CLOCK_MONOTONIC; the readings lead from there to the raw clock.
        """
        inside = [e for e in exchanges if self.mono[0] <= e.guest_mono_ns <= self.mono[-1]]
        if len(inside) < 2:
            raise SeriesError("fewer than two exchanges of clocks within the readings")
        mono = np.array([e.guest_mono_ns for e in inside])
        host = np.array([e.host_ns for e in inside])
        # Differences first: a double does not hold nanoseconds since the epoch.
        gap = np.interp(mono - self.mono[0], self.mono - self.mono[0], self.raw - self.mono)
        ahead = (mono - mono[0]) - (host - host[0]) + (gap - gap[0])
        slope = stats.linregress((host - host[0]).astype(np.float64), ahead).slope
        bound = (inside[0].bound_ns + inside[-1].bound_ns) / float(host[-1] - host[0])
        return OscillatorRate(float(slope) * 1e9, bound * 1e9)

    def corrections(self, rate: OscillatorRate) -> list[ClockCorrection]:
        """Every stretch in which the kernel kept one rate, and every step.

        Rates that changed more than once between two readings make one stretch.
        """
        true = (self.raw - self.raw[0]) / (1 + rate.error_ppb / 1e9)
        moved = (self.real - self.real[0]) - true
        steps = self._steps()
        edges = np.flatnonzero(np.diff(self.kernel)) + 1
        edges = np.unique(np.concatenate(([0], edges, steps, steps + 1, [len(self.raw) - 1])))
        corrections = []
        at_step = set(steps.tolist())
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            size, long = moved[last] - moved[first], true[last] - true[first]
            step = first in at_step
            corrections.append(
                ClockCorrection(
                    at_ns=round(true[first]),
                    duration_ns=0 if step else round(long),
                    size_ns=round(size),
                    rate_ppb=0 if step else round(size / long * 1e9),
                    kind="step" if step else "slew",
                )
            )
        return corrections

    def unexplained_ns(self) -> Floats:
        """What REALTIME moved from each reading to the next beyond what the kernel's rate says.

        While the rate changes, anything between the old and the new one is explained.
        """
        raw = np.diff(self.raw)
        moved = np.diff(self.real) - raw
        explained = np.stack(((self.kernel[:-1] - 1) * raw, (self.kernel[1:] - 1) * raw))
        return np.asarray(moved - np.clip(moved, explained.min(axis=0), explained.max(axis=0)))

    def unexplained_max_ns(self) -> float:
        """The largest of them, steps left out."""
        unexplained = np.delete(np.abs(self.unexplained_ns()), self._steps())
        return float(unexplained.max(initial=0.0))

    def _steps(self) -> Integers:
        wide = self.width[:-1] + self.width[1:]
        return np.flatnonzero(np.abs(self.unexplained_ns()) > _STEP_NS + wide)
