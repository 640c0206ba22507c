"""Workload `nas`: what its programs print, and what NPB's own print."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.workload_runs import checked, context_in, printing, without_a_line
from ullage.engine import resolved
from ullage.host import binaries
from ullage.plan import matrix, schema
from ullage.report import across
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.mpi import npb_report
from ullage.workloads.mpi.nas import ITERATIONS, Nas, NasParameters, SizeClass, operations

NAS = Nas()
DATA = Path(__file__).parent / "data" / "nas"
CG_A = {"kernel": "cg", "class": "A", "threads": 2}
OURS: dict[str, dict[str, Any]] = {
    "cg-A-threads2": CG_A,
    "ep-S-threads1": {"kernel": "ep", "class": "S"},
    "is-S-openmpi2": {"kernel": "is", "class": "S", "parallel": "mpi", "ranks": 2},
    "cg-S-mpich2": {"kernel": "cg", "class": "S", "parallel": "mpi", "ranks": 2, "mpi": "mpich"},
    "mg-S-threads2": {"kernel": "mg", "class": "S", "threads": 2},
    "ft-S-threads2": {"kernel": "ft", "class": "S", "threads": 2},
    "lu-S-threads2": {"kernel": "lu", "class": "S", "threads": 2},
}
"""Recorded of `mpi/programs/nas`, Debian 12."""
ORIGINAL = ("npb3.4-ep-S", "npb3.4-cg-A", "npb3.4-is-S")
"""Of NPB 3.4's timed loops and `print_results.f`, `c_print_results.c`, typed anew by hand: the form
is its own, the version and date are what was handed to them."""


def parameters_of(**fields: Any) -> NasParameters:
    return NasParameters.model_validate(fields)


def text(name: str) -> str:
    return (DATA / f"{name}.txt").read_text("utf-8")


def outputs(stdout: str, status: int = 0) -> dict[str, Output]:
    return {"main": Output(status, None, stdout, "", 1.0)}


def labelled(report: str, label: str) -> str:
    """The value after a label, read in another way."""
    (line,) = [line for line in report.split("\n") if line.startswith(f" {label} ")]
    return line.partition("=")[2].strip()


def refused(parameters: NasParameters, stdout: str, status: int = 0) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        NAS.check(parameters, outputs(stdout, status))
    return str(caught.value)


@pytest.mark.parametrize("name", OURS)
def test_recorded_runs_give_their_figures(name: str) -> None:
    report = text(name)
    figures = checked(NAS, parameters_of(**OURS[name]), outputs(report))
    assert figures["operation_rate"] == pytest.approx(float(labelled(report, "Mop/s total")) * 1e6)
    assert figures["seconds"] == float(labelled(report, "Time in seconds"))


def test_compiler_flags_and_transport_are_kept() -> None:
    alone = NAS.facts(parameters_of(**CG_A), outputs(text("cg-A-threads2")))
    assert alone == {"compiler": "gcc 12.2.0", "flags": "-O3 -fopenmp -static"}
    name = "is-S-openmpi2"
    ranks = NAS.facts(parameters_of(**OURS[name]), outputs(text(name)))
    assert ranks["library"] == "Open MPI v4.1.4"
    assert "shared memory" in ranks["transport"]


@pytest.mark.parametrize("name", ORIGINAL)
def test_the_original_is_read_by_the_same_parser(name: str) -> None:
    report = npb_report.read(text(name))
    assert report.verified
    _, kernel, size_class = name.split("-")
    assert (report.kernel, report.size_class) == (kernel.upper(), size_class)
    assert report.threads == 2
    assert report.rate == pytest.approx(float(labelled(text(name), "Mop/s total")) * 1e6)
    assert report.options


def test_rate_times_time_is_the_number_of_operations_of_the_original_too() -> None:
    """It prints hundredths of a second, so only a longer run can show it."""
    report = npb_report.read(text("npb3.4-cg-A"))
    assert report.did(operations("cg", "A"))
    assert not report.did(1.05 * operations("cg", "A"))


def lu_f(nx0: int, ny0: int, nz0: int, itmax: int) -> float:
    """Operations by the statement of NPB 3.4's `lu.f` (and of NPB 2 and 3.0), term by term."""
    mean = float(nx0 + ny0 + nz0) / 3.0
    cube = 1984.77 * float(nx0) * float(ny0) * float(nz0)
    return float(itmax) * (cube - 10923.3 * mean**2 + 27770.9 * mean - 144010.0)


LU = {"S": (12, 50), "W": (33, 300), "A": (64, 250), "B": (102, 250)}
"""Points along each axis, time steps: NPB's classes of LU."""


@pytest.mark.parametrize("size_class", list(LU))
def test_lu_is_counted_as_npb_counts_it(size_class: SizeClass) -> None:
    n, steps = LU[size_class]
    assert operations("lu", size_class) == pytest.approx(lu_f(n, n, n, steps), rel=1e-12)
    assert ITERATIONS["lu"][size_class] == steps


def test_lu_of_the_original_fits_the_count() -> None:
    """gfortran's NPB 3.3.1 of class S printed 1.33 s and 77.16 Mop/s for one thread."""
    printed = 77.16e6 * 1.33
    assert printed == pytest.approx(operations("lu", "S"), rel=0.005 / 1.33)


def test_our_lu_reports_by_that_count_and_says_that_it_does_fewer() -> None:
    report = text("lu-S-threads2")
    assert npb_report.read(report).did(lu_f(12, 12, 12, 50))
    assert "fewer operations are done" in report


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": "ep"},
        {"class": "W"},
        {"threads": 1},
        {"threads": 4},
        {"parallel": "mpi", "threads": 1, "ranks": 2},
        {"parallel": "mpi", "threads": 2, "ranks": 2},
    ],
)
def test_another_run_is_not_what_was_asked(change: dict[str, Any]) -> None:
    assert "asked for" in refused(parameters_of(**{**CG_A, **change}), text("cg-A-threads2"))


def test_no_figure_without_verification() -> None:
    failed = text("cg-A-threads2").replace("  SUCCESSFUL", "UNSUCCESSFUL")
    assert refused(parameters_of(**CG_A), failed, status=1) == "the kernel's result is not verified"
    assert refused(parameters_of(**CG_A), failed) == "the kernel's result is not verified"
    spaced = text("cg-A-threads2").replace("              SUCCESSFUL", "UNSUCCESSFUL")
    assert refused(parameters_of(**CG_A), spaced) == "the kernel's result is not verified"


def test_figures_that_contradict_each_other() -> None:
    report = text("cg-A-threads2")
    rate = labelled(report, "Mop/s total")
    doubled = report.replace(f"{rate}\n Mop/s/th", f"{2 * float(rate):.2f}\n Mop/s/th")
    assert doubled != report
    assert "are not the" in refused(parameters_of(**CG_A), doubled)
    assert "iterations" in refused(
        parameters_of(**CG_A),
        report.replace(" Iterations      =                       15", " Iterations      = 75"),
    )


@pytest.mark.parametrize("label", ["Mop/s total", "Time in seconds"])
@pytest.mark.parametrize(
    "value", ["0.00", "0.000000", "nan", "inf", "-1.00", "1e3", "1", "*" * 9, "1.00\x1f"]
)
def test_figures_must_be_figures(label: str, value: str) -> None:
    report = text("cg-A-threads2")
    bent = report.replace(labelled(report, label), value, 1)
    assert f"{label} is not a positive number" in refused(parameters_of(**CG_A), bent)


def test_each_line_that_counts_is_needed_once() -> None:
    report = text("cg-A-threads2")
    for label in ("Class", "Iterations", "Time", "Total threads", "Mop/s total", "Verification"):
        (line,) = [line for line in report.split("\n") if line.startswith(f" {label}")]
        assert refused(parameters_of(**CG_A), report.replace(f"{line}\n", ""))
        assert "cannot have" in refused(
            parameters_of(**CG_A), report.replace(line, f"{line}\n{line}")
        )
    for shorter in without_a_line(report):
        try:
            NAS.check(parameters_of(**CG_A), outputs(shorter))
        except InvalidTrialError:
            continue
        checked(NAS, parameters_of(**CG_A), outputs(shorter))
    assert "2 reports" in refused(parameters_of(**CG_A), report + report)
    assert "0 reports" in refused(parameters_of(**CG_A), "")
    assert "ends before" in refused(parameters_of(**CG_A), report[: report.index(" Compile")])
    assert "cannot have" in refused(parameters_of(**CG_A), report.replace(" Size  ", " Sighs "))
    assert "characters" in refused(parameters_of(**CG_A), report + "x" * (1 << 20))


@pytest.mark.parametrize("name", OURS)
def test_a_program_that_failed(name: str) -> None:
    parameters = parameters_of(**OURS[name])
    assert "2" in refused(parameters, text(name), status=2)
    with pytest.raises(InvalidTrialError):
        NAS.check(parameters, {})
    killed = {"main": Output(None, 9, text(name), "", 1.0)}
    with pytest.raises(InvalidTrialError, match="signal 9"):
        NAS.check(parameters, killed)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(OURS)), st.randoms(use_true_random=False), st.text(max_size=12))
def test_no_text_breaks_the_check(name: str, chance: random.Random, noise: str) -> None:
    whole = text(name)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(whole) + 1)
        end = min(len(whole), at + chance.choice((0, 1, 2, 30)))
        moved = whole[chance.randrange(len(whole) + 1) :][: chance.choice((0, 1, 40))]
        whole = whole[:at] + chance.choice((noise, "9", ".", "\n", moved)) + whole[end:]
    parameters, report = parameters_of(**OURS[name]), printing(outputs(""), "main", whole)
    try:
        NAS.check(parameters, report)
    except InvalidTrialError:
        return
    figures = checked(NAS, parameters, report)
    assert set(figures) == {"operation_rate", "seconds"}
    NAS.facts(parameters, report)


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_no_text_at_all_is_a_report(noise: str) -> None:
    with pytest.raises(InvalidTrialError):
        npb_report.read(noise)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"ranks": 2}, "parallel: mpi"),
        ({"peer": "host"}, "parallel: mpi"),
        ({"parallel": "mpi", "peer": "second"}, "one rank has no peer"),
        ({"parallel": "mpi", "peer": "each", "ranks": 1}, "one rank has no peer"),
        ({"parallel": "mpi", "kernel": "mg", "ranks": 3}, "power of two"),
        ({"parallel": "mpi", "kernel": "ft", "ranks": 6}, "divisor of 128"),
        ({"parallel": "mpi", "kernel": "ft", "class": "W", "ranks": 64}, "divisor of 32"),
        (
            {"parallel": "mpi", "kernel": "lu", "class": "S", "ranks": 5},
            "12 points has no room for 5",
        ),
        ({"parallel": "mpi", "ranks": 201}, "less than or equal to 200"),
        ({"class": "C"}, "'S', 'W', 'A' or 'B'"),
        ({"size_class": "A"}, "size_class"),
        ({"threads": 0}, "greater than or equal to 1"),
    ],
)
def test_what_cannot_run_is_refused_in_the_plan(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        parameters_of(**fields)


def test_a_plan_that_varies_ranks_shows_how_they_scale() -> None:
    text = "name: n\nbaseline: native\nenvironments: {native: {provider: native}}\nworkloads:\n"
    text += "  - {name: nas, class: S, parallel: mpi, vary: {ranks: [1, 2, 4]}}\n"
    scalings = across.scalings(
        [resolved.workload(e) for e in matrix.resolve(*schema.loads(text)).cases]
    )
    assert [(scaling.parameter, [at for at, _ in scaling.steps]) for scaling in scalings] == [
        ("ranks", [1, 2, 4])
    ]


def test_ranks_of_kernels_without_a_grid_may_be_any_number() -> None:
    assert parameters_of(kernel="cg", parallel="mpi", ranks=3).ranks == 3


def test_the_plan_is_recorded_as_written() -> None:
    recorded = parameters_of(**{"class": "W"}).model_dump(mode="json")
    assert recorded["class"] == "W"
    assert parameters_of(**recorded) == parameters_of(**{"class": "W"})


def test_titles() -> None:
    assert NAS.title(parameters_of()) == "NAS CG class A, 1 thread"
    ranks = parameters_of(kernel="is", parallel="mpi", ranks=4, threads=2, peer="second")
    assert NAS.title(ranks) == "NAS IS class A, 4 ranks of 2 threads to a second instance"


def test_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "DIRECTORY", tmp_path)
    (tmp_path / "mpich").mkdir()
    for path in (tmp_path / "nas-cg", tmp_path / "mpich" / "nas-cg"):
        path.touch()
    alone = parameters_of(**CG_A)
    assert NAS.files(alone) == {"nas-cg": tmp_path / "nas-cg"}
    (task,) = NAS.tasks(alone, context_in(tmp_path, NAS, alone))
    assert task.argv == (f"{tmp_path}/nas-cg", "--class", "A", "--threads", "2")
    ranks = parameters_of(parallel="mpi", mpi="mpich", ranks=3)
    assert NAS.files(ranks) == {"nas-cg": tmp_path / "mpich" / "nas-cg"}
    (task,) = NAS.tasks(ranks, context_in(tmp_path, NAS, ranks))
    assert task.argv[:3] == ("mpiexec.mpich", "-n", "3")
    assert task.argv[-5:] == (f"{tmp_path}/nas-cg", "--class", "A", "--threads", "1")


def test_the_estimate_grows_with_the_class_and_shrinks_with_workers() -> None:
    for kernel, classes in ITERATIONS.items():
        lengths = [NAS.duration_s(parameters_of(**{"kernel": kernel, "class": c})) for c in classes]
        assert lengths == sorted(lengths)
        assert all(math.isfinite(length) and length > 0 for length in lengths)
        half = NAS.duration_s(parameters_of(**{"kernel": kernel, "class": "B", "threads": 2}))
        assert half == pytest.approx(lengths[-1] / 2)
