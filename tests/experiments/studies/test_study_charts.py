"""What a study's page draws: published figures as bars, ours beside them, and what runs say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.experiments.elastic.elastic_made import SyntheticRun
from tests.experiments.elastic.elastic_made import make as make_elastic
from tests.experiments.studies.planruns import make
from ullage.experiments.studies import STUDIES, Study, bars, get, page, showing
from ullage.experiments.studies.base import Column, DerivedRow, DerivedTable, StudyFigure

TABLE = DerivedTable(
    key="t",
    caption="A & B",
    of="row",
    columns=(Column(title="power", unit="W", decimals=1), Column(title="other")),
    rows=(
        DerivedRow(label="<one>", cells=(StudyFigure(value=50.0), "–")),
        DerivedRow(label="two", cells=(StudyFigure(value=100.0, low=90.0, high=120.0), "–")),
        DerivedRow(label="three", cells=(StudyFigure(value=None, why="never measured"), "–")),
    ),
)


def test_bars_are_as_long_as_their_figures() -> None:
    svg = bars.draw(TABLE, ("power",))
    widths = [float(width) for width in re.findall(r'<rect [^>]* width="([0-9.]+)"', svg)]
    assert len(widths) == 2, "what was never measured is no bar of length zero"
    assert widths[1] == pytest.approx(2 * widths[0], rel=0.01)
    longest = bars.WIDTH - bars.LABELS - bars.FIGURES
    assert widths[1] == pytest.approx(longest * 100 / 120, rel=0.01), "the interval fits in too"
    assert svg.count("<path") == 1
    assert "&lt;one&gt;" in svg and "<one>" not in svg


def test_nothing_to_draw_is_no_picture() -> None:
    assert bars.draw(TABLE, ("other",)) == ""
    assert bars.draw(TABLE, ()) == ""


@pytest.mark.parametrize("study", [s() for s in STUDIES], ids=lambda study: study.name)
def test_what_a_study_draws_is_there(study: Study) -> None:
    """Its published tables and columns by their keys; each gives a picture."""
    tables = {table.key: table for table in study.tables()}
    assert study.charts
    for chart in study.charts:
        if chart.published:
            table = tables[chart.published]
            assert set(chart.columns) <= {column.title for column in table.columns}
            assert bars.draw(table, chart.columns), chart.title
        assert chart.fresh


def test_a_page_has_the_published_chart_beside_ours_and_an_answer(tmp_path: Path) -> None:
    study = get("cmu-overhead")
    (plan,) = study.plans(True)
    run = make(tmp_path, study, plan, {("vm", "cpu"): 2.0})
    report = showing.recompute(study, {plan.name: run})
    drawn = {chart.title: chart for chart in page.charts(report)}
    cpu = drawn["CPU: time over that of the physical machine"]
    assert "<svg" in cpu.published and len(cpu.fresh) == 1
    (answer,) = page.answers(report)
    assert answer.startswith(f"{plan.name}: ")
    text = page.render(report, tmp_path)
    assert "As published" in text and "Our own, with intervals" in text
    assert "what the others want" in text


def test_an_elastic_run_answers_too(tmp_path: Path) -> None:
    study = get("elastic-clock")
    name = "elastic-clock-quick"
    run = make_elastic(tmp_path, SyntheticRun(name=name))
    report = showing.recompute(study, {name: run})
    (answer,) = page.answers(report)
    assert answer.startswith(f"{name}: ")
    assert [chart.title for chart in page.charts(report) if chart.fresh] == ["Viewers blocked"]
