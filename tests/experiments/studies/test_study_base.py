"""What holds of every study, and of the figures and tables that they are made of."""

from __future__ import annotations

import ast
import math
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.studies.planruns import CLOUDS
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic.plan import schema as elastic_plan
from ullage.experiments.studies import STUDIES, Study, base, clockrun, get, plantexts, showing
from ullage.experiments.studies.base import Column, DerivedRow, DerivedTable, StudyFigure, StudyPlan
from ullage.experiments.studies.registry import REGISTRY
from ullage.plan import matrix, schema

CHOICES = plantexts.Choices((Path("/a"), Path("/b")), CLOUDS)
SHARED = Path(__file__).parents[4] / "shared" / "published"
"""Where the figures were transcribed to; a copy of the tree stands without it."""
CHECKOUT = Path(__file__).parents[3]
ALL = pytest.mark.parametrize("study", [study() for study in STUDIES], ids=lambda study: study.name)
HEADINGS = ("## Question", "## Method", "## What the original got wrong, and how we avoid it")


@ALL
def test_a_study_is_a_folder_of_its_name_with_a_readme(study: Study) -> None:
    assert study.folder.name == study.name.replace("-", "_")
    text = study.readme()
    assert text.startswith("# ")
    assert [text.count(f"\n{heading}\n") for heading in HEADINGS] == [1, 1, 1]


@ALL
def test_its_published_figures_are_those_that_were_transcribed(study: Study) -> None:
    files = sorted((study.folder / base.PUBLISHED).glob("*.csv"))
    assert bool(files) == bool(study.tables()), "of some studies no raw figures are published"
    for file in files:
        rows = study.published(file.stem)
        assert rows
        assert None not in rows[0], "a row is longer than the header"
        original = SHARED / file.name
        if original.is_file():
            assert file.read_bytes() == original.read_bytes(), file.name


@ALL
def test_a_changed_digit_is_refused(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every published file; and no file is without its checksum."""
    folder = shutil.copytree(study.folder, tmp_path / study.folder.name)
    monkeypatch.setattr(type(study), "folder", folder)
    for file in sorted((folder / base.PUBLISHED).glob("*.csv")):
        assert study.published(file.stem)
        text = file.read_text(encoding="utf-8")
        digit = next(i for i in reversed(range(len(text))) if text[i].isdigit())
        file.write_text(text[:digit] + str(9 - int(text[digit])) + text[digit + 1 :], "utf-8")
        with pytest.raises(UllageError) as raised:
            study.published(file.stem)
        assert raised.value.kind is errors.STUDY_CHANGED


@ALL
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_its_plans_can_be_run_and_bear_its_name(
    study: Study, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "host_cpus", lambda: 40)  # as there: the widest want 32
    plans = study.plans(quick)
    assert plans
    for plan in plans:
        file = study.folder / plan.file
        file = tmp_path / plan.file
        file.write_bytes(plantexts.text(study, plan, CHOICES))
        assert plan.name.startswith(f"{study.name}-")
        assert plan.name.endswith("-quick" if quick else "-full")
        assert plan.minutes > 0
        if plan.clock:
            assert clockrun.load(file).name == plan.name
        elif plan.elastic:
            checked, document = elastic_plan.load(file)
            assert checked.name == plan.name
            assert elastic_plan.resolve(checked, document)
        else:
            ordinary, document = schema.load(file)
            assert ordinary.name == plan.name
            assert matrix.resolve(ordinary, document).cells > 0


@ALL
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_a_room_is_measured_by_a_plan_that_comes_before(study: Study, quick: bool) -> None:
    """And the path of its run stands in the text, in each place, when it is run."""
    names: list[str] = []
    for plan in study.plans(quick):
        written = (study.folder / plan.file).read_text(encoding="utf-8")
        assert (
            (f"capacity: {plan.room_of}" in written) if plan.room_of else "capacity:" not in written
        )
        if plan.room_of:
            assert plan.elastic and plan.room_of in names
            text = plantexts.text(study, plan, room=Path('/my runs/of a "study"')).decode()
            rooms = [entry for entry in _rooms(yaml.safe_load(text)) if isinstance(entry, dict)]
            assert rooms
            assert {room["capacity"] for room in rooms} == {'/my runs/of a "study"'}
        names.append(plan.name)


def _rooms(plan: dict[str, Any]) -> list[Any]:
    """Of the plan and of its environments."""
    entries = [plan, *plan["environments"].values()]
    return [entry["room"] for entry in entries if "room" in entry]


@ALL
def test_plans_have_names_of_their_own(study: Study) -> None:
    names = [plan.name for quick in (True, False) for plan in study.plans(quick)]
    assert len(set(names)) == len(names)


@ALL
def test_its_tables_are_whole(study: Study) -> None:
    tables = study.tables()
    assert len({table.key for table in tables}) == len(tables)
    for table in tables:
        assert table.rows, table.key
        assert {len(row.cells) for row in table.rows} == {len(table.columns)}
        assert all(
            figure.value is None or math.isfinite(figure.value) for _, _, figure in table.figures()
        )


@ALL
def test_whatever_disagrees_or_is_missing_says_why(study: Study) -> None:
    for table in study.tables():
        for row, column, figure in table.figures():
            if figure.agrees is False or figure.value is None:
                assert figure.why, (table.key, row.label, column.title)


@ALL
def test_what_has_no_counterpart_is_named(study: Study) -> None:
    """Every published file is counted; what is missing is said, and what is not missing is not."""
    kinds = study.coverage()
    files = {file.stem for file in (study.folder / base.PUBLISHED).glob("*.csv")}
    derived = {"cmu2015_derived"}  # recomputed, and nothing that a run could have a counterpart of
    assert {kind.file for kind in kinds} == files - derived
    for kind in kinds:
        published = showing.published_count(study, kind)
        assert 0 <= kind.fresh <= published
        assert bool(kind.missing) == (kind.fresh < published), kind.of
    table = showing.coverage_table(study)
    assert (table is None) == (not files)
    if table is not None:
        assert table.rows[-1].label == "all"
        assert table.value("all", "fresh") == sum(kind.fresh for kind in kinds)


@ALL
def test_the_plans_of_the_full_form_stand_with_their_hours(study: Study, tmp_path: Path) -> None:
    plans = study.plans(quick=False)
    table = showing.plans_table(study, {plans[-1].name: tmp_path})
    assert [row.label for row in table.rows] == [plan.name for plan in plans]
    for plan, row in zip(plans, table.rows, strict=True):
        assert table.value(plan.name, "time") == pytest.approx(plan.minutes / 60)
        _, _, short, wants, run = row.cells
        assert (short == "yes") == (plan.minutes <= 180)
        assert ("--disk" in str(wants)) == plan.disks
        assert ("--plan" in str(wants)) == plan.by_name
        assert ("--cloud" in str(wants)) == plan.cloud
        assert (run == "yes") == (plan is plans[-1])
    assert showing.dumped(showing.recompute(study, {}))["plans"]["key"] == "plans"


@ALL
def test_without_runs_nothing_is_fresh(study: Study) -> None:
    report = showing.recompute(study, {})
    assert report.fresh == ()
    assert showing.dumped(report)["fresh"] == []


def test_what_studies_need_is_in_the_package() -> None:
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["ullage"]
    package = CHECKOUT / "ullage"
    packed = {file for pattern in patterns for file in package.glob(pattern)}
    expected = {
        file
        for file in (package / "experiments/studies").rglob("*")
        if file.suffix in (".md", ".yaml", ".csv", ".j2")
    }
    assert expected
    assert expected <= packed


def test_a_name_that_is_none() -> None:
    with pytest.raises(UllageError) as raised:
        get("cmu-overhed")
    assert raised.value.kind is errors.STUDY_UNKNOWN
    assert raised.value.hint == "did you mean cmu-overhead?"


MEASURE = ("cli", "engine", "plan", "meters", "workloads", "environments", "host")
RUNNERS = ("running", "clockrun", "yourclouds")


def imported(file: Path) -> set[str]:
    """The rooms of ullage that a file imports from, within functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "ullage":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ullage."):
            names.add(str(node.module).split(".")[1])
    return names


def test_recomputing_and_showing_import_nothing_that_measures() -> None:
    files = list((CHECKOUT / "ullage" / "experiments" / "studies").rglob("*.py"))
    rooms = {file: imported(file) & set(MEASURE) for file in files if file.stem not in RUNNERS}
    assert len(rooms) >= 8
    assert {file.name: modules for file, modules in rooms.items() if modules} == {}
    running = CHECKOUT / "ullage" / "experiments" / "studies" / "running.py"
    assert imported(running) >= {"engine", "plan"}, "else this test looks at nothing"


class _Good(Study):
    """Stands for any."""

    name = "good"
    title = "Good"
    question = "Is it?"
    source = "a paper"
    needs = ()

    def tables(self) -> tuple[DerivedTable, ...]:
        return ()

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        return ()

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        return ()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"question": "It is."}, "question does not end with a question mark"),
        ({"title": " "}, "title is not text"),
        ({"needs": ["root"]}, "needs is not a tuple of text"),
        ({"name": "Good Study"}, "is not lower-case words"),
        ({"plans": None}, "plans is not a method"),
    ],
)
def test_the_list_refuses_what_is_no_study(change: dict[str, Any], fault: str) -> None:
    REGISTRY.refuse_faults([_Good])
    bad = type("_Bad", (_Good,), {"__doc__": "Stands for a bad one.", **change})
    with pytest.raises(UllageError, match=fault):
        REGISTRY.refuse_faults([bad])
    with pytest.raises(UllageError) as raised:
        REGISTRY.refuse_faults([_Good, _Good])
    assert raised.value.kind is errors.LIST_DUPLICATE


@pytest.mark.parametrize(
    ("value", "printed", "agrees"),
    [
        (165.6986, "165.7", True),
        (165.64, "165.7", False),
        (165.65, "165.7", True),
        (17920.4, "17,920", True),
        (5.28375, "4.057", False),
        (0.04645, "0.0465", True),
        (3.0, "3", True),
        (2.4, "3", False),
        (-1.26, "-1.3", True),
    ],
)
def test_agreement_is_to_the_printed_digits(value: float, printed: str, agrees: bool) -> None:
    assert StudyFigure(value=value, printed=printed).agrees is agrees


def test_nothing_printed_or_no_value_is_no_agreement() -> None:
    assert StudyFigure(value=1.0).agrees is None
    assert StudyFigure(value=None, printed="1.0", why="lost").agrees is None


@given(st.floats(-1e5, 1e5), st.integers(0, 6))
def test_what_is_printed_from_a_value_agrees_with_it(value: float, places: int) -> None:
    printed = f"{value:,.{places}f}"
    assert StudyFigure(value=value, printed=printed).agrees
    step = 10.0**-places
    assert StudyFigure(value=base.number(printed) + 2 * step, printed=printed).agrees is False


@given(st.floats(1e-3, 1e3), st.floats(1.001, 3))
def test_a_ratio_with_its_interval_reads_as_it_is(value: float, wide: float) -> None:
    figure = StudyFigure(value=value, low=value / wide, high=value * wide)
    text = showing.text(figure, Column(title="ratio"))
    middle, low, high = text.replace("(", "").replace(")", "").replace(" to ", " ").split()
    assert float(low) <= float(middle) <= float(high)
    slack = 1e-6 + 1e-9 * value
    assert float(low) <= value / wide + slack
    assert float(high) >= value * wide - slack


TABLE = DerivedTable(
    key="t",
    caption="A table",
    of="row",
    columns=(Column(title="power", unit="W", decimals=1), Column(title="verdict")),
    rows=(
        DerivedRow(
            label="one",
            cells=(StudyFigure(value=5.28, printed="4.06", why="other weights"), "worse"),
        ),
        DerivedRow(
            label="two", cells=(StudyFigure(value=None, low=1.0, high=2.0, why="only bounds"), "–")
        ),
        DerivedRow(label="three", cells=(StudyFigure(value=None, why="never measured"), "–")),
        DerivedRow(
            label="four", cells=(StudyFigure(value=7.0, why="one block has no spread"), "–")
        ),
        DerivedRow(label="five", cells=(StudyFigure(value=7.0, low=6.0, high=8.25), "–")),
        DerivedRow(label="six", cells=(StudyFigure(value=165.6986, printed="165.7"), "–")),
    ),
    notes=("Read it.",),
)


def test_cells_in_words() -> None:
    power = TABLE.columns[0]
    assert [showing.text(row.cells[0], power) for row in TABLE.rows] == [
        "5.3 ≠ 4.06",
        "1.0 to 2.0",
        "–",
        "7.0",
        "7.0 (6.0 to 8.2)",
        "165.7 = printed",
    ]


def test_notes_explain_each_kind_once() -> None:
    assert showing.notes(TABLE) == [
        "Read it.",
        "≠: other weights.",
        "A range: only bounds.",
        "–: never measured.",
        "No interval: one block has no spread.",
    ]


def test_a_value_by_its_place() -> None:
    assert TABLE.value("four", "power") == 7.0
    with pytest.raises(KeyError):
        TABLE.value("seven", "power")
