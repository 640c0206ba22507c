"""What a plan says of the links of its network."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from ullage.common.quantities import BitRate, Seconds, digits, prefixed

_BURST_S: Final = 1e-3
"""What passes at once after a rest. A busy host wakes a shorter bucket too late to reach its rate:
1 Gbit/s came out as 0.35 to 0.5 with 0.1 ms and as 0.92 with 1 ms, at a load of 6 on 2 CPUs."""
_LEAST_BURST_BYTES: Final = 2 * 1514
"""Two Ethernet frames."""
_FEWEST_QUEUED: Final = 32
"""Frames: of a slow link, so many wait whatever the time."""


class NetworkLink(BaseModel):
    """What joins each endpoint to the others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate: BitRate = Field(
        ge=1e5,
        le=1e11,
        description="of each instance's link, either way, `1Gbit`: no more than this goes through",
    )
    queue: Seconds = Field(
        0.01, le=10, description="what waits for the link before packets are dropped, as time"
    )

    def __str__(self) -> str:
        """`1.00 Gbit/s`."""
        divisor, unit = prefixed(self.rate, "bit/s")
        return f"{digits(self.rate / divisor)} {unit}"

    @property
    def bucket(self) -> tuple[str, ...]:
        """The words of tc's `tbf`: bits per second, bytes at once, bytes that are held."""
        burst = max(_LEAST_BURST_BYTES, round(self.rate / 8 * _BURST_S))
        held = burst + max(_FEWEST_QUEUED * 1514, round(self.rate / 8 * self.queue))
        return "tbf", "rate", f"{round(self.rate)}bit", "burst", f"{burst}b", "limit", f"{held}b"
