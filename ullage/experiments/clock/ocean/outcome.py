"""What the ocean experiment is asked, and what it measures. Nothing here measures."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from ullage.common.clock_model import FrozenModel

STOCK: Final = "stock"
AGAIN: Final = "stock~again"
CHRONY: Final = "chrony"
OURS: Final = "ullage"

Ranks = Annotated[int, Field(ge=1, le=512)]
BurstUs = Annotated[int, Field(ge=1, le=10_000_000)]
Noise = tuple[BurstUs, BurstUs]
"""Period and length of a daemon's bursts, µs."""


class OceanOptions(FrozenModel):
    mpi: Literal["openmpi", "mpich"] = "openmpi"
    ranks: Annotated[tuple[Ranks, ...], Field(min_length=1, max_length=16)] = (2,)
    runs: int = Field(10, ge=2, le=1000)
    """Of each variant, with each number of ranks."""
    steps: int = Field(200, ge=2, le=1_000_000)
    poll: int = Field(0, ge=0, le=10)
    """chrony polls every 2^poll seconds."""
    noise: tuple[Noise, ...] = Field((), max_length=16)
    """Daemons that stand for resynchronisation, a variant each."""
    seed: int = Field(1, ge=0, le=2**31 - 1)
    """Of the order."""


class Checksums(FrozenModel):
    """Weighted sums of the final state."""

    tracer: float
    surface: float
    current: float


class NoiseDone(FrozenModel):
    """What the noise daemon really did."""

    period_us: int
    length_us: int
    cpu: int
    seconds: int
    fifo: int
    bursts: int
    overruns: int
    busy_s: float
    ran_s: float
    length_mean_s: float
    length_p99_s: float


class OceanTrial(FrozenModel):
    """A run of one variant in one block; `failed` says why there are no figures."""

    variant: str
    block: int
    position: int
    failed: str | None = None
    total_s: float | None = None
    """By CLOCK_MONOTONIC_RAW: one clock judges all variants."""
    wtime_total_s: float | None = None
    step_median_s: float | None = None
    """Hardly moved by what else the host does, nor by a daemon that few steps meet."""
    step_deviation_s: float | None = None
    step_p99_s: float | None = None
    taken_share: float | None = None
    """Of the worst rank's time, what others had of its core: ranks poll while they wait."""
    skew_before_s: float | None = None
    skew_after_s: float | None = None
    impossible_steps: int | None = None
    backward_stamps: int | None = None
    wtime_is_global: bool | None = None
    checksums: Checksums | None = None
    exchanges: int | None = None
    """NTP exchanges during the run."""
    noise: NoiseDone | None = None


class OceanSeries(FrozenModel):
    """All runs with one number of ranks."""

    ranks: int
    variants: tuple[str, ...]
    trials: tuple[OceanTrial, ...]

    def values(self, variant: str, field: str) -> dict[int, float]:
        """A field of a variant by block; failed trials have none."""
        values = {t.block: getattr(t, field) for t in self.trials if t.variant == variant}
        return {block: float(value) for block, value in values.items() if value is not None}

    def failures(self, variant: str) -> list[str]:
        """Why trials of a variant have no figures."""
        return [t.failed for t in self.trials if t.variant == variant and t.failed is not None]


class OceanReport(FrozenModel):
    """The whole experiment; serialisable."""

    options: OceanOptions
    cpus: int
    """The ranks had so many processors."""
    left_out: dict[str, str]
    """Variant → why it is not here."""
    versions: dict[str, str]
    series: tuple[OceanSeries, ...]


def noise_name(noise: Noise) -> str:
    """What a variant with such a daemon is called."""
    return "noise {} µs × {} µs".format(*noise)
