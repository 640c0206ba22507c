"""The ocean experiment: every variant in turn, in balanced random blocks, by number of ranks.

The library's own clock with nothing beside it (`stock`, twice: the second tells how much two equal
variants differ), with a real chronyd (both ends with `-x`), with our library preloaded, and with a
periodic daemon that stands for resynchronisation.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ullage.common.commands import needed
from ullage.common.errors import UllageError
from ullage.experiments.clock.ocean import trial
from ullage.experiments.clock.ocean.outcome import (
    AGAIN,
    CHRONY,
    OURS,
    STOCK,
    Checksums,
    Noise,
    OceanOptions,
    OceanReport,
    OceanSeries,
    OceanTrial,
    noise_name,
)
from ullage.experiments.clock.ocean.trial import OceanJob, OceanVariant
from ullage.host import binaries
from ullage.host.binaries import Mpi
from ullage.plan import schedule

PACKAGES: dict[Mpi, str] = {"openmpi": "openmpi-bin", "mpich": "mpich"}


def check(mpi: Mpi) -> None:
    """Raise what is missing for any run at all. HOST_MISSING, PROGRAM_MISSING."""
    needed(f"mpirun.{mpi}", PACKAGES[mpi])
    needed("setpriv", "util-linux")
    binaries.program("ocean", mpi)
    binaries.program("noise")


def preload(mpi: Mpi) -> Path:
    """Our library. PROGRAM_MISSING."""
    return binaries.program(trial.LIBRARY, mpi)


def variants(
    noise: Sequence[Noise], library: Callable[[], Path]
) -> tuple[list[OceanVariant], dict[str, str]]:
    """The variants that can be run here, and why the others are left out."""
    usable = [OceanVariant(STOCK), OceanVariant(AGAIN)]
    left_out: dict[str, str] = {}
    try:
        needed("chronyd", "chrony")
        usable.append(OceanVariant(CHRONY, chrony=True))
    except UllageError as error:
        left_out[CHRONY] = f"{error.message}; {error.hint}"
    try:
        usable.append(OceanVariant(OURS, preload=library()))
    except UllageError as error:
        left_out[OURS] = f"{error.message}; {error.hint}"
    usable += [OceanVariant(noise_name(bursts), noise=bursts) for bursts in noise]
    return usable, left_out


def measure(options: OceanOptions, advance: Callable[[int, int, int], None]) -> OceanReport:
    """All of it; `advance` hears the ranks, and how many of their trials are done, of how many.

    HOST_MISSING, PROGRAM_MISSING.
    """
    check(options.mpi)
    usable, left_out = variants(options.noise, lambda: preload(options.mpi))
    return OceanReport(
        options=options,
        cpus=len(os.sched_getaffinity(0)),
        left_out=left_out,
        versions=_versions(options.mpi, left_out),
        series=tuple(_series(options, usable, ranks, advance) for ranks in options.ranks),
    )


def _series(
    options: OceanOptions,
    usable: Sequence[OceanVariant],
    ranks: int,
    advance: Callable[[int, int, int], None],
) -> OceanSeries:
    job = OceanJob(options.mpi, ranks, options.steps, poll=options.poll)
    names = tuple(variant.name for variant in usable)
    trials: list[OceanTrial] = []
    for number in range(options.runs):
        for one in block(job, usable, options.seed, number):
            trials.append(same_state(one, trials))
            advance(ranks, len(trials), options.runs * len(names))
    return OceanSeries(ranks=ranks, variants=names, trials=tuple(trials))


def block(
    job: OceanJob, usable: Sequence[OceanVariant], seed: int, number: int
) -> Iterable[OceanTrial]:
    """Every variant once, in this block's order."""
    by_name = {variant.name: variant for variant in usable}
    for slot in schedule.block(seed, number, list(by_name), ["ocean"]):
        yield trial.run(job, by_name[slot.environment], number, slot.position)


def same_state(new: OceanTrial, before: Iterable[OceanTrial]) -> OceanTrial:
    """A run whose final state is another one did other work: it fails."""
    first = next((t.checksums for t in before if t.checksums is not None), None)
    if first is None or new.checksums is None or equal(first, new.checksums):
        return new
    return OceanTrial(
        variant=new.variant,
        block=new.block,
        position=new.position,
        failed=f"checksums {new.checksums} instead of {first}",
    )


def equal(expected: Checksums, actual: Checksums, tolerance: float = 1e-9) -> bool:
    """Equal but for rounding."""
    pairs = zip(expected.model_dump().values(), actual.model_dump().values(), strict=True)
    return all(abs(a - b) <= tolerance * abs(a) for a, b in pairs)


def _versions(mpi: Mpi, left_out: dict[str, str]) -> dict[str, str]:
    programs = {f"mpirun.{mpi}": f"mpirun.{mpi}"}
    if CHRONY not in left_out:
        programs["chrony"] = needed("chronyd", "chrony")
    return {name: _version(program) for name, program in programs.items()}


def _version(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return next(iter(done.stdout.splitlines()), "unknown").strip()
