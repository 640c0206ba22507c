"""Parquet files with a bit of their footer flipped: Arrow would end the process at some."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.tablefilekit import refused
from ullage.analysis.tables import footer
from ullage.analysis.tables.table import read
from ullage.common import errors
from ullage.common.errors import UllageError

COLUMNS = {"environment": ["a", "b"] * 10, "value": [1.0, 2.0] * 10, "block": [*range(20)]}
HISTOGRAMS = b"\x3c\x29\x06\x19\x26"
"""Thrift, in the footer: the sizes of a column, among them two short lists of counts."""


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    file = tmp_path / "table.parquet"
    pq.write_table(pa.table(COLUMNS), file)
    return file


def flips(whole: bytes, start: int, end: int) -> Iterator[bytes]:
    """The bytes with each bit flipped in turn."""
    for at in range(start, end):
        for bit in range(8):
            yield b"%b%c%b" % (whole[:at], whole[at] ^ 1 << bit, whole[at + 1 :])


def test_a_footer_at_which_arrow_ends_the_process(parquet: Path) -> None:
    whole, dangers = parquet.read_bytes(), 0
    start = whole.index(HISTOGRAMS)
    for damaged in flips(whole, start, start + len(HISTOGRAMS)):
        parquet.write_bytes(damaged)
        if footer.fault(parquet) is not None:
            refused(errors.TABLE_NOT_READABLE, parquet, "its footer is damaged", "copy the file")
            dangers += 1
    assert dangers


def test_a_walk_without_an_end_is_ended(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(_: Path) -> None:
        while True:
            signal.pause()  # Python's own handlers would let it go on

    monkeypatch.setattr(pq, "read_metadata", stuck)
    monkeypatch.setattr(footer, "LIMIT_S", 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    try:
        assert footer.fault(parquet) == "its footer could not be walked through in 1 s"
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})


def test_a_name_that_is_no_text(parquet: Path) -> None:
    whole = parquet.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    start = whole.index(b"environment", len(whole) - 8 - length)
    parquet.write_bytes(b"%b\xe9%b" % (whole[:start], whole[start + 1 :]))
    refused(errors.TABLE_NOT_READABLE, parquet, "a name in it is not UTF-8")


def test_the_length_of_a_footer(parquet: Path) -> None:
    whole = parquet.read_bytes()
    for damaged in flips(whole, len(whole) - 8, len(whole)):
        parquet.write_bytes(damaged)
        with pytest.raises(UllageError) as caught:
            read(parquet)
        assert caught.value.kind is errors.TABLE_NOT_READABLE
