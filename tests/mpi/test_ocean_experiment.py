"""The ocean experiment on real parts: what runs beside the program, and whose clock it reads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.mpi.oceankit import SOURCES, build, needs_mpi, output
from ullage.common.errors import PROGRAM_MISSING, UllageError
from ullage.experiments.clock.ocean import chronyd, experiment, trial
from ullage.experiments.clock.ocean.chronyd import Chronyd, ChronydError
from ullage.experiments.clock.ocean.outcome import OceanOptions, OceanReport, OceanTrial
from ullage.experiments.clock.ocean.trial import OceanJob, OceanVariant
from ullage.host import binaries
from ullage.host.binaries import Mpi

pytestmark = needs_mpi


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    build("ocean")
    build("noise")


needs_chrony = pytest.mark.skipif(
    shutil.which("chronyd", path=f"{os.environ['PATH']}:/usr/sbin") is None,
    reason="no chronyd: apt-get install chrony",
)
QUICK = OceanJob("openmpi", 2, 5, extra=("--nx", "16", "--ny", "12", "--nz", "3"))


@needs_chrony
def test_the_real_chronyd_exchanges_with_ours_and_leaves_nothing() -> None:
    with Chronyd() as chrony:
        home, daemons = chrony._home, list(chrony._daemons)
        assert chrony.exchanges() >= 1
    assert [daemon.returncode for daemon in daemons] == [0, 0]
    assert not home.exists()


@needs_chrony
def test_a_chronyd_that_died_fails_its_trial_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    real = trial.execute

    def deadly(job: OceanJob, preload: Path | None) -> trial.OceanOutput:
        began.pop().kill()
        return real(job, preload)

    began: list[subprocess.Popen[bytes]] = []
    start = Chronyd._start

    def noted(self: Chronyd, name: str, config: str) -> None:
        start(self, name, config)
        began[:] = self._daemons

    monkeypatch.setattr(Chronyd, "_start", noted)
    monkeypatch.setattr(trial, "execute", deadly)
    outcome = trial.run(QUICK, OceanVariant("chrony", chrony=True), 0, 0)
    assert str(outcome.failed).startswith("chronyc ntpdata ended with 1: ")
    assert outcome.total_s is None and outcome.exchanges is None


@pytest.mark.parametrize(
    ("script", "why"),
    [("echo 127.0.0.1,x", "unreadable"), ("exec sleep 60", "no answer within")],
)
def test_a_chronyc_that_says_nothing_of_use_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    (tmp_path / "chronyc").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "chronyc").chmod(0o755)
    (tmp_path / "chronyd").symlink_to(tmp_path / "chronyc")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(chronyd, "ANSWER_S", 0.5)
    chrony = Chronyd()
    chrony._home = tmp_path
    with pytest.raises(ChronydError, match=why):
        chrony.exchanges()


@pytest.mark.parametrize("poll", [0, 4, 10])
def test_a_client_that_polls_seldom_is_given_its_polls(
    monkeypatch: pytest.MonkeyPatch, poll: int
) -> None:
    """It chooses its server with the third answer; the seconds are a made-up clock's."""
    now = [0.0]

    def slept(seconds: float) -> None:
        now[0] += seconds

    def start(self: Chronyd, name: str, config: str) -> None:
        (self._home / "client.sock").touch()

    def ask(self: Chronyd, command: str) -> str:
        return f"^,{'*' if now[0] > 2.1 * 2**poll else '?'},127.0.0.1"

    monkeypatch.setattr(chronyd, "needed", lambda program, package: program)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", slept)
    monkeypatch.setattr(Chronyd, "_start", start)
    monkeypatch.setattr(Chronyd, "_ask", ask)
    with Chronyd(poll):
        assert now[0] > 2.1 * 2**poll


def test_noise_that_does_not_end_fails_its_trial_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = tmp_path / "noise"
    deaf.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.1; done\n")
    deaf.chmod(0o755)
    real = binaries.program

    def program(name: str, mpi: Mpi | None = None) -> Path:
        return deaf if name == "noise" else real(name, mpi)

    monkeypatch.setattr(binaries, "program", program)
    monkeypatch.setattr(trial, "_NOISE_ENDS_S", 0.5)
    outcome = trial.run(QUICK, OceanVariant("noise", noise=(1_000, 14)), 0, 0)
    assert outcome.failed == "noise did not end within 0.5 s"


@needs_chrony
def test_chronyd_ends_with_a_benchmark_that_is_killed() -> None:
    code = (
        "from ullage.experiments.clock.ocean.chronyd import Chronyd\n"
        "with Chronyd() as chrony:\n"
        "    print(chrony._home, *(d.pid for d in chrony._daemons), flush=True)\n"
        "    input()\n"
    )
    benchmark = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=SOURCES.parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with benchmark:
        assert benchmark.stdout is not None
        home, *pids = benchmark.stdout.readline().split()
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        benchmark.kill()
    end = time.monotonic() + 30
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)
    shutil.rmtree(home)


def alive(pid: str) -> bool:
    """Runs, and is not merely waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_library_that_cannot_be_loaded_is_no_stock_run(tmp_path: Path) -> None:
    library = tmp_path / "libullage_mpi.so"
    library.write_text("no library")
    outcome = trial.run(QUICK, OceanVariant("ullage", preload=library), 0, 0)
    assert outcome.failed == f"{library} cannot be preloaded"
    assert outcome.total_s is None


@pytest.mark.parametrize(("mpi", "other"), [("openmpi", "mpich"), ("mpich", "openmpi")])
def test_a_library_that_goes_on_by_another_clock_is_no_run_of_ours(mpi: Mpi, other: Mpi) -> None:
    job = OceanJob(mpi, 2, 3, extra=QUICK.extra)
    outcome = trial.run(job, OceanVariant("ullage", preload=experiment.preload(other)), 0, 0)
    assert "built for another MPI" in str(outcome.failed)
    assert outcome.total_s is None


SHIFTED = """\
#include <time.h>
double MPI_Wtime(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e12 + (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
"""


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_a_preloaded_clock_is_the_one_that_is_read(tmp_path: Path, mpi: Mpi) -> None:
    source, library = tmp_path / "shifted.c", tmp_path / "shifted.so"
    source.write_text(SHIFTED)
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    job = OceanJob(mpi, 2, 2, extra=QUICK.extra)
    assert all(rank.start_s[0] > 1e12 for rank in trial.execute(job, library).stamps)
    assert all(rank.start_s[0] < 1e12 for rank in trial.execute(job, None).stamps)


@pytest.mark.parametrize(
    "variant",
    [
        OceanVariant("stock"),
        OceanVariant("noise", noise=(1_000, 14)),
        OceanVariant("chrony", chrony=True),
    ],
    ids=lambda variant: variant.name,
)
def test_a_trial(variant: OceanVariant) -> None:
    outcome = trial.run(QUICK, variant, 2, 1)
    assert outcome.failed is None
    assert (outcome.block, outcome.position) == (2, 1)
    assert outcome.total_s is not None and outcome.total_s > 0
    assert (outcome.noise is not None) == (variant.noise is not None)
    assert (outcome.exchanges is not None) == variant.chrony
    assert outcome.noise is None or outcome.noise.bursts >= 1


def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent() -> Path:
        raise UllageError(PROGRAM_MISSING, program=tmp_path / "absent.so")

    variants, left_out = experiment.variants((), absent)
    assert "ullage" not in {variant.name for variant in variants}
    assert "absent.so" in left_out["ullage"]
    variants, left_out = experiment.variants(((1_000, 14),), lambda: tmp_path)
    assert [v.name for v in variants if v.name not in ("chrony",)] == [
        "stock", "stock~again", "ullage", "noise 1000 µs × 14 µs",
    ]  # fmt: skip
    assert "ullage" not in left_out
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UllageError, match="openmpi"):
        experiment.check("openmpi")


def test_another_final_state_fails_the_trial() -> None:
    right = output("openmpi", 1).checksums
    wrong = right.model_copy(update={"tracer": 1.0})
    first = OceanTrial(variant="stock", block=0, position=0, checksums=right)
    second = OceanTrial(variant="chrony", block=0, position=1, checksums=wrong)
    assert experiment.same_state(first, []).failed is None
    assert experiment.same_state(first, [first]).failed is None
    assert "checksums" in str(experiment.same_state(second, [first]).failed)


def test_every_clock_with_every_number_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "OceanJob", small)
    steps: list[tuple[int, int, int]] = []
    options = OceanOptions(ranks=(1, 4), runs=2, steps=3, noise=((10_000, 100),))
    report = experiment.measure(options, lambda *at: steps.append(at))
    assert [series.ranks for series in report.series] == [1, 4]
    for series in report.series:
        assert len(series.trials) == 2 * len(series.variants)
        assert [t.failed for t in series.trials if t.failed] == []
        ours = series.values("ullage", "wtime_is_global")
        assert set(series.values("stock", "total_s")) == set(ours) == {0, 1}
        assert set(ours.values()) == {1.0}
    assert steps[-1] == (4, 2 * len(report.series[1].variants), 2 * len(report.series[1].variants))
    assert OceanReport.model_validate_json(report.model_dump_json()) == report


def small(mpi: Mpi, ranks: int, steps: int, poll: int) -> OceanJob:
    return OceanJob(mpi, ranks, steps, poll=poll, extra=QUICK.extra)
