"""How large a table may be: a few megabytes of a packed file can be gigabytes in memory.

What a file says of itself is looked at first, then all of a packed text is unpacked once, in small
pieces, and counted. What hides from both meets a limit on this process's memory.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ullage.common.errors import TABLE_TOO_MANY, UllageError

MOST_ROWS: Final = 20_000_000
MOST_BYTES: Final = 1 << 31
"""Unpacked, of the columns that are read."""
HEADROOM: Final = 3 << 30
"""Bytes of address space that reading may take beside what the process has."""
_PIECE: Final = 1 << 20
_SHORTEST_ROW: Final = 4
"""Bytes: `a,1` and the end of the line."""


def check_text(file: Path) -> None:
    """TABLE_TOO_MANY when a text has too many lines or bytes, packed or not."""
    size = file.stat().st_size
    with pa.input_stream(str(file), compression="detect") as stream:
        packed = isinstance(stream, pa.CompressedInputStream)
        if not packed and size <= min(MOST_BYTES, MOST_ROWS * _SHORTEST_ROW):
            return
        read, lines, returns = 0, 0, 0
        while piece := stream.read(_PIECE):
            read += len(piece)
            lines += piece.count(b"\n")
            returns += piece.count(b"\r")
            _check(file, max(lines, returns) - 1, read)


def check_parquet(file: Path, metadata: Any, columns: set[str]) -> None:
    """The same by the footer of a Parquet file (`pyarrow.parquet.FileMetaData`)."""
    rows, size = 0, 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        rows += group.num_rows
        for at in range(group.num_columns):
            column = group.column(at)
            if column.path_in_schema.partition(".")[0] in columns:
                size += column.total_uncompressed_size
    _check(file, max(rows, metadata.num_rows), size)


def _check(file: Path, rows: int, size: int) -> None:
    for number, what, most in ((rows, "rows", MOST_ROWS), (size, "bytes", MOST_BYTES)):
        if number > most:
            raise UllageError(
                TABLE_TOO_MANY, file=file, found=f"{number:,}", what=what, most=f"{most:,}"
            )


@contextlib.contextmanager
def memory() -> Iterator[None]:
    """This process may take no more than `HEADROOM` meanwhile: MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = now * resource.getpagesize() + HEADROOM
    limits = [limit, *(other for other in (soft, hard) if other != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
