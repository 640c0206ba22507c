"""The ocean program under both MPIs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mpi.oceankit import SMALL, SOURCES, launch, needs_mpi, output
from ullage.experiments.clock.ocean.experiment import equal
from ullage.experiments.clock.ocean.trial import OceanOutput

pytestmark = [pytest.mark.lab, needs_mpi]
PROBES = 33


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_the_result_is_right_and_the_same_everywhere(mpi: str, ranks: int) -> None:
    parallel, alone = output(mpi, ranks), output("openmpi", 1)
    assert parallel.verified
    assert parallel.ranks == ranks == parallel.across[0] * parallel.across[1]
    assert parallel.verification.unconverged_steps == 0
    assert parallel.checksums.model_dump() == pytest.approx(alone.checksums.model_dump(), rel=1e-11)


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_every_rank_and_step_has_its_stamps(mpi: str) -> None:
    parallel = output(mpi, 2)
    # One at the start, three in a step, one after every barrier.
    assert parallel.wtime_calls_per_rank == 1 + 3 * 3 + 2 * PROBES
    assert len(parallel.stamps) == 2
    for rank in parallel.stamps:
        series = [rank.start_s, rank.baroclinic_end_s, rank.barotropic_end_s]
        assert [len(stamps) for stamps in series] == [3, 3, 3]
        in_order = [stamp for step in zip(*series, strict=True) for stamp in step]
        assert in_order == sorted(in_order)
    assert parallel.skew.backward_stamps == 0
    assert (
        len(parallel.skew.before_s) == len(parallel.skew.after_s) == len(parallel.processor_s) == 2
    )
    assert parallel.skew.before_s[0] == parallel.skew.after_s[0] == 0
    spread = max(parallel.skew.after_s) - min(parallel.skew.after_s)
    assert parallel.skew.spread_after_s == pytest.approx(spread, abs=2e-9)
    assert parallel.wtime_is_global is not None


def test_ranks_that_read_one_clock_see_no_effect_before_its_cause() -> None:
    """MPICH reads CLOCK_MONOTONIC as it is, so on one host its ranks agree."""
    assert output("mpich", 2).skew.impossible_steps == 0


def test_a_result_file_gets_the_json_and_the_screen_a_line(tmp_path: Path) -> None:
    done = launch("openmpi", 2, *SMALL, "--json", str(tmp_path / "result.json"))
    written = OceanOutput.model_validate_json((tmp_path / "result.json").read_bytes())
    assert done.returncode == 0
    assert done.stdout.startswith("ocean: 2 ranks, 3 steps, ")
    assert done.stdout.endswith(", verified\n")
    assert written.checksums.model_dump() == output("openmpi", 2).checksums.model_dump()


def test_the_seed_makes_another_ocean() -> None:
    reseeded = OceanOutput.model_validate_json(launch("openmpi", 1, *SMALL, "--seed", "2").stdout)
    assert reseeded.verified
    assert not equal(reseeded.checksums, output("openmpi", 1).checksums)


def test_a_solver_that_does_not_converge_is_not_verified() -> None:
    done = launch("openmpi", 2, *SMALL, "--solver-iterations", "2")
    diverged = OceanOutput.model_validate_json(done.stdout)
    assert done.returncode == 1
    assert not diverged.verified
    assert diverged.verification.unconverged_steps == 3
    assert diverged.iterations == 3 * 2


def test_a_tolerance_of_zero_takes_all_iterations() -> None:
    done = launch("openmpi", 2, *SMALL, "--solver-iterations", "30", "--tolerance", "0")
    assert done.returncode == 0, done.stderr
    assert OceanOutput.model_validate_json(done.stdout).iterations == 3 * 30


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("domain.c", "{{1, 1}, {1, d->mx}, {1, 1}", "{{1, 2}, {1, d->mx}, {1, 1}"),
        ("baroclinic.c", "(north - south)", "(north - 0.999 * south)"),
        ("baroclinic.c", "MIXING * (ahead - behind)", "MIXING * 1.0001 * (ahead - behind)"),
        ("barotropic.c", "s->north[b] * (x[c] - x[b])", "s->north[c] * (x[c] - x[b])"),
        ("domain.c", "int x) {\n", "int x) {\n    x += d->rank;\n"),
    ],
    ids=["halo", "not conserving", "diffusion", "operator", "depends on the rank"],
)
def test_a_wrong_program_is_not_verified(tmp_path: Path, file: str, right: str, wrong: str) -> None:
    """The checks can fail: each of these mistakes is found."""
    copy = shutil.copytree(SOURCES / "ocean", tmp_path / "programs" / "ocean")
    for shared in ("programs.mk", "give_up.h"):
        shutil.copy(SOURCES / shared, copy.parent)
    text = (copy / file).read_text()
    assert text.count(right) == 1
    (copy / file).write_text(text.replace(right, wrong))
    program = tmp_path / "openmpi" / "ocean"
    target = [f"BIN={tmp_path}", str(program)]
    subprocess.run(["make", "--quiet", "-C", str(copy), *target], check=True, capture_output=True)
    done = launch("openmpi", 4, *SMALL, program=program)
    assert done.returncode == 1
    assert not OceanOutput.model_validate_json(done.stdout).verified


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nx", "3"), "--nx takes a whole number from 4 to 65536, not '3'"),
        (("--ny", "12x"), "--ny takes a whole number from 4 to 65536, not '12x'"),
        (("--nz", "0"), "--nz takes"),
        (("--steps", "99999999999999999999"), "--steps takes"),
        (("--solver-iterations", ""), "--solver-iterations takes"),
        (("--tolerance", "nan"), "--tolerance takes a number from 0 to below 1, not 'nan'"),
        (("--seed", "-1"), "--seed takes"),
        (("--steps",), "--steps needs a value"),
        (("--depth", "3"), "unknown option '--depth'"),
        (("more",), "unexpected argument 'more'"),
        (("--json", "/nonexistent/file"), "--json /nonexistent/file: No such file"),
    ],
)
def test_bad_options(options: tuple[str, ...], message: str) -> None:
    done = launch("mpich", 2, *options)
    assert done.returncode == 2
    assert done.stderr.count(f"ocean: error: {message}") == 1
    assert done.stdout == ""


def test_too_many_ranks() -> None:
    done = launch("openmpi", 5, "--nx", "4", "--ny", "4")
    assert done.returncode == 2
    assert "4 × 4 cells are too few for 5 ranks" in done.stderr
