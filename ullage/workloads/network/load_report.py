"""The JSON that `ullage-load` prints: what all its reports share."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final

from pydantic import Field

from ullage.runs.records import Curve
from ullage.workloads.base import GeneratorError, InvalidTrialError
from ullage.workloads.output import SAMPLES_ABOVE, Count, ReportPart, quoted

PROGRAM: Final = "ullage-load"

PRECISION: Final = 2e-3
"""Times are kept to three digits."""

Time = Annotated[float, Field(gt=0, lt=1e6)]


class TimeDistribution(ReportPart):
    """Of times, in seconds."""

    count: Count
    mean_s: Time
    min_s: Time
    max_s: Time
    quantiles: list[tuple[float, Time]] = Field(min_length=1, max_length=20)

    @property
    def curve(self) -> Curve:
        return list(self.quantiles)

    @property
    def median(self) -> float:
        """Half of the events took no longer; seconds."""
        return self.quantiles[0][1]


class LoadReport(ReportPart):
    """What every report says of itself."""

    mode: str
    valid: bool
    reason: str | None


def check_valid(report: LoadReport) -> None:
    """Raise GeneratorError when the generator itself was not as good as it has to be."""
    if not report.valid or report.reason is not None:
        raise GeneratorError(quoted(report.reason or "it does not say why it is not valid"))


def check_distribution(
    name: str, distribution: TimeDistribution | None, events: int
) -> TimeDistribution:
    """It is of so many events, in order, and no further out than they support."""
    if distribution is None or events == 0:
        raise InvalidTrialError(f"{name}: nothing was timed")
    if distribution.count != events:
        raise InvalidTrialError(f"{name}: {events} events, {distribution.count} were timed")
    shares = [share for share, _ in distribution.quantiles]
    times = [distribution.min_s, *(time for _, time in distribution.quantiles), distribution.max_s]
    if shares[0] != 0.5 or not all(a < b < 1 for a, b in pairwise(shares)):
        raise InvalidTrialError(f"{name}: these are not its quantiles: {shares}")
    if not all(a <= b * (1 + PRECISION) for a, b in pairwise(times)):
        raise InvalidTrialError(f"{name}: its quantiles do not rise")
    if any(events * (1 - share) < SAMPLES_ABOVE * (1 - PRECISION) for share in shares[1:]):
        raise InvalidTrialError(f"{name}: {events} events do not have the quantile {shares[-1]}")
    return distribution
