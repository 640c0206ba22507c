from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from ullage.analysis import overhead
from ullage.analysis.comparison.model import Analysis
from ullage.analysis.sentences import comparison_sentence
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.report.export import COLUMNS, export, lines, rich_table, rows
from ullage.runs.reader import RunFolder


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    run = make_run(tmp_path_factory.mktemp("runs") / "run", raw=False)
    return overhead.analyse(RunFolder.open(run))


def test_every_form_has_the_same_rows(analysis: Analysis) -> None:
    expected = rows(analysis)
    assert len(expected) == len(analysis.comparisons) + len(analysis.again)
    assert json.loads(export(analysis, "json"))["rows"] == expected
    table = pq.read_table(pa.BufferReader(export(analysis, "parquet")))
    assert table.to_pylist() == expected
    assert table.schema.metadata[b"format"] == b"2"
    read = list(csv.DictReader(io.StringIO(export(analysis, "csv").decode())))
    assert [row["workload"] for row in read] == [row["workload"] for row in expected]
    assert [float(row["ratio"]) for row in read if row["ratio"]] == [
        row["ratio"] for row in expected if row["ratio"] is not None
    ]


def test_columns_are_those_declared(analysis: Analysis) -> None:
    assert all(list(row) == list(COLUMNS) for row in rows(analysis))


def test_figures_are_not_rounded(analysis: Analysis) -> None:
    c = analysis.comparisons[0]
    assert rows(analysis)[0]["ratio"] == c.ratio


def test_every_row_says_what_it_rests_on(analysis: Analysis) -> None:
    exported = rows(analysis)
    assert {row["design"] for row in exported} == {"solo"}
    assert {row["correction"] for row in exported} == {"holm"}
    assert {row["precision"] for row in exported} == {"repeatability"}
    for row, c in zip(exported, (*analysis.comparisons, *analysis.again), strict=True):
        assert (row["pairs"], row["generations"]) == (c.pairs, c.generations)
        budget = c.budget.model_dump() if c.budget else {}
        for name in ("type_a", "type_b", "expanded"):
            assert row[name] == budget.get(name)


def test_the_table_and_the_sentences_have_the_same_figures(analysis: Analysis) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(rich_table(analysis))
    table = console.export_text().splitlines()
    for c in analysis.primary():
        sentence = comparison_sentence(analysis, c)
        at = next(i for i, line in enumerate(table) if line.startswith(c.environment_label))
        row = next(line for line in table[at:] if c.workload_title in line)
        middle, interval, rests, verdict, *_ = re.split(r"  +", row.strip())[1:]
        assert f"{interval}, {rests}" in sentence
        assert all(part in sentence for part in verdict.split(": "))
        assert (f"{middle}× worse" in sentence) is (c.verdict == "worse")


def test_details_for_the_terminal(analysis: Analysis) -> None:
    text = lines(analysis)
    assert text[0].startswith("design: trials one after another")
    for c in analysis.primary():
        at = text.index(comparison_sentence(analysis, c))
        assert text[at + 1].startswith("  rests on: ")
    doubts = sum(len(c.doubts) for c in (*analysis.primary(), *analysis.again) if c.primary)
    assert sum(line.startswith("  doubt: ") for line in text) == doubts > 0


def test_latex_escapes_what_a_plan_may_hold(tmp_path: Path) -> None:
    nasty = WORKLOADS[0].model_copy(update={"title": r"50% of $x_1$ & \input{/etc/passwd} #~^"})
    run = make_run(tmp_path / "run", workloads=[nasty], raw=False)
    text = export(overhead.analyse(RunFolder.open(run)), "latex").decode()
    assert r"50\% of \$x\_1\$ \& \textbackslash{}input\{/etc/passwd\}" in text
    assert text.count(r"\\") == 1 + 3
    assert r"\input{" not in text
    assert text.count("{tabular}") == 2


def test_a_spreadsheet_gets_no_formula(tmp_path: Path) -> None:
    nasty = WORKLOADS[0].model_copy(update={"title": '=HYPERLINK("http://x")'})
    run = make_run(tmp_path / "run", workloads=[nasty], raw=False)
    data = export(overhead.analyse(RunFolder.open(run)), "csv").decode()
    for row in csv.DictReader(io.StringIO(data)):
        assert row["workload_title"].startswith("'=")


def test_an_unknown_form(analysis: Analysis) -> None:
    with pytest.raises(UllageError) as caught:
        export(analysis, "jsn")
    assert caught.value.kind is errors.EXPORT_UNKNOWN_FORMAT
    assert "json" in caught.value.hint


def test_the_terminals_table(analysis: Analysis) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(rich_table(analysis))
    text = console.export_text()
    assert text.count("qemu-tcg (emulated)") == 1, "a heading"
    assert len(re.findall(r"A/A: [0-9.,]+ (1/s|GB/s|MB/s|Gbit/s)", text)) == 4, "absolute values"
    assert "worse" in text


def test_labels_are_no_markup(tmp_path: Path) -> None:
    odd = ENVIRONMENTS[3].model_copy(update={"label": "[red]lxc[/red]"})
    run = make_run(tmp_path / "run", environments=[ENVIRONMENTS[0], odd], failures=[], raw=False)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(rich_table(overhead.analyse(RunFolder.open(run))))
    assert "[red]lxc[/red]" in console.export_text()
