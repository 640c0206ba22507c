"""Small files that hold too much: refused with words, before they are in memory."""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.tablefilekit import refused
from ullage.analysis.tables import bounds
from ullage.analysis.tables.file import load
from ullage.analysis.tables.table import read
from ullage.common import errors


@pytest.fixture(autouse=True)
def little_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """None of them takes more than 300 MB beside what this process has had already."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_a_parquet_file_of_too_many_rows(tmp_path: Path) -> None:
    """Half a megabyte of it would be a gigabyte in memory."""
    file, rows = tmp_path / "bomb.parquet", 1_000_000
    codes = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()).take([0] * rows), ["a"])
    part = pa.table({"environment": codes, "value": pa.array([0.0]).take([0] * rows)})
    with pq.ParquetWriter(file, part.schema, compression="zstd") as writer:
        for _ in range(bounds.MOST_ROWS // rows + 1):
            writer.write_table(part)
    assert file.stat().st_size < 1_000_000
    refused(errors.TABLE_TOO_MANY, file, "21,000,000 rows", "20,000,000")


def test_a_text_that_repeats_in_a_parquet_file(tmp_path: Path) -> None:
    """A megabyte once, and a number for each of 10,000 rows: as a text of each it is 10 GB."""
    file = tmp_path / "bomb.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), ["x" * 1_000_000])
    words = text.cast(pa.dictionary(pa.int32(), pa.string()))
    columns = {"environment": pa.array(["a", "b"] * 5_000), "value": pa.array([1.0] * 10_000)}
    pq.write_table(pa.table({**columns, "block": words}), file, store_schema=False)
    table = read(file, better="lower")
    assert (table.rows, table.blocks) == (10_000, 1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("value", pa.list_(pa.float64())),
        ("block", pa.binary(1000)),
        ("block", pa.struct([("x", pa.int8())])),
    ],
)
def test_types_that_are_no_values_are_refused_unread(
    tmp_path: Path, name: str, kind: pa.DataType
) -> None:
    file = tmp_path / "nested.parquet"
    columns = {"environment": pa.array(["a"]), "value": pa.array([1.0]), "block": pa.array([1])}
    columns[name] = pa.nulls(1, kind)
    pq.write_table(pa.table(columns), file)
    refused(errors.TABLE_NOT_READABLE, file, f"its column '{name}' holds", "not")


@pytest.mark.parametrize("line", [b"a,1\n", b"a,1\r"])
def test_a_packed_text_of_too_many_rows(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "bomb.csv.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(b"environment,value" + line[-1:])
        for _ in range(bounds.MOST_ROWS // 1_000_000 + 1):
            packed.write(line * 1_000_000)
    assert file.stat().st_size < 2_000_000
    refused(errors.TABLE_TOO_MANY, file, "rows", "20,000,000")


def test_a_packed_text_of_too_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES", 100_000_000)
    file = tmp_path / "bomb.csv.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(b"environment,value,block\n")
        for _ in range(101):
            packed.write(b"a,1," + b"x" * 999_995 + b"\n")
    refused(errors.TABLE_TOO_MANY, file, "bytes", "100,000,000")


def test_what_the_footer_hides_is_stopped_by_a_limit_on_memory(tmp_path: Path) -> None:
    file, rows = tmp_path / "large.parquet", 4_000_000
    codes = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()).take([0] * rows), ["a"])
    table = pa.table({"environment": codes, "value": pa.array([1.0]).take([0] * rows)})
    pq.write_table(table, file, compression="zstd")
    script = (
        "import sys; from pathlib import Path; from ullage.analysis.tables import bounds, file;"
        "bounds.HEADROOM = 0; file.load(Path(sys.argv[1]), {})"
    )
    argv = [sys.executable, "-c", script, str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "it takes too much memory [table-not-readable]" in done.stderr


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "pipe.csv"
    os.mkfifo(file)
    refused(errors.TABLE_NOT_READABLE, file, "not a regular file")


@pytest.mark.parametrize("value", ["[]", "{}", '{"":0}'])
def test_json_whose_every_value_is_wrong(tmp_path: Path, value: str) -> None:
    """A note of each fault took gigabytes, and Rust without memory ends the process."""
    file = tmp_path / "bomb.json"
    file.write_text('{"results":[' + ",".join([value] * 600_000) + "]}")
    refused(errors.TABLE_NOT_READABLE, file, "results.0")


def test_json_of_too_many_values(tmp_path: Path) -> None:
    file = tmp_path / "bomb.json"
    times = ",".join(["1"] * 2_000_001)
    file.write_text('{"results":[{"command":"a","times":[' + times + "]}]}")
    refused(errors.TABLE_NOT_READABLE, file, "2,000,000 values")


def test_a_long_name_in_json_stands_in_memory_once(tmp_path: Path) -> None:
    """Ten thousand characters, in each of a million rows."""
    file = tmp_path / "bomb.json"
    times = ",".join(["1", "2"] * 500_000)
    file.write_text('{"results":[{"command":"' + "x" * 9_999 + '","times":[' + times + "]}]}")
    columns = load(file, {})
    assert len(columns["environment"]) == 1_000_000
