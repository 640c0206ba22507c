"""Reading tables of others: what is understood, and what is refused, where and with what advice."""

import csv as csvs
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from testing.synthetic import CURVE_WORKLOAD, WORKLOADS, make_run
from tests.support.tablefilekit import csv, refused
from ullage.analysis.tables.table import Sheet, read
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs import parquet as tables
from ullage.runs.reader import RunFolder


def parquet(folder: Path, columns: dict[str, Any]) -> Path:
    file = folder / "table.parquet"
    pq.write_table(pa.table(columns), file)
    return file


def cells(sheet: Sheet) -> dict[tuple[str, str, str], list[float]]:
    return {
        (name, figure.workload, figure.metric): sheet.cell(name, at).value.tolist()
        for at, figure in enumerate(sheet.figures)
        for name in sheet.environments
        if sheet.cell(name, at).value.size
    }


LONG = """environment,workload,metric,unit,better,block,generation,value
native,boot,time,ms,lower,1,a,1.5
vm,boot,time,ms,lower,1,a,2.5
native,copy,rate,MB/s,higher,1,a,
vm,copy,rate,MB/s,higher,1,a,NA
vm,boot,time,ms,lower,2,b,2.25
native,boot,time,ms,lower,2,b,1.25
"""


def test_a_table_with_all_columns(tmp_path: Path) -> None:
    sheet = read(csv(tmp_path, LONG))
    assert sheet.environments == ("native", "vm")
    assert [(f.workload, f.metric, f.unit, f.better) for f in sheet.figures] == [
        ("boot", "time", "ms", "lower"),
        ("copy", "rate", "MB/s", "higher"),
    ]
    assert sheet.cell("native", 0).value.tolist() == [1.5, 1.25]
    assert sheet.cell("vm", 0).value.tolist() == [2.5, 2.25]
    assert np.isnan(sheet.cell("native", 1).value).tolist() == [True]
    block, generation = sheet.cell("vm", 0).block, sheet.cell("vm", 0).generation
    assert block is not None
    assert generation is not None
    assert block.tolist() == [0, 1]
    assert generation.tolist() == [0, 1]
    assert (sheet.rows, sheet.blocks, sheet.generations) == (6, 2, 2)
    assert sheet.block_name(1) == "2"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_delimiters_and_byte_order_marks(tmp_path: Path, delimiter: str, start: str) -> None:
    file = csv(tmp_path, start + LONG.replace(",", delimiter))
    assert cells(read(file)).keys() == cells(read(csv(tmp_path, LONG, "plain.csv"))).keys()


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n\n"])
def test_line_ends(tmp_path: Path, end: str) -> None:
    file = tmp_path / "table.csv"
    file.write_bytes((end + LONG.replace("\n", end)).encode())
    plain = csv(tmp_path, LONG, "plain.csv")
    assert str(cells(read(file))) == str(cells(read(plain)))  # NaN equals only itself in words


def test_what_the_csv_reader_refuses_is_an_error_of_the_table(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csvs, "reader", lambda *_, **__: iter(_broken()))
        file.write_text("environment,value\na,1\n")
        refused(errors.TABLE_NOT_READABLE, file, "its first line: broken")


def _broken() -> Iterator[list[str]]:
    raise csvs.Error("broken")
    yield []


def test_a_ragged_row_far_down_is_found(tmp_path: Path) -> None:
    rows = ["native,1"] * 200_000
    rows[150_000] = "native,1,5"
    file = csv(tmp_path, "\n".join(["environment,value", *rows, "vm,2"]))
    refused(errors.TABLE_NOT_READABLE, file, "row 150,001 has 3 cells", better="lower")


def test_spaces_around_names_do_not_count(tmp_path: Path) -> None:
    text = "environment , block, value\na , day, 1\nb,day , 2\n a,night,3\nb, night,NA \n"
    sheet = read(csv(tmp_path, text), better="lower")
    assert sheet.environments == ("a", "b")
    assert (sheet.rows, sheet.blocks) == (4, 2)
    assert sheet.cell("a", 0).value.tolist() == [1.0, 3.0]
    assert np.isnan(sheet.cell("b", 0).value).tolist() == [False, True]
    mapped = read(csv(tmp_path, text), {"environment": "block"}, "lower")
    assert mapped.environments == ("day", "night")


def test_compressed_csv(tmp_path: Path) -> None:
    file = tmp_path / "table.csv.gz"
    file.write_bytes(gzip.compress(LONG.encode()))
    assert read(file).rows == 6


def test_other_names_are_mapped(tmp_path: Path) -> None:
    file = csv(tmp_path, "tool,time_s,run\na,1,1\nb,2,1\n")
    sheet = read(file, {"environment": "tool", "value": "time_s", "block": "run"}, "lower")
    assert cells(sheet) == {("a", "", "time_s"): [1.0], ("b", "", "time_s"): [2.0]}


def test_one_column_in_two_roles(tmp_path: Path) -> None:
    file = csv(tmp_path, "environment,value,block\na,1,1\nb,2,1\n")
    sheet = read(file, {"generation": "block"}, "lower")
    assert (sheet.blocks, sheet.generations) == (1, 1)
    sheet = read(
        parquet(tmp_path, {"host": ["a", "b"], "value": [1.0, 2.0]}),
        {"environment": "host", "block": "host"},
        "lower",
    )
    assert sheet.blocks == 2


@pytest.mark.parametrize(
    "environment",
    [
        pa.array(["a", "b", "a", "b"]),
        pa.array(["a", "b", "a", "b"], pa.large_string()),
        pa.array(["a", "b", "a", "b"]).dictionary_encode(),
        pa.array([7, 8, 7, 8]),
        pa.array([7, 8, 7, 8]).dictionary_encode(),
    ],
)
@pytest.mark.parametrize(
    "value",
    [
        pa.array([1, 2, 3, None], pa.int32()),
        pa.array([1.0, 2.0, 3.0, None], pa.float32()),
        pa.array(["1", "2", "3", ""]),
    ],
)
def test_parquet_of_many_types(tmp_path: Path, environment: Any, value: Any) -> None:
    file = parquet(tmp_path, {"environment": environment, "value": value})
    sheet = read(file, better="lower")
    first, second = sheet.environments
    assert (first, second) in {("a", "b"), ("7", "8")}
    assert sheet.cell(first, 0).value.tolist() == [1.0, 3.0]
    assert np.isnan(sheet.cell(second, 0).value).tolist() == [False, True]


@pytest.mark.parametrize(
    ("block", "codes"),
    [
        (pa.array([30, 10, 20]), [20, 0, 10]),
        (pa.array([1 << 60, 0, 7]), [2, 0, 1]),
        (pa.array([0.3, 0.1, 0.2]), [2, 0, 1]),
        (pa.array([3, 1, 2], pa.timestamp("ns")), [2, 0, 1]),
        (pa.array(["night", "day", "dawn"]), [0, 1, 2]),
        (pa.array(["night", "day", "dawn"]).dictionary_encode(), [0, 1, 2]),
    ],
)
def test_blocks_have_an_order(tmp_path: Path, block: Any, codes: list[int]) -> None:
    columns = {"environment": ["a", "a", "a", "b"], "value": [1.0, 2.0, 3.0, 4.0]}
    twice = pa.concat_arrays([block, block.slice(0, 1)])
    sheet = read(parquet(tmp_path, {**columns, "block": twice}), better="lower")
    blocks = sheet.cell("a", 0).block
    assert blocks is not None
    assert blocks.tolist() == codes


def test_rows_in_any_order_give_the_same_cells(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    names = np.array([f"e{number}" for number in range(20)])
    indices, value = rng.integers(0, 20, 5000), rng.normal(size=5000)
    sheet = read(
        parquet(tmp_path, {"environment": names[indices].tolist(), "value": value}), better="lower"
    )
    for at, name in enumerate(names):
        assert sheet.cell(str(name), 0).value.tolist() == value[indices == at].tolist()


def test_samples_of_a_run_folder(tmp_path: Path) -> None:
    folder = make_run(tmp_path, blocks=8, workloads=(*WORKLOADS, CURVE_WORKLOAD))
    tables.write(RunFolder.open(folder))
    sheet = read(folder / "samples.parquet")
    assert sheet.again == {"native~again": "native"}
    assert any(figure.primary for figure in sheet.figures)
    assert not all(figure.primary for figure in sheet.figures)
    assert sheet.blocks == 8
    assert any("curves" in note and "ullage show" in note for note in sheet.notes)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "it is empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "neither text nor Parquet"),
        ("environment,value\na,1\n".encode("utf-16"), "UTF-16"),
        ("environment,value\ncafé,1\nb,2\n".encode("latin-1"), "LATIN1"),
        (b'{"results": []}', "read_json"),
        (b"environment,value\na,1\nb\n", "row 2 has 1 cells, but the header 2: 'b'"),
        (b"environment,value\na,1\nb,2,x\n", "row 2 has 3 cells, but the header 2: 'b,2,x'"),
        (b"environment,value,value\na,1,1\n", "columns 2 and 3 are both called 'value'"),
        (b"environment,value, value\na,1,1\n", "--column value=NAME"),
        (b"sep=;\nenvironment;value\na;1\n", "delete that line"),
        (b"# mine\nenvironment,value\na,1\n", "delete the comments"),
        (b"PAR1 and no more", "table-not-readable"),
    ],
)
def test_what_is_no_table(tmp_path: Path, content: bytes, expected: str) -> None:
    file = tmp_path / "table.csv"
    file.write_bytes(content)
    error = refused(errors.TABLE_NOT_READABLE, file, better="lower")
    assert expected in f"{error.message}\n{error.hint}\n{error.code}"


def test_latin_1_far_down_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_bytes(b"environment,value\n" + b"native,1\n" * 20_000 + "café,1\n".encode("latin-1"))
    refused(errors.TABLE_NOT_READABLE, file, "UTF-8", better="lower")


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    refused(errors.TABLE_NOT_READABLE, tmp_path, "samples.parquet")
    refused(errors.TABLE_NOT_READABLE, tmp_path / "nowhere.csv", "No such file")


@pytest.mark.parametrize("header", ["environment,value", "environment,block,value"])
def test_a_table_without_rows(tmp_path: Path, header: str) -> None:
    refused(errors.TABLE_NO_ROWS, csv(tmp_path, f"{header}\n"), "no rows", better="lower")


def test_a_missing_column_and_the_nearest_one(tmp_path: Path) -> None:
    file = csv(tmp_path, "enviroment,value\na,1\n")
    refused(errors.TABLE_NO_COLUMN, file, "'environment'", "did you mean enviroment?")
    file = csv(tmp_path, "environment,value,Block\na,1,1\n")
    refused(errors.TABLE_NO_COLUMN, file, "'blok'", "--column block=NAME", names={"block": "blok"})


@pytest.mark.parametrize("text", ["fast", "1,5", "12 ms", "--"])
def test_text_in_value_is_found_by_its_row(tmp_path: Path, text: str) -> None:
    rows = ["native,1"] * 40_000
    rows[31_337] = f'native,"{text}"'
    file = csv(tmp_path, "\n".join(["environment,value", *rows, "vm,2"]))
    refused(errors.TABLE_BAD_CELL, file, "row 31,338", "value", text, better="lower")


def test_text_in_a_value_of_parquet(tmp_path: Path) -> None:
    file = parquet(tmp_path, {"environment": ["a", "b"], "value": ["1", "x"]})
    refused(errors.TABLE_BAD_CELL, file, "row 2", "'x'", better="lower")
    file = parquet(tmp_path, {"environment": ["a", "b"], "value": [[1], [2]]})
    refused(errors.TABLE_NOT_READABLE, file, "not plain values", better="lower")
    file = parquet(tmp_path, {"environment": [["a"], ["b"]], "value": [1, 2]})
    refused(errors.TABLE_NOT_READABLE, file, "not plain values", better="lower")
    file = parquet(tmp_path, {"environment": ["a", "b"], "value": [1, 2], "block": [[1], [2]]})
    refused(errors.TABLE_NOT_READABLE, file, "not plain values", better="lower")


@pytest.mark.parametrize("text", ["inf", "-inf"])
def test_an_infinite_value(tmp_path: Path, text: str) -> None:
    file = csv(tmp_path, f"environment,value\na,1\nb,{text}\n")
    refused(errors.TABLE_BAD_CELL, file, "row 2", text, "leave the cell empty", better="lower")


@pytest.mark.parametrize("text", ["", "NaN", "nan", "NA", "null"])
def test_a_missing_figure_is_no_zero_and_no_error(tmp_path: Path, text: str) -> None:
    sheet = read(csv(tmp_path, f"environment,value\na,1\nb,2\nb,{text}\n"), better="lower")
    assert np.isnan(sheet.cell("b", 0).value).tolist() == [False, True]


def test_all_figures_missing(tmp_path: Path) -> None:
    file = csv(tmp_path, "environment,value\na,\nb,NaN\n")
    refused(errors.TABLE_NO_ROWS, file, "all 2 values are missing", better="lower")


@pytest.mark.parametrize("name", ["", "  "])
def test_an_environment_without_a_name(tmp_path: Path, name: str) -> None:
    file = csv(tmp_path, f"environment,value\na,1\n{name},2\n")
    error = refused(errors.TABLE_BAD_CELL, file, "row 2", "environment", "empty", better="lower")
    assert error.hint == "fill it in"  # without the column there is no table


@pytest.mark.parametrize("blocks", [["1", ""], ["day", ""]])
def test_a_block_without_a_name(tmp_path: Path, blocks: list[str]) -> None:
    rows = "\n".join(f"{name},1,{block}" for name, block in zip("ab", blocks, strict=True))
    file = csv(tmp_path, f"environment,value,block\n{rows}\n")
    refused(
        errors.TABLE_BAD_CELL, file, "row 2", "leave the whole column block out", better="lower"
    )


def test_one_environment_only(tmp_path: Path) -> None:
    refused(errors.TABLE_NO_ROWS, csv(tmp_path, "environment,value\na,1\na,2\n"), "only one", "'a'")


def test_an_environment_that_is_not_there(tmp_path: Path) -> None:
    sheet = read(csv(tmp_path, "environment,value\nnative,1\nvm,2\n"), better="lower")
    with pytest.raises(UllageError) as caught:
        sheet.has("nativ")
    assert caught.value.kind is errors.TABLE_NO_ENVIRONMENT
    assert caught.value.hint == "did you mean native?"


def test_too_many_cells_to_compare(tmp_path: Path) -> None:
    rows = "\n".join(f"e{number},1" for number in range(20_001))
    file = csv(tmp_path, f"environment,value\n{rows}\n")
    refused(errors.TABLE_TOO_MANY, file, "20,001", "--column", better="lower")


def test_too_many_names_are_refused_before_they_take_the_memory(tmp_path: Path) -> None:
    number = 8000
    file = parquet(
        tmp_path,
        {
            "environment": ["a", "b"] * (number // 2),
            "workload": [f"w{at}" for at in range(number)],
            "metric": [f"m{at}" for at in range(number)],
            "value": [1.0] * number,
        },
    )
    refused(errors.TABLE_TOO_MANY, file, "64,000,000", better="lower")


def test_a_duet_is_left_to_show(tmp_path: Path) -> None:
    folder = make_run(tmp_path, blocks=6, design="duet")
    tables.write(RunFolder.open(folder))
    refused(errors.TABLE_NOT_READABLE, folder / "samples.parquet", "duet", "ullage show")


@pytest.mark.parametrize("name", ["\x1b[31mred", "[bold]x[/]", "a\u202eb", "x\ny"])
def test_labels_cannot_steer_a_terminal(tmp_path: Path, name: str) -> None:
    sheet = read(
        parquet(tmp_path, {"environment": [name, "b"], "value": [1.0, 2.0]}), None, "lower"
    )
    assert sheet.environments[0] == name
    assert "\x1b" not in sheet.label(name)
    assert "\u202e" not in sheet.label(name)
