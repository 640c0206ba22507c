"""What the clock knows of this machine, and what it promises: the extension's JSON as models."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, field_validator

WHOLE: Final = 1 << 63
"""No whole number is so far from zero: tables have 64 bits."""
LARGEST: Final = 1e150
"""No other is further: its square is still a number."""


class FrozenModel(BaseModel):
    """Immutable, nothing unknown in it, and no number that cannot be calculated with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        if not _is_bounded(value):
            raise ValueError("a number is too large, or none")
        return value


def _is_bounded(value: Any) -> bool:
    """Models within it have seen to themselves."""
    if isinstance(value, dict):
        return all(map(_is_bounded, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_bounded, value))
    if isinstance(value, int):
        return abs(value) < WHOLE
    return not isinstance(value, float) or abs(value) <= LARGEST


class CounterRate(FrozenModel):
    """Ticks per second of a counter.

    The uncertainties are against CLOCK_MONOTONIC_RAW; None: nobody vouches for it.
    """

    millihertz: int
    """Thousandths of a hertz."""
    sigma_ppb: int | None
    """One standard deviation."""
    bound_ppb: int | None
    """It is not further off while the counter was steady."""
    source: Literal["exact", "crystal", "base-mhz", "hypervisor", "firmware", "fitted"]


class Synchrony(FrozenModel):
    """The counters of the cores, compared by messages between them."""

    cpus: list[int]
    bound_ns: int | None
    """No two are further apart; None: no rate is known to say it in nanoseconds."""
    apart_ns: int | None
    """Some two are at least so far apart."""
    rounds: int | None
    """Exchanges of the core that had the fewest; None with one core."""
    missed: int
    """Cores that could not be compared."""


class CounterFacts(FrozenModel):
    """What was found out about this machine's counter."""

    readable: bool
    """There is one, and this process may read it."""
    invariant: bool
    """Its rate does not change with power states."""
    paired: bool
    """Counter and core can be read in one go (rdtscp)."""
    kernel_uses: bool
    """The kernel itself keeps time by it."""
    kernel_distrusts: bool
    """The kernel does not offer it as a clock source any more."""
    virtual_machine: bool
    vmclock: bool
    """The hypervisor tells about live migrations (/dev/vmclock0), and we may read it."""
    stated: CounterRate | None
    """As the processor, firmware or hypervisor states it."""
    rate: CounterRate | None
    """As measured against CLOCK_MONOTONIC_RAW."""
    synchrony: Synchrony | None


class Promise(FrozenModel):
    """What the clock promises. Values of one thread are strictly increasing in any case."""

    source: Literal["counter", "monotonic-raw"]
    """What time is read from."""
    bridging: Literal["counter", "clock"]
    """How a thread gets from one core to the next: clock, where counters are apart."""
    ordered_ns: int | None
    """Ordered values of different threads never go back by more; None: not to be compared."""
    cores: int | None
    """How many cores that was found out for; None where cores do not matter."""
    rate: CounterRate
    drift_ppb: int | None
    """More than this between counter and kernel's clock counts as a jump."""
    reasons: list[str]
    """Why it is not more, see `ullage.host.clock.REASONS`."""
    text: str
    """All of it in words."""
