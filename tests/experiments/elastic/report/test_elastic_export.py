"""`ullage elastic export`: tables, and pictures of the page; `elastic report --charts`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from tests.support.commandkit import ullage
from ullage.common import errors
from ullage.experiments.elastic.report import export, show
from ullage.experiments.elastic.report.answer import metrics_of
from ullage.experiments.elastic.report.show import AnalysedRun

HOSTILE = "=1+1\x1b[31m & co"
ENVIRONMENTS = {
    "lxc": SyntheticEnvironment(label="lxc: container (lxc)", tar_s=0.5, fails=frozenset({3})),
    "lxc-again": SyntheticEnvironment(label="lxc, again", tar_s=0.5, again_of="lxc"),
    "qemu": SyntheticEnvironment(label=HOSTILE, tar_s=2.0, stall=0.1),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("exported")
    make(at / "runs", SyntheticRun(environments=ENVIRONMENTS, viewers=30, name="a"))
    alone = SyntheticRun(
        environments={"lxc": SyntheticEnvironment()}, viewers=10, repetitions=1, name="alone"
    )
    make(at / "runs", alone)
    return at


@pytest.fixture(scope="module")
def analysed(place: Path) -> AnalysedRun:
    return show.find(Path("20260101T000000-a"), place / "runs")


def table(analysed: AnalysedRun, form: str) -> bytes:
    return export.sheet(analysed).written(form)


def test_a_row_for_each_environment_and_metric(analysed: AnalysedRun) -> None:
    rows = export.rows(analysed)
    assert [(row["environment"], row["metric"]) for row in rows] == [
        (e.key, estimate.metric) for e in analysed.summary.environments for estimate in e.estimates
    ]
    assert all(list(row) == list(export.COLUMNS) for row in rows)
    assert len(rows) == 3 * len(metrics_of(analysed.summary.environments))


def test_every_form_has_the_same_rows(analysed: AnalysedRun) -> None:
    rows = export.rows(analysed)
    document = json.loads(table(analysed, "json"))
    assert (
        document["rows"] == rows
        and document["run"] == "20260101T000000-a"
        and document["format"] == 1
    )
    parquet = pq.read_table(pa.BufferReader(table(analysed, "parquet")))
    assert parquet.to_pylist() == rows and parquet.schema.metadata[b"format"] == b"1"
    read = list(csv.DictReader(io.StringIO(table(analysed, "csv").decode())))
    assert [row["estimate"] for row in read] == [str(row["estimate"]) for row in rows]


def test_a_row_has_the_figure_its_interval_and_how_it_compares(analysed: AnalysedRun) -> None:
    row = next(
        row
        for row in export.rows(analysed)
        if (row["environment"], row["metric"]) == ("qemu", "blocked")
    )
    estimate = analysed.summary.environment("qemu").estimate("blocked")
    assert estimate is not None
    assert (row["symbol"], row["unit"], row["repetitions"]) == ("PcBl", "1", 8)
    assert (row["estimate"], row["low"], row["high"]) == (
        estimate.estimate,
        estimate.low,
        estimate.high,
    )
    assert (row["baseline"], row["compared_by"], row["pairs"]) == ("lxc", "difference", 7)
    # One of eight failed: too many for a verdict.
    assert row["verdict"] is None and row["no_verdict"].startswith("1 of 8 repetitions")
    assert "repetition-failed" in row["doubts"].split()


def test_the_baseline_is_compared_with_nothing_and_its_copy_never_judged(
    analysed: AnalysedRun,
) -> None:
    for row in export.rows(analysed):
        assert (row["baseline"] is None) is (row["environment"] == "lxc")
        assert row["is_again"] is (row["environment"] == "lxc-again")
        if row["is_again"]:
            assert row["verdict"] is None and row["no_verdict"] is None
    (failed,) = {r["without_figures"] for r in export.rows(analysed) if r["baseline"] is None}
    assert failed == 1


def test_what_a_label_says_is_no_formula_and_no_escape(analysed: AnalysedRun) -> None:
    text = table(analysed, "csv").decode()
    assert "'=1+1" in text and "\x1b" not in text
    latex = table(analysed, "latex").decode()
    assert "\\& co" in latex and "\x1b" not in latex


def test_latex_has_the_primary_metrics_rounded(analysed: AnalysedRun) -> None:
    lines = table(analysed, "latex").decode().splitlines()
    assert lines[1] == "\\begin{tabular}{llrrlrll}" and lines[-1] == "\\end{tabular}"
    body = lines[lines.index("\\midrule") + 1 : lines.index("\\bottomrule")]
    assert len(body) == 3 * 5
    assert all(line.count(" & ") == 7 for line in body)
    assert sum("elastic deviation ($\\sigma$)" in line for line in body) == 3
    assert sum(line.endswith("the noise floor \\\\") for line in body) == 5


def test_without_a_baseline_latex_has_no_columns_of_effects(place: Path) -> None:
    alone = show.find(Path("20260101T000000-alone"), place / "runs")
    assert "\\begin{tabular}{llrrl}" in table(alone, "latex").decode()


def test_the_command_writes_tables(place: Path) -> None:
    done = ullage("elastic", "export", "20260101T000000-a", cwd=place)
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("run,environment,")
    done = ullage("elastic", "export", "--format", "json", "--out", "t.json", cwd=place)
    assert done.code == 0, done.stderr
    # Without a name it is the newest, of equal instants the last by name.
    assert json.loads((place / "t.json").read_text())["run"] == "20260101T000000-alone"


def test_the_command_draws_the_field(place: Path) -> None:
    magic = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}
    for form, first in magic.items():
        argv = ("elastic", "export", "20260101T000000-a", "--format", form, "--out", f"f.{form}")
        done = ullage(*argv, cwd=place)
        assert done.code == 0, done.stderr
        assert (place / f"f.{form}").read_bytes().startswith(first)
    text = (place / "f.svg").read_text()
    ElementTree.fromstring(text)
    assert "var(--" not in text and "\x1b" not in text
    # Every environment has its field, below the others.
    assert text.count("nodes demanded") >= 3
    assert "lxc: container (lxc)" in text and "lxc, again" in text


def test_one_environment_alone_and_a_picture_that_is_not_there(place: Path) -> None:
    argv = ("elastic", "export", "20260101T000000-a", "--format", "svg", "--picture")
    single = ullage(*argv, "field-qemu", cwd=place)
    assert single.code == 0, single.stderr
    assert "lxc: container (lxc)" not in single.stdout and "=1+1" in single.stdout
    done = ullage(*argv, "feld", cwd=place)
    assert done.code == 2 and errors.EXPORT_UNKNOWN_PICTURE.code in done.stderr
    assert "field, field-lxc, field-lxc-again, field-qemu, allocations, waits" in done.stderr


def test_a_picture_is_no_table_and_formats_are_known(place: Path) -> None:
    done = ullage("elastic", "export", "--picture", "field", cwd=place)
    assert done.code == 2 and errors.EXPORT_NO_PICTURE.code in done.stderr
    done = ullage("elastic", "export", "--format", "gif", cwd=place)
    assert done.code == 2 and errors.EXPORT_UNKNOWN_FORMAT.code in done.stderr
    assert "csv, json, latex, parquet, svg, pdf, png" in done.stderr


def test_the_report_writes_its_charts_too(place: Path) -> None:
    argv = ("elastic", "report", "20260101T000000-alone", "--charts", "charts")
    done = ullage(*argv, cwd=place)
    assert done.code == 0, done.stderr
    written = {file.name for file in (place / "charts").iterdir()}
    assert written == {
        f"{name}.{form}"
        for name in ("field", "allocations", "waits")
        for form in ("svg", "pdf", "png")
    }
    assert "charts/field.pdf" in done.stdout


def test_a_run_without_figures_has_no_rows_and_no_picture(tmp_path: Path) -> None:
    failed = SyntheticRun(
        environments={"lxc": SyntheticEnvironment(fails=frozenset({0}))}, repetitions=1
    )
    make(tmp_path / "runs", failed)
    done = ullage("elastic", "export", cwd=tmp_path)
    assert done.code == 0 and done.stdout.splitlines() == [",".join(export.COLUMNS)]
    done = ullage("elastic", "export", "--format", "svg", cwd=tmp_path)
    assert done.code == 2 and done.stdout == ""
    assert "has no picture 'field'; it has none" in done.stderr
