"""Barrels and forest: the geometry says what the figures say. Charts are what Vega-Lite knows."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.report.charts import barrel, forest, theme
from ullage.report.charts.barrel import Barrel
from ullage.report.charts.forest import RatioGroup, RatioRow

SVG = "{http://www.w3.org/2000/svg}"
ratios = st.floats(min_value=1e-3, max_value=1e4)


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(
        svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    )


def classes(root: ElementTree.Element) -> list[str]:
    return [e.get("class", "") for e in root.iter()]


def level(root: ElementTree.Element) -> float:
    """Share of the barrel's height at which the surface stands."""
    ellipse = root.find(f".//{SVG}ellipse")
    assert ellipse is not None
    return (barrel.BOTTOM - float(ellipse.get("cy", "nan"))) / (barrel.BOTTOM - barrel.TOP)


@given(st.floats(min_value=1.001, max_value=1e4))
def test_the_level_is_what_is_left(ratio: float) -> None:
    root = parsed(barrel.draw(Barrel("x", "decided", ratio, ratio * 0.99, ratio * 1.01)))
    assert level(root) == pytest.approx(1 / ratio, abs=0.001)


def test_the_interval_is_hatched_on_both_sides_of_the_level() -> None:
    root = parsed(barrel.draw(Barrel("x", "decided", 1.5, 1.2, 2.0)))
    dry = next(e for e in root.iter() if e.get("class") == "interval")
    wet = next(e for e in root.iter() if e.get("class") == "interval wet")
    tops = [float(re.findall(r"M[\d.]+,([\d.]+)", e.get("d", ""))[0]) for e in (dry, wet)]
    bottoms = [float(re.findall(r"([\d.]+)A", e.get("d", ""))[0]) for e in (dry, wet)]
    height = barrel.BOTTOM - barrel.TOP
    assert tops[0] == pytest.approx(barrel.BOTTOM - height / 1.2, abs=0.1)
    assert bottoms[0] == tops[1] == pytest.approx(barrel.BOTTOM - height / 1.5, abs=0.1)
    assert bottoms[1] == pytest.approx(barrel.BOTTOM - height / 2.0, abs=0.1)


def test_better_than_the_baseline_stands_over_the_brim() -> None:
    svg = barrel.draw(Barrel("x", "decided", 0.8, 0.75, 0.85))
    root = parsed(svg)
    assert classes(root).count("liquid") == 2
    assert "surface" not in classes(root)
    assert "125 %, more than the baseline" in svg


def test_each_state_looks_different() -> None:
    looks = [
        classes(parsed(barrel.draw(b)))
        for b in (
            Barrel("x", "decided", 1.1, 1.0, 1.2),
            Barrel("x", "undecided", 1.1, 1.0, 1.2),
            Barrel("x", "failed"),
            Barrel("x", "missing"),
        )
    ]
    assert len({tuple(look) for look in looks}) == 4
    assert "liquid" not in looks[2] + looks[3]


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1.25, "125 %"),
        (1.0, "100 %"),
        (0.1, "10 %"),
        (0.0007, "0.1 %"),
        (0.0001, "< 0.1 %"),
        (0.0, "0 %"),
        (-0.001, "0 %"),
        (-0.04, "−4 %"),
    ],
)
def test_percentages(share: float, words: str) -> None:
    assert barrel.percent(share) == words


def test_a_name_in_a_barrel_is_text() -> None:
    svg = barrel.draw(Barrel('"><script>', "missing"))
    assert "<script" not in svg and "&quot;&gt;&lt;script&gt;" in svg


def row(ratio: float, **more: float) -> RatioRow:
    return RatioRow(
        "x", "worse", ratio, more.get("low", ratio * 0.9), more.get("high", ratio * 1.1)
    )


@given(st.lists(ratios, min_size=1, max_size=20))
def test_the_axis_holds_everything_in_order(values: list[float]) -> None:
    scale = forest.axis([RatioGroup("g", tuple(row(v) for v in values))])
    places = [scale.place(v) for v in sorted([*values, 1.0])]
    assert all(0 < place < 1 for place in places)
    assert all(a <= b for a, b in itertools.pairwise(places))
    assert 1 in scale.ticks
    places = [scale.place(tick) for tick in scale.ticks]
    assert all(b - a >= 0.12 for a, b in itertools.pairwise(places)), "labels run into each other"
    assert 1 in scale.sparse(3) and len(scale.sparse(3)) <= 3


@given(ratios, ratios)
def test_the_axis_is_logarithmic(ratio: float, factor: float) -> None:
    scale = forest.axis([RatioGroup("g", (row(ratio), row(factor)))])
    middle = scale.place(math.sqrt(ratio * factor))
    assert middle == pytest.approx((scale.place(ratio) + scale.place(factor)) / 2, abs=1e-9)


def test_near_and_far_environments_get_axes_of_their_own() -> None:
    near, far = RatioGroup("c", (row(1.02), row(1.1))), RatioGroup("v", (row(7.0), row(1.0)))
    assert forest.panels([far, near]) == [[near], [far]]
    assert forest.panels([near]) == [[near]]
    middling = RatioGroup("m", (row(1.9),))
    assert forest.panels([near, middling]) == [[near, middling]]


def test_an_interval_without_an_end_has_an_arrow() -> None:
    open_row = RatioRow("x", "inconclusive", 1.2, 1.0, math.inf)
    scale = forest.axis([RatioGroup("g", (row(2.0), open_row))])
    drawn = classes(parsed(forest.cell(open_row, scale)))
    assert drawn.count("arrow") == 1 and drawn.count("end") == 1


def test_a_row_without_a_ratio_has_no_mark() -> None:
    scale = forest.axis([RatioGroup("g", (row(2.0),))])
    assert "mark" not in classes(parsed(forest.cell(RatioRow("x", "none"), scale)))


def test_marks_differ_in_shape_not_only_in_colour() -> None:
    shapes = {re.sub(r"v-\w+", "", forest.glyph(v)) for v in ("worse", "better", "equivalent")}
    assert len(shapes) == 3
    hollow = forest.CSS.split(".v-inconclusive .mark{fill:", 1)[1]
    assert hollow.startswith("var(--bg)")


def test_the_standalone_plot_is_one_svg_without_variables() -> None:
    groups = [RatioGroup("<b>", (row(1.1), row(1.2))), RatioGroup("far", (row(9.0),))]
    sheet = forest.ForestSheet(theme.resolve(forest.CSS), "times <worse>", "noise")
    svg = forest.draw(groups, sheet)
    root = ElementTree.fromstring(svg)
    assert classes(root).count("mark") == 3
    assert "var(--" not in svg and "&lt;b&gt;" in svg
    assert ">times &lt;worse&gt;<" in svg and ">noise<" in svg, "the axis and the band are named"
    ground = root.find("{http://www.w3.org/2000/svg}rect")
    assert ground is not None and ground.get("fill") == "#fff", "no paper shines through"


def test_no_label_runs_into_the_standalone_plot() -> None:
    long = dataclasses.replace(row(1.1), label="NetPIPE to a second instance, 64B to 4.0KiB")
    svg = forest.draw([RatioGroup("far", (long,))], forest.ForestSheet("", ""))
    plot = re.search(r'class="fr" x="(\d+)"', svg)
    assert plot is not None and int(plot[1]) > 7 * len(long.label)


def test_a_note_stands_in_the_place_of_the_figures() -> None:
    lost = dataclasses.replace(row(1.1), ratio=None, note="no figure: too many failures")
    svg = forest.draw([RatioGroup("far", (lost,))], forest.ForestSheet("", ""))
    assert "too many failures" in svg and "word" not in svg


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK])
def test_text_has_contrast(colours: dict[str, str]) -> None:
    low = {
        pair: round(theme.contrast(colours[pair[0]], colours[pair[1]]), 2)
        for pair in theme.TEXT_PAIRS
    }
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


def test_both_schemes_have_the_same_colours() -> None:
    assert theme.LIGHT.keys() == theme.DARK.keys()
    assert theme.contrast("#000000", "#ffffff") == pytest.approx(21)


def test_an_undecided_barrel_claims_no_more_than_its_interval() -> None:
    svg = barrel.draw(Barrel("x", "undecided", 0.86, 0.72, 1.02))
    assert ">98–139 %<" in svg and ">116 %<" not in svg


def test_every_chart_of_a_page_is_vega_lite(report_file: Path) -> None:
    """Writing a page does not check the whole of each: that took most of its time."""
    page = report_file.read_text(encoding="utf-8")
    charts = re.findall(r'id="chart-\d+">(.*?)</script>', page)
    assert len(charts) == 14
    for chart in charts:
        alt.LayerChart.from_dict(json.loads(chart)["spec"])
