"""What a study's page draws: published figures as bars, ours beside them, and what runs say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.experiments.elastic.elastic_made import SyntheticRun
from tests.experiments.elastic.elastic_made import make as make_elastic
from tests.experiments.studies.planruns import make
from ullage.experiments.studies import STUDIES, Study, bars, get, lines, page, showing
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


def curve(**rows: tuple[float | None, float | None]) -> DerivedTable:
    """Two columns, a row for each name: `lxc_1` is of lxc, at 1."""
    return DerivedTable(
        key="c",
        caption="C",
        of="technique, instances",
        columns=(Column(title="a"), Column(title="b")),
        rows=tuple(
            DerivedRow(
                label=name.replace("_", ", "),
                cells=tuple(StudyFigure(value=value, why="" if value else "x") for value in values),
            )
            for name, values in rows.items()
        ),
    )


def heights(svg: str) -> list[float]:
    return [float(y) for y in re.findall(r'<circle [^>]*cy="([0-9.]+)"', svg)]


def test_lines_go_through_their_figures() -> None:
    table = curve(lxc_1=(10.0, 1.0), lxc_2=(20.0, 1.0), vm_1=(5.0, 1.0), vm_2=(None, 1.0))
    svg = lines.draw(table, ("a",), "rows")
    bottom, top = lines.HEIGHT - lines.AXIS, lines.TOP
    shares = [(bottom - y) / (bottom - top) for y in heights(svg)]
    assert shares == pytest.approx([0.5, 1.0, 0.25], abs=0.01), "what cannot be said is no point"
    assert ">lxc<" in svg and ">vm<" in svg and ">instances<" in svg
    assert len(re.findall("stroke-dasharray", svg)) == 2, "the second line and its name"


def across(svg: str) -> list[str]:
    """The places, from left to right."""
    places = re.findall(r'<text x="([0-9.]+)" y="[0-9.]+" text-anchor="middle">(\d+)<', svg)
    return [place for _, place in sorted(places, key=lambda pair: float(pair[0]))]


def test_places_are_in_the_tables_order_with_those_that_have_no_figure() -> None:
    table = curve(lxc_1=(None, 1.0), lxc_2=(1.0, 1.0), lxc_4=(2.0, 1.0), lxc_8=(None, 1.0))
    more = curve(vm_1=(1.0, 1.0), vm_2=(1.0, 1.0), vm_4=(2.0, 1.0), vm_8=(None, 1.0))
    table = table.model_copy(update={"rows": table.rows + more.rows})
    assert across(lines.draw(table, ("a",), "rows")) == ["1", "2", "4", "8"]
    columns = tuple(Column(title=title) for title in "124")
    cells = (StudyFigure(value=None, why="x"), StudyFigure(value=1.0), StudyFigure(value=2.0))
    row = DerivedRow(label="lxc", cells=cells)
    full = DerivedRow(label="vm", cells=(StudyFigure(value=1.0),) * 3)
    table = table.model_copy(update={"columns": columns, "rows": (row, full)})
    assert across(lines.draw(table, "124", "columns")) == ["1", "2", "4"]


def test_a_line_ends_at_a_hole_and_begins_anew() -> None:
    rows = curve(lxc_1=(1.0, 1.0), lxc_2=(None, 1.0), lxc_4=(2.0, 1.0), lxc_8=(3.0, 1.0))
    svg = lines.draw(rows, ("a",), "rows")
    (path,) = re.findall(r'<path d="(M[^"]* L?[^"]*L[^"]*)"', svg)
    assert (path.count("M"), path.count("L")) == (2, 1), "a point, a hole, two points joined"
    assert len(heights(svg)) == 3


def test_lines_along_the_columns() -> None:
    svg = lines.draw(curve(lxc=(1.0, 2.0), vm=(2.0, 1.0)), ("a", "b"), "columns")
    assert len(heights(svg)) == 4
    assert all(f">{name}<" in svg for name in ("lxc", "vm", "a", "b"))


def test_an_interval_stands_on_its_point_and_names_are_text() -> None:
    row = DerivedRow(
        label="<x>, 1", cells=(StudyFigure(value=2.0, low=1.0, high=4.0), StudyFigure(value=1.0))
    )
    other = curve(x_2=(1.0, 1.0)).rows[0].model_copy(update={"label": "<x>, 2"})
    table = curve().model_copy(update={"rows": (row, other)})
    svg = lines.draw(table, ("a", "b"), "rows")
    assert "&lt;x&gt;, a" in svg and "<x>" not in svg
    (whisker,) = re.findall(r"V([0-9.]+)\" stroke=\"currentColor\"/>", svg)
    assert float(whisker) == pytest.approx(lines.TOP), "its end is the highest of all"


def test_lines_that_are_too_many_are_counted() -> None:
    rows: dict[str, tuple[float | None, float | None]]
    rows = {f"e{n}": (1.0, 2.0) for n in range(lines.MOST_LINES + 3)}
    svg = lines.draw(curve(**rows), ("a", "b"), "columns")
    assert "3 more are in the table" in svg
    assert len(heights(svg)) == 2 * lines.MOST_LINES
    assert "more are" not in lines.draw(curve(e=(1.0, 2.0)), ("a", "b"), "columns")


def test_one_place_is_no_line_and_is_drawn_as_bars() -> None:
    table = curve(lxc_1=(1.0, 2.0), vm_1=(1.0, 2.0))
    assert lines.draw(table, ("a",), "rows") == ""
    assert "<rect" in page.drawing(table, ("a",), "rows")
    assert lines.draw(curve(lxc_1=(None, 1.0)), ("a",), "rows") == ""


@pytest.mark.parametrize("study", [s() for s in STUDIES], ids=lambda study: study.name)
def test_what_a_study_draws_is_there(study: Study) -> None:
    """Its published tables and columns by their keys; each gives a picture."""
    tables = {table.key: table for table in study.tables()}
    assert study.charts
    for chart in study.charts:
        if chart.published:
            table = tables[chart.published]
            assert set(chart.columns) <= {column.title for column in table.columns}
            drawn = page.drawing(table, chart.columns, chart.along)
            assert ("<circle" in drawn) == (chart.along is not None), chart.title
            assert "<svg" in drawn, chart.title
        assert chart.published or chart.fresh


def test_a_page_has_the_published_chart_beside_ours_and_an_answer(tmp_path: Path) -> None:
    study = get("cmu-overhead")
    plan, *_ = study.plans(True)
    run = make(tmp_path, study, plan, {("vm", "cpu"): 2.0})
    report = showing.recompute(study, {plan.name: run})
    drawn = {chart.title: chart for chart in page.charts(report)}
    memory = drawn["Memory within a VM, Debian x64: rate over that with blocks of 16 KiB"]
    assert "<svg" in memory.published and len(memory.fresh) == 1
    for title, chart in drawn.items():
        if chart is not memory:  # theirs is over a Windows, ours over Linux
            assert not (chart.published and chart.fresh), title
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
