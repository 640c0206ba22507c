"""One run of the ocean program: what stands beside it, and what it said."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from benchmarks.mpi.chronyd import Chronyd, ChronydError

MPI = Path(__file__).resolve().parents[2] / "target/mpi"
DEADLINE_S = 900.0
Library = Literal["openmpi", "mpich"]


class Strict(BaseModel):
    """Nothing unknown, nothing missing."""

    model_config = ConfigDict(extra="forbid")


class Stamps(Strict):
    """The time-stamps of one rank, s by its own `MPI_Wtime`."""

    start_s: list[float]
    baroclinic_end_s: list[float]
    barotropic_end_s: list[float]


class Skew(Strict):
    """The ranks' clocks as the program sees them."""

    before_s: list[float]
    after_s: list[float]
    spread_before_s: float
    spread_after_s: float
    step_spread_s: float
    impossible_steps: int
    backward_stamps: int


class Verification(Strict):
    """How far the program was from what is known."""

    solver_error: float
    tracer_error: float
    tracer_sum_change: float
    unconverged_steps: int


class Checksums(Strict):
    """Weighted sums of the final state."""

    tracer: float
    surface: float
    current: float


class Output(Strict):
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


class NoiseDone(Strict):
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


@dataclass(frozen=True)
class Job:
    """How the program is called in every variant."""

    mpi: Library
    ranks: int
    steps: int
    seed: int = 1
    extra: tuple[str, ...] = ()
    """More options of the program."""

    @property
    def program(self) -> Path:
        """The program for this MPI."""
        return MPI / self.mpi / "ocean"


@dataclass(frozen=True)
class Variant:
    name: str
    preload: Path | None = None
    chrony: bool = False
    noise: tuple[int, int] | None = None
    """Period and length, µs."""


class Trial(BaseModel):
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


class FailedError(Exception):
    """This run has no figures."""


def argv(job: Job, preload: Path | None, result: Path) -> list[str]:
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
    line += [str(job.program), "--steps", str(job.steps), "--seed", str(job.seed)]
    return [*line, *job.extra, "--json", str(result)]


def run(job: Job, variant: Variant, block: int, position: int) -> Trial:
    """One trial; a failed one says why and has no figures."""
    trial = Trial(variant=variant.name, block=block, position=position)
    try:
        output = _beside(job, variant, trial)
    except (FailedError, ChronydError) as error:
        return Trial(variant=variant.name, block=block, position=position, failed=str(error))
    own = output.stamps[0]
    steps = np.subtract(own.barotropic_end_s, own.start_s)
    trial.total_s = output.total_monotonic_raw_s
    trial.wtime_total_s = output.total_s
    trial.step_median_s = float(np.median(steps))
    trial.step_deviation_s = float(np.std(steps, ddof=1))
    trial.step_p99_s = float(np.quantile(steps, 0.99))
    trial.taken_share = max(0.0, 1 - min(output.processor_s) / output.total_monotonic_raw_s)
    trial.skew_before_s = output.skew.spread_before_s
    trial.skew_after_s = output.skew.spread_after_s
    trial.impossible_steps = output.skew.impossible_steps
    trial.backward_stamps = output.skew.backward_stamps
    trial.wtime_is_global = output.wtime_is_global
    trial.checksums = output.checksums
    return trial


def _beside(job: Job, variant: Variant, trial: Trial) -> Output:
    """Run the program beside the variant's daemon."""
    if variant.chrony:
        with Chronyd() as chrony:
            before = chrony.exchanges()
            output = execute(job, variant.preload)
            trial.exchanges = chrony.exchanges() - before
        if trial.exchanges == 0 and output.total_monotonic_raw_s > 2:
            raise FailedError("chronyd exchanged nothing during the run")
        return output
    if variant.noise is None:
        return execute(job, variant.preload)
    with _noise(*variant.noise) as daemon:
        output = execute(job, variant.preload)
        daemon.terminate()
        text, _ = daemon.communicate(timeout=10)
    try:
        trial.noise = NoiseDone.model_validate_json(text)
    except ValidationError as error:
        raise FailedError(f"noise did not say what it did: {text!r}") from error
    return output


@contextmanager
def _noise(period_us: int, length_us: int) -> Iterator[subprocess.Popen[str]]:
    """The noise daemon, at the lowest real-time priority so that it gets what it asks for."""
    line = [str(MPI / "noise"), "--period-us", str(period_us), "--length-us", str(length_us)]
    line += ["--cpu", str(min(os.sched_getaffinity(0))), "--seconds", "3600"]
    line += ["--priority", "fifo:1"] if os.geteuid() == 0 else []
    daemon = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    try:
        yield daemon
    finally:
        if daemon.poll() is None:
            daemon.kill()
        daemon.wait()


def execute(job: Job, preload: Path | None) -> Output:
    """Run the program once. FailedError when there is no result, or not the library's."""
    with tempfile.TemporaryDirectory(prefix="ullage-ocean-") as home:
        result = Path(home) / "result.json"
        status, errors = _mpirun(argv(job, preload, result))
        # The loader only warns, and goes on without: that run would be a stock one.
        if "cannot be preloaded" in errors:
            raise FailedError(f"{preload} cannot be preloaded")
        if status != 0:
            raise FailedError(f"ocean ended with {status}: {errors.strip()[-500:]}")
        try:
            return Output.model_validate_json(result.read_bytes())
        except (OSError, ValidationError) as error:
            raise FailedError(f"no result: {error}") from error


def _mpirun(line: list[str]) -> tuple[int, str]:
    process = subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
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
