"""The report's section on energy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.energykit import CPU, analysed, metered, run
from tests.report.made import HOSTILE
from ullage.analysis.comparison.energy_model import EnergyNote
from ullage.report import energy, page, pictures

NARROW = "\u00a0"
SECTION = '<h2 id="energy">Energy</h2>'


def test_a_run_without_meters_has_none(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", blocks=6)
    analysis = analysed(folder)
    assert energy.section(analysis) is None
    assert SECTION not in page.render(folder, analysis)


def test_every_row_says_how_and_where_it_was_measured(tmp_path: Path) -> None:
    folder = metered(run(tmp_path / "run", blocks=6), lambda _: 100.0, accuracy=0.02)
    analysis = analysed(folder)
    measured = energy.section(analysis)
    assert measured is not None
    assert measured.table is not None
    assert len(measured.table.rows) == len(analysis.energy) == 4
    for row in measured.table.rows:
        assert len(row) == len(measured.table.heads)
        assert any("(measured at the wall)" in cell.text for cell in row)
    text = page.render(folder, analysis)
    assert SECTION in text
    assert text.count("(measured at the wall)") == 4


def test_the_plot_has_the_ratios_and_verdicts_of_the_table(tmp_path: Path) -> None:
    folder = metered(run(tmp_path / "run", blocks=6), lambda _: 100.0, accuracy=0.02)
    analysis = analysed(folder)
    compared = [result for result in analysis.energy if result.environment != "native"]
    rows = [row for group in energy.groups(analysis) for row in group.rows]
    assert len(rows) == len(compared) > 0
    for row, result in zip(rows, compared, strict=True):
        main = result.per_unit or result.energy
        assert main.budget is not None
        assert (row.low, row.high) == (main.budget.low, main.budget.high)
        assert row.verdict == (main.verdict or "none")
    text = page.render(folder, analysis)
    assert text.count(f"Times the energy of native, with 95{NARROW}% intervals") >= 2
    assert dict(pictures.pictures(folder, analysis))["energy"].startswith("<svg")


def test_what_is_missing_is_said_where_no_trial_has_an_energy(tmp_path: Path) -> None:
    folder = metered(run(tmp_path / "run", blocks=6, design="duet"), lambda _: 100.0)
    analysis = analysed(folder)
    lacking = energy.section(analysis)
    assert lacking is not None
    assert lacking.table is None
    assert [note.code for note in lacking.notes] == ["energy-shared"]
    assert "energy-shared" in page.render(folder, analysis)


@pytest.mark.parametrize("field", ["message", "advice", "label"])
def test_untrusted_text_is_only_text(tmp_path: Path, field: str) -> None:
    title = CPU.model_copy(update={"title": HOSTILE})
    folder = metered(run(tmp_path / "run", blocks=6, workloads=(title,)), lambda _: 100.0)
    analysis = analysed(folder)
    texts = {"message": "m", "advice": "a", "label": "l", field: HOSTILE}
    note = EnergyNote(code="meter-jump", **texts)
    hostile = analysis.model_copy(update={"energy_notes": (note,)})
    untrusted = energy.section(hostile)
    assert untrusted is not None
    assert untrusted.table is not None
    words = [cell.text for row in untrusted.table.rows for cell in row]
    words += [text for doubt in untrusted.notes for text in (*doubt.texts, doubt.advice)]
    assert not any("\x1b" in text or "\u202e" in text or "\x00" in text for text in words)
    assert "<script>alert(1)" not in page.render(folder, hostile)
