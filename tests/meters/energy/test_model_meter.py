"""Meter `model`, and the line that it follows."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.meters.energy.base import FaultError
from ullage.meters.energy.model import Coefficients, Model, ModelOptions, fit

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def meter(**options: object) -> Model:
    return Model(ModelOptions.model_validate(options))


def stat(file: Path, *ticks: int) -> None:
    """user nice system idle iowait irq softirq steal guest guest_nice"""
    new = file.with_name("new")
    new.write_text(f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    new.replace(file)


def test_a_known_amount_of_work_of_this_host() -> None:
    model = meter(idle_watts=0, core_watts=1)
    (channel,) = model.open()
    assert (channel.name, channel.kind) == ("estimate", "energy")
    assert channel.resolution == TICK_S
    own, began = time.process_time(), time.monotonic()
    first = model.read()["estimate"]
    while time.process_time() - own < 0.997:
        pass
    used = time.process_time() - own
    cpu_seconds = model.read()["estimate"] - first
    most = (time.monotonic() - began) * (os.cpu_count() or 1)
    ticks = 4 * (os.cpu_count() or 1) * TICK_S
    assert used - ticks <= cpu_seconds <= most + ticks
    model.close()


def test_idle_power_goes_by_time_alone() -> None:
    model = meter(idle_watts=100, core_watts=0)
    before = time.monotonic()
    model.open()
    opened = time.monotonic()
    time.sleep(0.05)
    least = time.monotonic() - opened
    joules = model.read()["estimate"]
    assert 100 * least <= joules <= 100 * (time.monotonic() - before)


def test_it_is_an_estimate_wherever_it_is_shown() -> None:
    (channel,) = meter(idle_watts=1, core_watts=2).open()
    assert channel.method == "estimated"
    assert channel.accuracy is None, "nobody knows how wrong stated watts are"
    assert channel.source == "1 W + 2 W for each busy CPU (/proc/stat)"
    assert channel.scope == "wall"
    (channel,) = meter(idle_watts=1, core_watts=2, scope="package").open()
    assert channel.scope == "package"


def test_what_counts_as_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "stat"
    stat(file, 100, 10, 50, 9000, 70, 5, 6, 400, 30, 0)
    monkeypatch.setattr(Model, "STAT", file)
    model = meter(idle_watts=0, core_watts=10)
    model.open()
    assert model.read() == {"estimate": 0.0}
    # Guests stand in user already; idle, waiting for disks, and stolen time are not busy.
    stat(file, 101, 12, 54, 9999, 170, 13, 22, 999, 31, 0)
    assert model.read()["estimate"] == pytest.approx(10 * (1 + 2 + 4 + 8 + 16) * TICK_S)


@pytest.mark.parametrize("text", ["", "intr 5\n", "cpu 1 2 3\n", "cpu  1 2 -3 4 5 6 7 8\n"])
def test_counters_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = tmp_path / "stat"
    stat(file, 1, 1, 1, 1, 1, 1, 1)
    monkeypatch.setattr(Model, "STAT", file)
    model = meter(idle_watts=1, core_watts=1)
    model.open()
    file.write_text(text)
    with pytest.raises(FaultError) as caught:
        model.read()
    assert caught.value.code == "nonsense"
    with pytest.raises(UllageError) as refused:
        meter(idle_watts=1, core_watts=1).open()
    assert refused.value.kind is errors.ENERGY_METER_BAD_ANSWER


def test_counters_that_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "stat"
    stat(file, 1000, 0, 0, 0, 0, 0, 0)
    monkeypatch.setattr(Model, "STAT", file)
    model = meter(idle_watts=0, core_watts=1)
    model.open()
    stat(file, 900, 0, 0, 0, 0, 0, 0)
    with pytest.raises(FaultError, match="CPU time fell"):
        model.read()
    stat(file, 1100, 0, 0, 0, 0, 0, 0)
    assert model.read()["estimate"] == pytest.approx(100 * TICK_S)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"idle_watts": 5},
        {"core_watts": 5},
        {"idle_watts": -1, "core_watts": 5},
        {"idle_watts": "nan", "core_watts": 5},
        {"fit": "a.json", "idle_watts": 5},
        {"fit": "a.json", "scope": "wall"},
    ],
)
def test_a_plan_that_says_too_little_or_too_much(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        meter(**wrong)


def pairs(idle: float, core: float, spread: float, seed: int) -> tuple[list[float], list[float]]:
    """Power of a machine with that line, at loads from 0 to 4 CPUs."""
    random = np.random.default_rng(seed)
    load = np.linspace(0, 4, 40)
    return list(idle + core * load + random.normal(0, spread, load.size)), list(load)


def test_a_line_without_noise_is_found() -> None:
    coefficients = fit(*pairs(60, 12.5, 0, 0))
    assert coefficients.idle_watts == pytest.approx(60)
    assert coefficients.core_watts == pytest.approx(12.5)
    assert coefficients.accuracy < 1e-9
    assert (coefficients.pairs, coefficients.least_load, coefficients.most_load) == (40, 0, 4)


def test_its_uncertainty_covers_the_truth_as_often_as_it_says() -> None:
    within = [0, 0]
    for seed in range(400):
        coefficients = fit(*pairs(60, 12.5, 2.0, seed))
        within[0] += abs(coefficients.idle_watts - 60) <= 2.024 * coefficients.idle_u_watts
        within[1] += abs(coefficients.core_watts - 12.5) <= 2.024 * coefficients.core_u_watts
    # 95 % by Student's t of 38; ± 4 standard deviations of 400 tries.
    assert min(within) / 400 > 0.906


def test_its_accuracy_is_where_most_pairs_are() -> None:
    power, load = pairs(60, 12.5, 2.0, 7)
    coefficients = fit(power, load)
    line = [coefficients.idle_watts + coefficients.core_watts * cpus for cpus in load]
    inside = [
        abs(watts - expected_w) <= coefficients.accuracy * expected_w * (1 + 1e-12)
        for watts, expected_w in zip(power, line, strict=True)
    ]
    assert 38 <= sum(inside) < 40


@given(st.floats(1, 500), st.floats(0.5, 200), st.integers(1, 128))
def test_any_machine(idle: float, core: float, cpus: int) -> None:
    load = [cpus * share / 11 for share in range(12)]
    coefficients = fit([idle + core * cpus for cpus in load], load)
    assert coefficients.idle_watts == pytest.approx(idle, rel=1e-6, abs=1e-6 * core * cpus)
    assert coefficients.core_watts == pytest.approx(core, rel=1e-6)


@pytest.mark.parametrize(
    ("power", "load", "words"),
    [
        ([50.0] * 9, [1.0] * 9, "no 10 pairs"),
        ([50.0] * 20, [1.0] * 19, "20 powers and 19 loads"),
        ([50.0] * 20, [1.0] * 20, "between 1.00 and 1.00 busy CPUs only"),
        ([50.0, 51.0] * 10, [x / 5 for x in range(20)], "cannot be told from none"),
        ([80.0 - x for x in range(20)], [x / 5 for x in range(20)], "cannot be told from none"),
        ([x - 1e-9 for x in range(20)], [x + 2.0 for x in range(20)], "negative or no number"),
        ([float(x) for x in range(20)], [x + 2.0 for x in range(20)], "-2 W without load"),
        ([float("nan"), *range(19)], [float(x) for x in range(20)], "negative or no number"),
    ],
)
def test_readings_that_tell_no_line(power: list[float], load: list[float], words: str) -> None:
    with pytest.raises(UllageError) as caught:
        fit(power, load)
    assert caught.value.kind is errors.ENERGY_FIT_POOR
    assert words in caught.value.message


def test_the_meter_follows_a_fitted_line(tmp_path: Path) -> None:
    file = tmp_path / "fit.json"
    fitted = fit(*pairs(60, 12.5, 2.0, 3), scope="package", source="rapl package-0")
    file.write_text(fitted.model_dump_json())
    assert Coefficients.model_validate_json(file.read_text()) == fitted
    (channel,) = meter(fit=str(file)).open()
    assert (channel.method, channel.scope) == ("estimated", "package")
    assert channel.accuracy == fitted.accuracy
    assert channel.source.startswith(f"{fitted.idle_watts:g} W + {fitted.core_watts:g} W")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"idle_watts": 1, "core_watts": "x"}', "\0"])
def test_a_file_without_a_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "fit.json"
    with pytest.raises(UllageError) as caught:
        meter(fit=str(file)).open()
    assert caught.value.kind is errors.ENERGY_METER_ABSENT
    file.write_text(text)
    with pytest.raises(UllageError) as caught:
        meter(fit=str(file)).open()
    assert caught.value.kind is errors.ENERGY_METER_BAD_ANSWER
    assert "ullage meter fit" in caught.value.hint
