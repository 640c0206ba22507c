"""The benchmark of predictions: what was kept is told of again, held-out programs by themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.profile import applications, prediction
from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from tests.analysis.profilekit import made_profile

CPU = next(workload for workload in WORKLOADS if workload.resource == "cpu")


def test_what_was_kept_is_told_of_without_measuring(tmp_path: Path) -> None:
    programs = tuple(
        CPU.model_copy(update={"key": name, "title": name, "resource": "other"})
        for name in ("gcc", "openssl")
    )
    truth = {(e.key, w.key): 1.5 for e in ENVIRONMENTS[1:] for w in (*WORKLOADS, *programs)}
    run = make_run(
        tmp_path / "runs" / "20260101T000000-prediction",
        workloads=(*WORKLOADS, *programs),
        truth=truth,
        noise_sd=0.02,
        failures=(),
        raw=False,
    )
    assert run.is_dir()
    for name in ("gcc", "openssl"):
        text = made_profile({"cpu": 0.9}).model_dump_json()
        (tmp_path / f"{name}{prediction.PROFILE}").write_text(text)
    figures = {figure.name: figure for figure in prediction.figures_of_kept(tmp_path)}
    (held_out,) = (figure for name, figure in figures.items() if "held out" in name)
    assert held_out.note == "openssl: never used while the method was tuned"
    total = figures["median error of the predicted overhead"]
    assert held_out.value == pytest.approx(100 * (1 - (0.1 + 0.9 * 1.5) / 1.5), abs=3)
    assert total.note.startswith(f"{sum(name.startswith('gcc in ') for name in figures)} cells;")


def test_a_program_that_cannot_be_profiled_keeps_no_profile_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be told of beside a run that is new."""
    before = tmp_path / f"gzip{prediction.PROFILE}"
    before.write_text("of another day")
    for name in ("_profiled", "_measured"):
        monkeypatch.setattr(prediction, name, lambda *_: None)
    monkeypatch.setattr(
        prediction, "figures_of_kept", lambda folder: [*folder.glob(f"*{prediction.PROFILE}")]
    )
    gzip = next(application for application in applications.EVERY if application.key == "gzip")
    assert prediction.measure(quick=True, keep=tmp_path, only=[gzip]) == []


def test_programs_that_are_held_out_are_no_others(tmp_path: Path) -> None:
    tuned = {application.key for application in applications.APPLICATIONS}
    assert not tuned & {application.key for application in applications.HELD_OUT}
    assert len(applications.HELD_OUT) == 3
    applications.material(tmp_path)
    for program in applications.EVERY:
        assert all((tmp_path / name).is_file() for name in program.files), program.key
    perl = next(program for program in applications.HELD_OUT if program.key == "perl")
    done = subprocess.run(perl.argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert perl.says is not None and perl.says in done.stdout
