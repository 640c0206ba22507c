"""What a file of readings says between two instants."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.meterkit import MODEL, S, Shell, enough, opened, record_file, steady
from ullage.analysis.energy.integral import Integral, Missing
from ullage.analysis.energy.series import Stretch
from ullage.cli.output import meter_readings
from ullage.cli.output.meter_readings import Window
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import clock
from ullage.runs.readings import Closed, Fault, Reading


@pytest.fixture
def hiccup(tmp_path: Path) -> Path:
    """Twenty seconds with two faults in the middle."""
    faults = [Fault(at_ns=n * S, code="gone", message="unplugged") for n in (110, 111)]
    file = tmp_path / "wall.jsonl"
    return record_file(file, opened(), *steady(100, 109), *faults, *steady(112, 120))


def test_a_time_with_a_hole_has_no_energy_but_its_parts_have(meter: Shell, hiccup: Path) -> None:
    refused = meter("energy", str(hiccup))
    assert refused.code == errors.ENERGY_NOT_KNOWN.exit_code == 1
    assert refused.stdout == ""
    assert (
        "error[energy-not-known]: wall: no energy of this time: gone: unplugged" in refused.stderr
    )
    (document,) = meter("energy", str(hiccup), "--json").json
    assert document["joules"] is None
    assert document["reason"]["code"] == "gone"
    parts = meter("energy", str(hiccup), "--parts", "--json").json
    assert [(p["from_ns"] // S, p["to_ns"] // S) for p in parts] == [(100, 109), (112, 120)]
    assert [p["joules"] for p in parts] == pytest.approx([450, 400], rel=0.01)
    early = meter("energy", str(hiccup), "--from", "+2s", "--to", "+7.5s", "--json").json[0]
    assert early["joules"] == pytest.approx(5.5 * 50, rel=0.01)
    assert meter("energy", str(hiccup), "--from", "+5s", "--to", "+5s").code == 1
    assert meter("energy", str(hiccup), "--to", "+500s").code == 1
    assert meter("time", str(hiccup)).stdout == "20.000 s\n"


def test_a_channel_that_its_meter_has_not_has_no_unit(meter: Shell, tmp_path: Path) -> None:
    reading = Reading(at_ns=100 * S, within_ns=1000, values={"wall": 50, "attic": 3})
    file = record_file(tmp_path / "wall.jsonl", opened(), reading)
    assert "wall 50 W  attic 3\n" in meter("log", str(file)).stdout
    assert ",attic,3" in meter("log", str(file), "--csv").stdout


def test_parts_of_a_time_that_has_none_are_told_why(meter: Shell, tmp_path: Path) -> None:
    gone = Fault(at_ns=101 * S, code="gone", message="unplugged")
    first, _, last = steady(100, 102)
    file = record_file(tmp_path / "wall.jsonl", opened(), first, gone, last)
    whole, parts = meter("energy", str(file)), meter("energy", str(file), "--parts")
    assert "wall: no energy of this time: gone: unplugged" in whole.stderr
    assert (parts.code, parts.stdout, parts.stderr) == (1, "", whole.stderr)
    as_json = meter("energy", str(file), "--parts", "--json")
    assert (as_json.code, as_json.json, as_json.stderr) == (1, [], whole.stderr)


def stretches(file: Path) -> tuple[Stretch, ...]:
    return meter_readings.read(file)


@pytest.mark.parametrize(
    "text",
    [
        "+5s",
        "+5",
        "1700000005",
        "1700000005.000",
        datetime.fromtimestamp(1_700_000_005, UTC).isoformat(),
        datetime.fromtimestamp(1_700_000_005, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        datetime.fromtimestamp(1_700_000_005).isoformat(),
    ],
)
def test_an_instant_is_said_in_many_ways(text: str, hiccup: Path) -> None:
    assert meter_readings.instant(text, stretches(hiccup)) == 105 * S


@pytest.mark.parametrize("text", ["", "+", "+soon", "now", "1e9", "-5", "0001-01-01", "+1e999"])
def test_what_is_no_instant_is_told(text: str, hiccup: Path) -> None:
    with pytest.raises(UllageError) as caught:
        meter_readings.instant(text, stretches(hiccup))
    assert caught.value.kind is errors.ENERGY_BAD_INSTANT


@given(st.text(max_size=30))
def test_any_text_is_an_instant_or_told(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = record_file(tmp_path_factory.mktemp("m") / "wall.jsonl", opened(), *steady(100, 101))
    try:
        assert meter_readings.instant(text, stretches(file)) >= 0
    except UllageError as error:
        assert error.kind is errors.ENERGY_BAD_INSTANT


def test_a_meter_opened_anew_is_not_integrated_across(tmp_path: Path) -> None:
    file = record_file(
        tmp_path / "wall.jsonl",
        opened(),
        *steady(100, 110),
        Closed(at_ns=110 * S),
        opened(200, 100),
        *steady(200, 210),
    )
    reopened = stretches(file)
    (whole,) = meter_readings.energies(reopened, Window(105 * S, 205 * S))
    assert isinstance(whole.energy, Missing)
    assert whole.energy.code == "gap"
    (second,) = meter_readings.energies(reopened, Window(202 * S, 205 * S))
    assert isinstance(second.energy, Integral)
    assert meter_readings.instant("1700000103", reopened) == 203 * S
    assert meter_readings.span_s(reopened) == 20
    parts = meter_readings.energies_of_parts(reopened, Window(105 * S, 205 * S))
    assert [p.window.seconds for p in parts] == [5, 5]


def test_the_machines_time_was_set_meanwhile(
    meter: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert meter("start", *MODEL, "--to", "wall.jsonl").code == 0
    file = tmp_path / "wall.jsonl"
    enough(file)
    readings = stretches(file)
    assert meter_readings.clock_set_by(readings) == 0
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3600 * S)
    assert meter_readings.clock_set_by(readings) == pytest.approx(-3600, abs=1)
    first, last = meter_readings.covered_span(readings) or Window(0, 0), clock.ordered_ns()
    assert first.start_ns <= meter_readings.instant("+0s", readings) + S < last + S
    # What was written before the clock was set is found by the clock as it was.
    when = readings[0].opened.epoch_ns / S
    assert abs(meter_readings.instant(f"{when:.3f}", readings) - readings[0].opened.at_ns) < 2e6
