"""Real MPI jobs with and without the preload, their records, and the truth beside them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from ullage.host import binaries

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
SHARED = ROOT / "testing/mpi"
MPIS = ("openmpi", "mpich")
FORTRANS = ("mpifh", "usempi", "usempif08")
MISSING = [
    name
    for mpi in MPIS
    for name in (f"mpicc.{mpi}", f"mpif90.{mpi}", f"mpirun.{mpi}")
    if shutil.which(name) is None
]

STAMP = re.compile(
    r"rank +(\d+) first +([\d.]+) second +([\d.]+) tick +(\S+) found (.) global (-?\d+)(.*)"
)


class Part(BaseModel):
    """Nothing else may be in a record."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Instant(Part):
    """The clock at an instant, with its bounds."""

    global_ns: int
    bound_ns: int | None
    hard_ns: int | None
    reasons: list[str]


class Sync(Part):
    """One synchronisation; of a rank that only answered others, the messages alone."""

    problem: str | None
    offset_ns: int | None = None
    half_ns: int | None = None
    sure_ns: int | None = None
    rtt_ns: int | None = None
    sent: int | None = None
    answers: int | None = None
    lost: int | None = None
    took_ns: int | None = None
    awake: bool | None = None
    stop: Literal["alike", "messages", "time"] | None = None
    last_exchange_ns: int | None = None
    messages: int
    served: int
    time_ns: int


class Correction(Part):
    """What the second synchronisation found."""

    since_s: float
    length_s: float
    shown_ahead_ns: int
    rate_ppt: int | None
    rate_unsure_ppt: int | None
    residual_ns: int | None
    hard_ns: int | None
    bound_ns: int


class Record(Part):
    version: Literal[1]
    run: str
    rank: int
    ranks: int
    host: str
    mpi: str
    ullage_clock: str
    topology: Literal["flat", "two-level", "tree"]
    way: Literal["none", "root", "messages", "shared"]
    wtime: Literal["global", "stock"]
    why_stock: str | None
    stratum: int | None
    crowded: bool
    origin_ns: int | None
    least_rtt_ns: int | None
    start: Instant | None
    first: Sync
    end: Instant | None
    last: Sync | None
    correction: Correction | None
    finalized: bool


def library(mpi: str) -> Path:
    return binaries.DIRECTORY / mpi / "libullage_mpi.so"


def build(folder: Path) -> None:
    """The library for both MPIs, and every program."""
    subprocess.run(["make", "--quiet", "-C", str(ROOT / "mpi")], check=True)
    flags = ["-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2"]
    for mpi in MPIS:
        into = folder / mpi
        into.mkdir()
        for source in (PROGRAMS / "stamps.c", SHARED / "truth.c", PROGRAMS / "work.c"):
            compiled = [str(source), "-o", str(into / source.stem)]
            subprocess.run([f"mpicc.{mpi}", *flags, *compiled], check=True)
        for name in FORTRANS:
            command = [f"mpif90.{mpi}", str(PROGRAMS / f"{name}.f90"), "-o", str(into / name)]
            subprocess.run(command, check=True, cwd=into, capture_output=True)
        for name in ("mute", "late", "stopped"):
            program = str(PROGRAMS / f"{name}.c")
            shared = [f"mpicc.{mpi}", *flags, "-shared", "-fPIC", program, "-ldl"]
            subprocess.run([*shared, "-o", str(into / f"{name}.so")], check=True)
    shared = ["gcc", *flags, "-shared", "-fPIC", str(PROGRAMS / "count.c"), "-ldl"]
    subprocess.run([*shared, "-o", str(folder / "count.so")], check=True)


@dataclass(frozen=True)
class Job:
    """How a program is run."""

    mpi: str
    ranks: int
    preload: str | None
    settings: dict[str, str]
    per_rank: str = ""  # shell that runs before the program, with $rank

    @property
    def rank_variable(self) -> str:
        return "OMPI_COMM_WORLD_RANK" if self.mpi == "openmpi" else "PMI_RANK"

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        more = ["--oversubscribe"] if self.mpi == "openmpi" else []
        if self.mpi == "openmpi" and os.geteuid() == 0:
            more.append("--allow-run-as-root")
        preload = f"export LD_PRELOAD={self.preload}\n" if self.preload else ""
        shell = f'rank=${self.rank_variable}\n{preload}{self.per_rank}\nexec "$@"'
        # The settings are those of the case alone.
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ULLAGE_CLOCK_")}
        # MPICH's transport fails if a network device goes while it looks: other tests have some.
        clean["UCX_TLS"] = "self,sm"
        return subprocess.run(
            [f"mpirun.{self.mpi}", *more, "-n", str(self.ranks), "bash", "-c", shell, "-"]
            + [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=clean | self.settings,
        )


def records(path: Path) -> list[Record]:
    """All lines of a file."""
    return [Record.model_validate_json(line) for line in path.read_text().splitlines()]


#: Rate in ppb and offset in ns of each rank's clock: no two alike, and rank 0 true.
DISTORTIONS = (
    "0,0",
    "11250,1000000",
    "-20000,-300000",
    "45000,7000",
    "-45000,123456789",
    "30000,-5000000",
    "1000,1",
    "-11250,0",
)
DISTORTED = "d=({})\nexport ULLAGE_CLOCK_DISTORT=${{d[$rank]}}".format(" ".join(DISTORTIONS))


@dataclass(frozen=True)
class Stamps:
    """What one rank's MPI_Wtime said: seconds, the counter around it, and whether it was global."""

    seconds: np.ndarray
    middle: np.ndarray
    half: np.ndarray
    is_global: list[int]

    @classmethod
    def read(cls, path: Path) -> Stamps:
        rows = [line.split() for line in path.read_text().splitlines()]
        before, after = (np.array([int(row[at]) for row in rows]) for at in (0, 2))
        return cls(
            seconds=np.array([float(row[1]) for row in rows]),
            middle=before + (after - before) // 2,
            half=(after - before) / 2,
            is_global=[int(row[3]) for row in rows],
        )


@dataclass(frozen=True)
class Truth:
    """Rank 0's time as a line over the counter, which its clock is."""

    origin: int
    slope: float
    intercept: float

    @classmethod
    def of(cls, root: Stamps) -> Truth:
        narrow = root.half <= np.median(root.half)
        origin = int(root.middle[0])
        slope, intercept = np.polyfit(
            (root.middle - origin)[narrow].astype(float), root.seconds[narrow], 1
        )
        return cls(origin, float(slope), float(intercept))

    def errors_ns(self, stamps: Stamps) -> tuple[np.ndarray, np.ndarray]:
        """How far each time-stamp is off, and how well that is known."""
        true = (stamps.middle - self.origin).astype(float) * self.slope + self.intercept
        return (stamps.seconds - true) * 1e9, stamps.half * self.slope * 1e9


def job(mpi: str, ranks: int = 2, per_rank: str = "", **settings: str) -> Job:
    return Job(mpi, ranks, str(library(mpi)), settings, per_rank)


def stock(mpi: str, ranks: int = 2, per_rank: str = "") -> Job:
    return Job(mpi, ranks, None, {}, per_rank)


def own(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The program's own lines."""
    return sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))


def messages_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the library says of itself."""
    return [line for line in done.stderr.splitlines() if line.startswith("ullage: ")]


def stamps_of(done: subprocess.CompletedProcess[str]) -> list[tuple[int, float, float, str, str]]:
    assert done.returncode == 0, done.stderr
    matches = [STAMP.fullmatch(line) for line in own(done)]
    assert all(matches), done.stdout
    rows = [match.groups() for match in matches if match is not None]
    return sorted(
        (int(r), float(a), float(b), tick, g + is_global) for r, a, b, tick, _, g, is_global in rows
    )


def measured(
    programs: Path, tmp_path: Path, run: Job, milliseconds: int = 1000
) -> tuple[list[Record], list[Stamps]]:
    path, out = tmp_path / "record.json", tmp_path / "stamps"
    settings = run.settings | {"ULLAGE_CLOCK_RECORD": str(path)}
    full = Job(run.mpi, run.ranks, run.preload, settings, run.per_rank)
    done = full.run(programs / run.mpi / "truth", out, str(milliseconds))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return records(path), [Stamps.read(Path(f"{out}.{rank}")) for rank in range(run.ranks)]
