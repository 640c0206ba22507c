"""Energies of whole runs: figures, comparison, and what is said where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS
from tests.analysis.energykit import (
    CPU,
    S,
    analysed,
    channel,
    counter,
    fault,
    metered,
    opened,
    reading,
    rested,
    run,
    span,
    write,
)
from ullage.analysis.comparison.energy_model import Energy
from ullage.analysis.comparison.model import Analysis
from ullage.analysis.energy import words
from ullage.analysis.energy.integral import Missing
from ullage.analysis.energy.trials import IdlePower, TrialEnergy
from ullage.analysis.energy.trials import metered as energies_of
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.readings import Line
from ullage.runs.records import EnergyMeterRecord, Metric

POWERS = {"native": 100.0, "container": 130.0, "lxc": 100.0, "vm": 200.0}
TIMED = CPU.model_copy(
    update={
        "key": "build",
        "title": "a build",
        "metrics": (
            Metric(name="time", unit="s", better="lower", description="time", primary=True),
        ),
    }
)


def _load(trial: Trial) -> float:
    return POWERS[trial.environment.partition("~")[0]]


def _of(analysis: Analysis, environment: str, label: str = "wall") -> Energy:
    return next(
        energy
        for energy in analysis.energy
        if (energy.environment, energy.label) == (environment, label)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = run(tmp_path_factory.mktemp("energy") / "run", workloads=(CPU, TIMED, CURVE_WORKLOAD))
    metered(folder, _load, idle=40.0, beside_s=8.0)
    begin, _ = span(folder, 8.0)
    return rested(folder, begin + 1, begin + 6)


@pytest.fixture(scope="module")
def analysis(folder: RunFolder) -> Analysis:
    return analysed(folder)


def test_energy_power_and_energy_above_idle_of_a_trial(analysis: Analysis) -> None:
    for key in ("native", "container", "vm"):
        energy = _of(analysis, key)
        assert energy.above_idle is not None
        seconds = CPU.duration_s
        watts = POWERS[key]
        # Half a reading at each edge, where the power is between idle and the load.
        assert energy.mean_power.values.median == pytest.approx(watts, rel=0.03)
        assert energy.energy.values.median == pytest.approx(watts * seconds, rel=0.03)
        assert energy.above_idle.values.median == pytest.approx((watts - 40) * seconds, rel=0.05)
        assert (energy.trials, energy.having) == (12, 12)
        assert (energy.method, energy.scope) == ("measured", "wall")
    assert analysis.energy_notes == ()


def test_ratios_are_paired_and_hold_the_truth(analysis: Analysis) -> None:
    assert _of(analysis, "native").energy.ratio is None
    energy = _of(analysis, "container").mean_power
    assert energy.ratio is not None
    assert energy.budget is not None
    assert energy.ratio.estimate == pytest.approx(1.3, rel=0.02)
    assert energy.budget.low <= energy.ratio.low <= energy.ratio.high <= energy.budget.high


def test_energy_of_a_unit_of_work_and_its_delay(folder: RunFolder, analysis: Analysis) -> None:
    rated = [energy for energy in analysis.energy if energy.work == "1"]
    timed = [energy for energy in analysis.energy if energy.work == "run"]
    assert len(rated) == len(timed) == 4
    for energy in (*rated, *timed):
        assert energy.per_unit is not None
        assert energy.energy_delay is not None
        median = np.median(
            [
                float(t.metrics[energy.metric or ""])  # type: ignore[arg-type]
                for t in folder.trials
                if (t.environment, t.workload) == (energy.environment, energy.workload)
            ]
        )
        seconds = median if energy.work == "run" else 1 / median
        watts = POWERS[energy.environment]
        assert energy.per_unit.values.median == pytest.approx(watts * seconds, rel=0.04)
        assert energy.energy_delay.values.median == pytest.approx(watts * seconds**2, rel=0.06)


def test_verdicts_are_a_family_of_their_own(folder: RunFolder, analysis: Analysis) -> None:
    verdicts = {e.environment: e.per_unit.verdict for e in analysis.energy if e.per_unit}
    assert verdicts["native"] is None
    assert verdicts["container"] == verdicts["vm"] == "worse"
    assert analysis.family == sum(c.primary for c in analysis.comparisons)
    for file in (folder.path / "meters").iterdir():
        assert "label" in file.read_text()
    without = analysed(run(folder.path.parent / "none", workloads=(CPU, TIMED, CURVE_WORKLOAD)))
    assert [c.verdict for c in without.comparisons] == [c.verdict for c in analysis.comparisons]
    assert (without.energy, without.energy_notes) == ((), ())


def test_a_curve_has_an_energy_and_no_unit_of_work(analysis: Analysis) -> None:
    of_curve = [energy for energy in analysis.energy if energy.workload == CURVE_WORKLOAD.key]
    assert len(of_curve) == 4
    assert {(energy.metric, energy.work, energy.per_unit) for energy in of_curve} == {
        (None, None, None)
    }
    assert "No accuracy is stated for wall: none is in." in words.note(analysis)
    assert all(row[5] == "(measured at the wall)" for row in words.rows(analysis)[-4:])


def test_a_longer_meter_window_does_not_change_a_run(tmp_path: Path) -> None:
    results = []
    for longer_s in (2.0, 97.0):
        folder = metered(run(tmp_path / f"{longer_s:.0f}", blocks=3), _load, beside_s=longer_s)
        begin, _ = span(folder, 0.0)
        at = folder.trials[0].start_ns
        assert begin == at / S
        results.append(analysed(folder).energy)
    short, long = ([energy.energy.values.median for energy in analysis] for analysis in results)
    # The readings stand at other instants, so they may differ by what sampling does.
    assert long == pytest.approx(short, rel=0.05)


def _two_sessions(path: Path) -> RunFolder:
    """A run that was resumed: the second session's tag is another, and so is its clock's start."""
    folder = run(path, blocks=6, pause=(3, 4000.0))
    journal = folder.path / "journal.jsonl"
    lines = journal.read_text().splitlines()
    second = next(n for n, line in enumerate(lines) if '"resumed":true' in line)
    lines[second] = lines[second].replace("u1a2b3c4", "u5e6f7a8")
    journal.write_text("\n".join(lines) + "\n")
    return RunFolder.open(path)


def test_a_trial_is_of_the_session_that_started_before_it(tmp_path: Path) -> None:
    folder = _two_sessions(tmp_path / "run")
    first, second = folder.sessions
    begin, end = span(folder)
    lines: list[Line] = []
    for session, watts in ((first, 100.0), (second, 150.0)):
        lines.append(opened(channel(), session=session.tag, every_s=0.5))
        lines += [reading(t, wall=watts) for t in np.arange(begin, end, 0.5)]
    write(folder.path / "meters" / "wall.jsonl", lines, torn=b'{"event":"read')
    (of_meter,) = energies_of(folder)
    powers = [
        energy.mean_w for energy in of_meter.trials.values() if isinstance(energy, TrialEnergy)
    ]
    split = next(n for n, t in enumerate(folder.trials) if t.start_ns >= second.start_ns)
    assert len(powers) == len(folder.trials)
    assert powers == pytest.approx([100.0] * split + [150.0] * (len(powers) - split))


def test_a_session_without_the_meter_has_no_energy(tmp_path: Path) -> None:
    folder = _two_sessions(tmp_path / "run")
    metered(folder, _load)
    (of_meter,) = energies_of(folder)
    codes = [
        energy.code if isinstance(energy, Missing) else "" for energy in of_meter.trials.values()
    ]
    assert set(codes) == {"", "not-recorded"}
    (note,) = analysed(folder).energy_notes
    assert note.code == "energy-missing"
    assert "not-recorded" in note.message


def test_trials_in_which_the_meter_failed_lack_it_and_keep_their_figures(tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    trials = [trial for trial in folder.trials if trial.environment == "container"]
    metered(folder, _load)
    file = folder.path / "meters" / "wall.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    for trial in trials[:3]:
        at = (trial.start_ns + trial.end_ns) // 2
        place = next(n for n, line in enumerate(lines) if n and json.loads(line)["at_ns"] > at)
        lines.insert(place, fault(at / S).model_dump_json() + "\n")
    file.write_text("".join(lines))
    analysis = analysed(folder)
    energy = _of(analysis, "container")
    assert (energy.trials, energy.having) == (12, 9)
    assert energy.per_unit is not None
    assert energy.per_unit.verdict is None
    assert energy.per_unit.ratio is not None
    assert energy.per_unit.ratio.n == 9
    (note,) = analysis.energy_notes
    assert note.code == "energy-missing"
    assert all(trial.trial in note.message for trial in trials[:3])
    assert "gone: no answer" in note.message
    compared = next(c for c in analysis.comparisons if c.environment == "container")
    assert compared.pairs == 12


def test_packages_add_up_and_methods_never_do(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", blocks=6)
    begin, end = span(folder)
    at = np.arange(begin, end, 0.1)
    of = (
        counter("package-0"),
        counter("package-1", wraps_at=300.0),
        counter("memory-0", scope="memory"),
        channel("model", method="estimated", scope="package"),
        channel("guest", method="attributed", scope="guest"),
    )
    lines: list[Line] = [opened(*of, label="cpu", meter="rapl", every_s=0.1)]
    lines += [
        reading(
            t,
            package_0=30 * (t - begin),
            package_1=20 * (t - begin) % 300.0,
            memory_0=7 * (t - begin),
            model=80.0,
            guest=11.0,
        )
        for t in at
    ]
    write(folder.path / "meters" / "cpu.jsonl", lines)
    analysis = analysed(folder)
    powers = {
        (energy.method, energy.scope): energy.mean_power.values.median
        for energy in analysis.energy
        if energy.environment == "native"
    }
    assert powers == {
        ("measured", "package"): pytest.approx(50),
        ("measured", "memory"): pytest.approx(7),
        ("estimated", "package"): pytest.approx(80),
        ("attributed", "guest"): pytest.approx(11),
    }
    estimated = [energy for energy in analysis.energy if energy.method == "estimated"]
    assert {energy.per_unit.verdict for energy in estimated if energy.per_unit} == {None}
    (note,) = analysis.energy_notes
    assert note.code == "energy-of-a-guest"
    assert "cpu (rapl) tells of one guest or process" in note.message
    assert any(note.message in line for line in words.note_lines(analysis))


def test_no_trial_of_a_duet_has_an_energy_of_its_own(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", design="duet")
    metered(folder, lambda _: 100.0)
    analysis = analysed(folder)
    assert analysis.energy == ()
    (note,) = analysis.energy_notes
    assert note.code == "energy-shared"
    assert "at the same time" in note.message


@pytest.mark.parametrize(
    ("accuracy", "factor", "disagree"),
    [(0.01, 1.1, True), (0.01, 1.005, False), (None, 1.04, False), (None, 1.3, True)],
)
def test_two_meters_of_the_same_that_disagree(
    tmp_path: Path, accuracy: float | None, factor: float, disagree: bool
) -> None:
    folder = run(tmp_path / "run", blocks=4)
    metered(folder, _load, label="one", accuracy=accuracy)
    metered(folder, lambda t: factor * _load(t), idle=40 * factor, label="two", accuracy=accuracy)
    codes = [note.code for note in analysed(folder).energy_notes]
    assert codes == (["meters-disagree"] if disagree else [])


@pytest.mark.parametrize(("watts", "disagree"), [(60.0, False), (150.0, True)])
def test_processors_never_take_more_than_the_wall(
    tmp_path: Path, watts: float, disagree: bool
) -> None:
    folder = run(tmp_path / "run", blocks=4)
    metered(folder, lambda _: 100.0, idle=100.0)
    begin, end = span(folder)
    lines: list[Line] = [opened(counter(), label="cpu", meter="rapl", every_s=0.1)]
    lines += [reading(t, package_0=watts * (t - begin)) for t in np.arange(begin, end, 0.1)]
    write(folder.path / "meters" / "cpu.jsonl", lines)
    notes = analysed(folder).energy_notes
    assert [note.code for note in notes] == (["meters-disagree"] if disagree else [])


def test_a_meter_that_the_plan_names_and_nothing_was_read_of_is_said(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", blocks=4)
    record = EnergyMeterRecord(label="bmc", meter="ipmi", options={}, every_s=1.0)
    resolved = folder.resolved.model_copy(update={"energy_meters": (record,)})
    (folder.path / "resolved.json").write_text(resolved.model_dump_json())
    (note,) = analysed(folder).energy_notes
    assert (note.code, note.label) == ("meter-absent", "bmc")


def test_the_accuracy_cancels_in_a_ratio_as_far_as_powers_are_alike(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", blocks=6)
    metered(folder, _load, accuracy=0.05, resolution=0.5)
    analysis = analysed(folder)

    def parts(key: str) -> dict[str, float]:
        budget = _of(analysis, key).energy.budget
        assert budget is not None
        return {part.source: part.standard for part in budget.components}

    assert parts("vm")["meter-accuracy"] == pytest.approx(0.05 / 3**0.5 / 2, rel=0.05)
    assert parts("lxc").get("meter-accuracy", 0.0) < 0.001
    assert "meter-resolution" in parts("lxc")
    assert "No accuracy" not in words.note(analysis)
    alone = _of(analysis, "native").energy
    assert alone.low is not None
    assert alone.high is not None
    # An absolute figure has all of it.
    assert (alone.high - alone.low) / 2 >= 2 * 0.05 / 3**0.5 * alone.values.median * 0.99


def test_a_part_that_idle_takes_is_the_same_on_both_sides(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", blocks=6)
    metered(folder, _load, resolution=4.0, beside_s=8.0)
    begin, _ = span(folder, 8.0)
    energy = _of(analysed(rested(folder, begin + 1, begin + 6)), "vm").above_idle
    assert energy is not None
    assert energy.budget is not None
    assert {p.source for p in energy.budget.components} == {"meter-resolution", "meter-idle"}


def test_a_malformed_file_is_told_with_its_line(tmp_path: Path) -> None:
    folder = metered(run(tmp_path / "run", blocks=3), _load)
    file = folder.path / "meters" / "wall.jsonl"
    file.write_text(file.read_text().replace('"event":"reading"', '"event":"raeding"', 2))
    with pytest.raises(UllageError, match=r"wall\.jsonl, line 2") as caught:
        analysed(folder)
    assert caught.value.kind is errors.ENERGY_READINGS_BAD


def test_a_file_that_leads_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    folder = metered(run(tmp_path / "run", blocks=3), _load)
    file = folder.path / "meters" / "wall.jsonl"
    file.rename(tmp_path / "elsewhere.jsonl")
    file.symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(UllageError) as caught:
        analysed(folder)
    assert caught.value.kind is errors.RUN_BAD_FORMAT


def test_teams_side_by_side_share_the_joules(tmp_path: Path) -> None:
    alone, teams = (run(tmp_path / name, blocks=6) for name in ("alone", "teams"))
    journal = teams.path / "journal.jsonl"
    lines = []
    for line in journal.read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "trial":
            event["instances"] = dict.fromkeys(("a", "b"), event["metrics"])
        lines.append(json.dumps(event) + "\n")
    journal.write_text("".join(lines))
    alone_energy, two = (
        _of(analysed(metered(folder, _load)), "native") for folder in (alone, teams)
    )
    assert alone_energy.per_unit is not None
    assert two.per_unit is not None
    assert two.per_unit.values.median == pytest.approx(alone_energy.per_unit.values.median / 2)


def test_names_of_environments_say_emulation(analysis: Analysis) -> None:
    assert {e.environment for e in analysis.energy} == {
        e.key for e in ENVIRONMENTS if e.again_of is None
    }
    assert "emulated" in _of(analysis, "vm").environment_label


@pytest.mark.parametrize("accuracy", [None, 0.02])
def test_an_accuracy_that_nobody_states_is_not_zero(tmp_path: Path, accuracy: float | None) -> None:
    analysis = analysed(metered(run(tmp_path / "run"), lambda _: 100.0, accuracy=accuracy))
    for energy in analysis.energy:
        stated = energy.relative_u_accuracy
        assert stated == (None if accuracy is None else pytest.approx(0.02 / 3**0.5, rel=0.01))


@pytest.mark.parametrize(("joules", "above"), [(0.3, 0.0), (0.4, 0.1), (0.2, -0.1)])
def test_an_idle_host_s_energy_above_idle_is_no_rounding_error(joules: float, above: float) -> None:
    energy = TrialEnergy(joules, 0.01, 0.0, 0.0, 3.0, IdlePower(0.1, 0.01))
    assert energy.above_idle == (above if not above else pytest.approx(above))
