"""Coefficients of the model, from readings of a meter beside those of the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.meterkit import S, Shell, opened, record_file
from ullage.runs.readings import Reading


def test_coefficients_of_the_model_from_two_files(meter: Shell, tmp_path: Path) -> None:
    busy = [0.0, 0.5, 1.0, 1.5, 2.0, 0.25, 0.75, 1.25, 1.75, 0.1, 0.9, 1.9]
    instants = range(100, 100 + 5 * len(busy) + 1)
    level = [busy[min((n - 100) // 5, len(busy) - 1)] for n in instants]
    watts = [
        Reading(at_ns=n * S, within_ns=1, values={"wall": 40 + 12 * b + 0.1 * (n % 2)})
        for n, b in zip(instants, level, strict=True)
    ]
    total, cpu = 0.0, []
    for n, b in zip(instants, level, strict=True):
        cpu.append(Reading(at_ns=n * S, within_ns=1, values={"wall": total}))
        total += b
    record_file(tmp_path / "wall.jsonl", opened(), *watts)
    load = opened(power=False).model_copy(
        update={"meter": "model", "options": {"idle_watts": 0.0, "core_watts": 1.0}}
    )
    record_file(tmp_path / "load.jsonl", load, *cpu)
    fitted = meter("fit", "wall.jsonl", "load.jsonl", "--window", "5s")
    assert fitted.code == 0, fitted.stderr
    assert fitted.json["idle_watts"] == pytest.approx(40, abs=1.5)
    assert fitted.json["core_watts"] == pytest.approx(12, abs=1.5)
    (tmp_path / "fit.json").write_text(fitted.stdout)
    assert meter("start", "model", "-o", "fit=fit.json", "--to", "m.jsonl").code == 0
    twice = meter("fit", "load.jsonl", "wall.jsonl", "--window", "never")
    assert twice.code == 2
    assert "error[energy-bad-instant]" in twice.stderr
    (tmp_path / "empty.jsonl").touch()
    for power, load_file, words in (
        ("no.jsonl", "load.jsonl", "no.jsonl: there is no such file"),
        ("wall.jsonl", "no.jsonl", "no.jsonl: there is no such file"),
        ("empty.jsonl", "load.jsonl", "empty.jsonl: it holds no readings"),
    ):
        none = meter("fit", power, load_file)
        assert none.code == 2
        assert f"error[energy-readings-none]: {words}" in none.stderr
