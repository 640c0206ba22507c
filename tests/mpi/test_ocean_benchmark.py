"""What the ocean benchmark runs beside the program, and what it makes of the trials."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.mpi import ocean, ocean_trial
from benchmarks.mpi.chronyd import Chronyd
from benchmarks.mpi.ocean_trial import Job, Trial, Variant
from tests.mpi.oceankit import SOURCES, build, needs_mpi, output

pytestmark = needs_mpi


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    build("ocean")
    build("noise")


needs_chrony = pytest.mark.skipif(
    shutil.which("chronyd", path=f"{os.environ['PATH']}:/usr/sbin") is None,
    reason="no chronyd: apt-get install chrony",
)
QUICK = Job("openmpi", 2, 5, extra=("--nx", "16", "--ny", "12", "--nz", "3"))


@needs_chrony
def test_the_real_chronyd_exchanges_with_ours_and_leaves_nothing() -> None:
    with Chronyd() as chrony:
        home, daemons = chrony._home, list(chrony._daemons)
        assert chrony.exchanges() >= 1
    assert [daemon.returncode for daemon in daemons] == [0, 0]
    assert not home.exists()


@needs_chrony
def test_chronyd_ends_with_a_benchmark_that_is_killed() -> None:
    code = (
        "from benchmarks.mpi.chronyd import Chronyd\n"
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
    trial = ocean_trial.run(QUICK, Variant("ullage", preload=library), 0, 0)
    assert trial.failed == f"{library} cannot be preloaded"
    assert trial.total_s is None


SHIFTED = """\
#include <time.h>
double MPI_Wtime(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e12 + (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
"""


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_a_preloaded_clock_is_the_one_that_is_read(
    tmp_path: Path, mpi: ocean_trial.Library
) -> None:
    source, library = tmp_path / "shifted.c", tmp_path / "shifted.so"
    source.write_text(SHIFTED)
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    job = Job(mpi, 2, 2, extra=QUICK.extra)
    assert all(rank.start_s[0] > 1e12 for rank in ocean_trial.execute(job, library).stamps)
    assert all(rank.start_s[0] < 1e12 for rank in ocean_trial.execute(job, None).stamps)


@pytest.mark.parametrize(
    "variant",
    [Variant("stock"), Variant("noise", noise=(1_000, 14)), Variant("chrony", chrony=True)],
    ids=lambda variant: variant.name,
)
def test_a_trial(variant: Variant) -> None:
    trial = ocean_trial.run(QUICK, variant, 2, 1)
    assert trial.failed is None
    assert (trial.block, trial.position) == (2, 1)
    assert trial.total_s is not None and trial.total_s > 0
    assert (trial.noise is not None) == (variant.noise is not None)
    assert (trial.exchanges is not None) == variant.chrony
    assert trial.noise is None or trial.noise.bursts >= 1


def trial_of(variant: str, block: int, seconds: float) -> Trial:
    """A trial with all of its times in proportion."""
    times = dict.fromkeys(
        ("total_s", "step_median_s", "step_deviation_s", "skew_before_s", "skew_after_s"), seconds
    )
    return Trial(
        variant=variant,
        block=block,
        position=0,
        taken_share=0.25,
        impossible_steps=block,
        backward_stamps=0,
        **times,
    )


def record() -> ocean.Record:
    """Stock takes 1 to 6 s, chrony twice as long; noise failed in block 3, ours always."""
    trials = []
    for block in range(6):
        stock = block + 1.0
        trials += [trial_of("stock", block, stock), trial_of("stock~again", block, stock)]
        trials.append(trial_of("chrony", block, 2 * stock * 1.01 ** (-1) ** block))
        noisy = trial_of(NOISE, block, 1.1 * stock)
        trials.append(noisy if block != 3 else failed(NOISE, block))
        trials.append(failed("ullage", block))
    names = ["stock", "stock~again", "chrony", "ullage", NOISE]
    return ocean.Record(QUICK, names, {}, trials)


NOISE = ocean.noise_name(100_000, 10_000)


def failed(variant: str, block: int) -> Trial:
    return Trial(variant=variant, block=block, position=0, failed="made to")


def test_ratios_are_of_pairs_and_failures_are_shown() -> None:
    figures = {figure.name: figure for figure in ocean.figures(record())}
    assert figures["run time, chrony ÷ stock (6 pairs)"].value == pytest.approx(2)
    assert figures["run time, chrony ÷ stock (6 pairs)"].note == "worse (difference)"
    noisy = figures[f"run time, {NOISE} ÷ stock (5 pairs)"]
    assert noisy.value == pytest.approx(1.1)
    assert noisy.peer_value == pytest.approx(1 / 0.9)
    assert noisy.note.startswith("inconclusive (too-few-blocks)")
    assert figures[f"{NOISE}: failed runs"].value == 1
    assert figures["ullage: failed runs"].value == 6
    assert not any("ullage ÷" in name or "÷ ullage" in name for name in figures)
    assert figures["chrony: run"].value == pytest.approx(7, rel=0.01)
    assert figures["chrony: ranks' clocks apart after the steps"].note.startswith("15 impossible")


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    variants, left_out = ocean.variants(ocean.QUICK, tmp_path / "absent.so")
    assert "ullage" not in {variant.name for variant in variants}
    assert "absent.so is not there" in left_out["ullage"]
    (tmp_path / "present.so").touch()
    variants, left_out = ocean.variants(ocean.QUICK, tmp_path / "present.so")
    assert "ullage" in {variant.name for variant in variants}
    assert "ullage" not in left_out


def test_another_final_state_fails_the_trial() -> None:
    first = trial_of("stock", 0, 1).model_copy(update={"checksums": output("openmpi", 1).checksums})
    changed = output("openmpi", 1).checksums.model_copy(update={"tracer": 1.0})
    second = trial_of("chrony", 0, 1).model_copy(update={"checksums": changed})
    assert ocean.same_state(first, []).failed is None
    assert ocean.same_state(first, [first]).failed is None
    assert "checksums" in str(ocean.same_state(second, [first]).failed)


def test_the_result_file_is_json(tmp_path: Path) -> None:
    record().write(tmp_path / "result.json")
    document = json.loads((tmp_path / "result.json").read_text())
    assert len(document["trials"]) == 6 * 5
    assert document["job"]["mpi"] == "openmpi"
    assert {figure["name"] for figure in document["figures"]} >= {"chrony: run"}
