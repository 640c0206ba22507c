"""One run of the ocean program: what stands beside it, and what it said."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from ullage.common.clock_model import FrozenModel
from ullage.common.text import printable
from ullage.experiments.clock.ocean.chronyd import Chronyd, ChronydError
from ullage.experiments.clock.ocean.outcome import Checksums, Noise, NoiseDone, OceanTrial
from ullage.host import binaries
from ullage.host.binaries import Mpi

DEADLINE_S: Final = 900.0
LIBRARY: Final = "libullage_mpi.so"
_FELL_BACK: Final = "MPI_Wtime is MPI's own, not global"
"""What our library says (`mpi/shim/init.c`) when it goes on by another clock."""
_SILENT_S: Final = 2.0
"""A run that is longer than this, and than two polls, has seen an exchange of chronyd."""
_NOISE_ENDS_S: Final = 10.0
"""After SIGTERM; it sorts its bursts first."""
_WITH_US: Final = ("setpriv", "--pdeathsig", "TERM")
"""Even when we are killed it ends."""


class Stamps(FrozenModel):
    """The time-stamps of one rank, s by its own `MPI_Wtime`."""

    start_s: list[float]
    baroclinic_end_s: list[float]
    barotropic_end_s: list[float]


class Skew(FrozenModel):
    """The ranks' clocks as the program sees them."""

    before_s: list[float]
    after_s: list[float]
    spread_before_s: float
    spread_after_s: float
    step_spread_s: float
    impossible_steps: int
    backward_stamps: int


class Verification(FrozenModel):
    """How far the program was from what is known."""

    solver_error: float
    tracer_error: float
    tracer_sum_change: float
    unconverged_steps: int


class OceanOutput(FrozenModel):
    """What the program writes."""

    mpi: str
    ranks: int
    across: tuple[int, int]
    nx: int
    ny: int
    nz: int
    steps: int
    seed: int
    solver_iterations: int
    tolerance: float
    verified: bool
    verification: Verification
    checksums: Checksums
    iterations: int
    total_s: float
    total_monotonic_raw_s: float
    wtick_s: float
    wtime_calls_per_rank: int
    wtime_is_global: bool | None
    skew: Skew
    processor_s: list[float]
    stamps: list[Stamps]


@dataclass(frozen=True)
class OceanJob:
    """How the program is called in every variant."""

    mpi: Mpi
    ranks: int
    steps: int
    seed: int = 1
    poll: int = 0
    """Of the chronyd beside it: every 2^poll seconds."""
    extra: tuple[str, ...] = ()
    """More options of the program."""


@dataclass(frozen=True)
class OceanVariant:
    name: str
    preload: Path | None = None
    chrony: bool = False
    noise: Noise | None = None


class FailedError(Exception):
    """This run has no figures."""


def argv(job: OceanJob, preload: Path | None, result: Path) -> list[str]:
    """The command line; one rank to a processor where there are enough of them."""
    bound = job.ranks <= len(os.sched_getaffinity(0))
    if job.mpi == "openmpi":
        line = ["mpirun.openmpi", "--oversubscribe", "-n", str(job.ranks)]
        line += ["--use-hwthread-cpus", "--bind-to", "hwthread" if bound else "none"]
        line += ["--allow-run-as-root"] if os.geteuid() == 0 else []
        line += ["-x", f"LD_PRELOAD={preload}"] if preload else []
    else:
        line = ["mpirun.mpich", "-n", str(job.ranks)]
        line += ["-bind-to", "hwthread"] if bound else []
        line += ["-genv", "LD_PRELOAD", str(preload)] if preload else []
    line += [str(binaries.program("ocean", job.mpi)), "--steps", str(job.steps)]
    line += ["--seed", str(job.seed)]
    return [*line, *job.extra, "--json", str(result)]


def run(job: OceanJob, variant: OceanVariant, block: int, position: int) -> OceanTrial:
    """One trial; a failed one says why and has no figures."""
    place: dict[str, Any] = {"variant": variant.name, "block": block, "position": position}
    try:
        output, beside = _beside(job, variant)
        return OceanTrial(**place, **beside, **_figures(output))
    except (FailedError, ChronydError, ValidationError) as error:
        return OceanTrial(**place, failed=printable(str(error), 600))


def _figures(output: OceanOutput) -> dict[str, Any]:
    own = output.stamps[0]
    steps = np.subtract(own.barotropic_end_s, own.start_s)
    return {
        "total_s": output.total_monotonic_raw_s,
        "wtime_total_s": output.total_s,
        "step_median_s": float(np.median(steps)),
        "step_deviation_s": float(np.std(steps, ddof=1)),
        "step_p99_s": float(np.quantile(steps, 0.99)),
        "taken_share": max(0.0, 1 - min(output.processor_s) / output.total_monotonic_raw_s),
        "skew_before_s": output.skew.spread_before_s,
        "skew_after_s": output.skew.spread_after_s,
        "impossible_steps": output.skew.impossible_steps,
        "backward_stamps": output.skew.backward_stamps,
        "wtime_is_global": output.wtime_is_global,
        "checksums": output.checksums,
    }


def _beside(job: OceanJob, variant: OceanVariant) -> tuple[OceanOutput, dict[str, Any]]:
    """Run the program beside the variant's daemon, and what that did."""
    if variant.chrony:
        with Chronyd(job.poll) as chrony:
            before = chrony.exchanges()
            output = execute(job, variant.preload)
            exchanges = chrony.exchanges() - before
        if exchanges == 0 and output.total_monotonic_raw_s > max(_SILENT_S, 2.0 ** (job.poll + 1)):
            raise FailedError("chronyd exchanged nothing during the run")
        return output, {"exchanges": exchanges}
    if variant.noise is None:
        return execute(job, variant.preload), {}
    with _noise(*variant.noise) as daemon:
        output = execute(job, variant.preload)
        daemon.terminate()
        try:
            text, _ = daemon.communicate(timeout=_NOISE_ENDS_S)
        except subprocess.TimeoutExpired as error:
            raise FailedError(f"noise did not end within {_NOISE_ENDS_S} s") from error
    try:
        return output, {"noise": NoiseDone.model_validate_json(text)}
    except ValidationError as error:
        raise FailedError(f"noise did not say what it did: {text!r}") from error


@contextmanager
def _noise(period_us: int, length_us: int) -> Iterator[subprocess.Popen[str]]:
    """The noise daemon, at the lowest real-time priority so that it gets what it asks for."""
    line = [*_WITH_US, str(binaries.program("noise"))]
    line += ["--period-us", str(period_us), "--length-us", str(length_us)]
    line += ["--cpu", str(min(os.sched_getaffinity(0))), "--seconds", "3600"]
    line += ["--priority", "fifo:1"] if os.geteuid() == 0 else []
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, errors="replace") as daemon:
        try:
            yield daemon
        finally:
            if daemon.poll() is None:
                daemon.kill()


def execute(job: OceanJob, preload: Path | None) -> OceanOutput:
    """Run the program once. FailedError when there is no result, or by another clock."""
    with tempfile.TemporaryDirectory(prefix="ullage-ocean-") as home:
        result = Path(home) / "result.json"
        status, errors = _mpirun([*_WITH_US, *argv(job, preload, result)])
        # The loader only warns, and goes on without: that run would be a stock one.
        if "cannot be preloaded" in errors:
            raise FailedError(f"{preload} cannot be preloaded")
        # So does our library, in a rank where it has no global time.
        if preload is not None and _FELL_BACK in errors:
            raise FailedError(next(line for line in errors.splitlines() if _FELL_BACK in line))
        if status != 0:
            raise FailedError(f"ocean ended with {status}: {errors.strip()[-500:]}")
        try:
            return OceanOutput.model_validate_json(result.read_bytes())
        except (OSError, ValidationError) as error:
            raise FailedError(f"no result: {error}") from error


def _mpirun(line: list[str]) -> tuple[int, str]:
    process = subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        _, errors = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"no end within {DEADLINE_S} s") from error
    finally:
        if process.poll() is None:
            # In order, so that mpirun takes its ranks along.
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return process.returncode, errors
