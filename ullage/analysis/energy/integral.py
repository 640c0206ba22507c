"""The energy of a window: power integrated, or a counter's growth, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ullage.analysis.energy.sampling import Sampled, counted, integrated
from ullage.analysis.energy.series import ChannelSeries
from ullage.runs.records import LATEST_NS
from ullage.stats import Floats
from ullage.stats.uncertainty import averaged, rectangular

COVERAGE: Final = 2.0
"""Factor from a standard uncertainty to that of about 95 % (GUM G.6.6)."""
_BESIDE: Final = 32
"""So many readings beside the window tell how the power changes at its edges."""


@dataclass(frozen=True)
class Missing:
    """Why a window has no energy."""

    code: str
    """`before`, `after`, `zero`, or that of a `Cut`: `gap`, `negative`, `gone` …"""
    message: str


@dataclass(frozen=True)
class Integral:
    """Energy of a window, with standard uncertainties."""

    joules: float
    u_sampling: float
    """J, from what the power may have done between the readings, and when exactly they were."""
    u_resolution: float
    """J, from the step of the meter's values."""
    u_accuracy: float
    """J, from the accuracy that the maker states; 0 where none is stated."""
    window_s: float
    readings: int
    """In the window."""

    @property
    def mean_w(self) -> float:
        """Mean power over the window, W."""
        return self.joules / self.window_s

    @property
    def standard(self) -> float:
        """Combined standard uncertainty, J (GUM 5.1.2)."""
        return math.hypot(self.u_sampling, self.u_resolution, self.u_accuracy)

    @property
    def expanded(self) -> float:
        """Half width of the interval of about 95 %, J."""
        return COVERAGE * self.standard


def integrate(series: ChannelSeries, start_ns: int, end_ns: int) -> Integral | Missing:
    """Energy from `start_ns` to `end_ns`, exactly: edges between two readings are interpolated.

    Missing where that time is not covered by readings on both sides, or something in it is not
    known. ValueError unless the window has a length.
    """
    if not start_ns < end_ns:
        raise ValueError(f"a window from {start_ns} to {end_ns} has no length")
    for cut in series.cuts:
        if cut.start_ns < end_ns and cut.end_ns > start_ns:
            return Missing(cut.code, cut.message)
    near = _near(series, start_ns, end_ns)
    at_s = (series.at_ns[near] - start_ns) / 1e9
    name = series.channel.name
    if at_s.size == 0 or at_s[0] > 0:
        return Missing("before", f"{name} has no reading before its start")
    if at_s[-1] < (end_ns - start_ns) / 1e9:
        return Missing("after", f"{name} has no reading after its end")
    values, window_s = series.values[near], (end_ns - start_ns) / 1e9
    sampled = Sampled(at_s, series.within_ns[near] / 1e9, values, window_s)
    weighed = counted(sampled) if series.channel.kind == "energy" else integrated(sampled)
    joules = float(weighed.weights @ values)
    if joules <= 0:
        return Missing("zero", f"{name} shows no energy in {window_s:.3g} s")
    return Integral(
        joules=joules,
        u_sampling=weighed.standard,
        u_resolution=_resolution(series, weighed.weights, values, window_s),
        u_accuracy=rectangular((series.channel.accuracy or 0.0) * joules),
        window_s=window_s,
        readings=int(((at_s >= 0) & (at_s <= window_s)).sum()),
    )


def _near(series: ChannelSeries, start_ns: int, end_ns: int) -> slice:
    """The readings in and beside the window that no cut parts from it."""
    least = max((cut.end_ns for cut in series.cuts if cut.end_ns <= start_ns), default=0)
    most = min((cut.start_ns for cut in series.cuts if cut.start_ns >= end_ns), default=LATEST_NS)
    first = int(np.searchsorted(series.at_ns, start_ns, side="right")) - 1 - _BESIDE
    last = int(np.searchsorted(series.at_ns, end_ns, side="left")) + 1 + _BESIDE
    return slice(
        max(0, first, int(np.searchsorted(series.at_ns, least, side="left"))),
        min(last, int(np.searchsorted(series.at_ns, most, side="right"))),
    )


def _resolution(series: ChannelSeries, weights: Floats, values: Floats, window_s: float) -> float:
    """q/√12 of each value: of all alike where a steady power is always rounded the same way."""
    step, weighed = series.channel.resolution, values[weights != 0]
    alike = series.channel.kind == "power" and not (
        weighed.size > 1 and step > 0 and averaged(float(weighed.std(ddof=1)), step)
    )
    return rectangular(step / 2) * (window_s if alike else float(np.linalg.norm(weights)))
