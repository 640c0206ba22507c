"""Columns of a table as NumPy arrays: figures, names and blocks, the latter two as small numbers.

Chunk by chunk, so that a column of ten million rows is never there twice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from ullage.analysis.tables.file import REQUIRED
from ullage.common.errors import TABLE_BAD_CELL, TABLE_NOT_READABLE, UllageError

Codes = NDArray[np.integer[Any]]
"""Small whole numbers that stand for names."""


def gathered(column: Any, kind: DTypeLike, of: Callable[[Any], Any] = lambda chunk: chunk) -> Any:
    """A column as one array; `of` turns each chunk before it is copied. A missing figure is NaN."""
    array = np.empty(len(column), dtype=kind)
    at = 0
    for chunk in column.chunks:
        array[at : at + len(chunk)] = of(chunk).to_numpy(zero_copy_only=False)
        at += len(chunk)
    return array


def codes(file: Path, column: Any, role: str, *, blank: bool = False) -> tuple[Codes, list[str]]:
    """Codes and their names, which are in the order of the dictionary: in CSV of first use.

    Spaces around a name do not count. An empty cell is TABLE_BAD_CELL, or with `blank` the name ''.
    """
    column = column.unify_dictionaries()
    names = [(name or "").strip() for name in column.chunk(0).dictionary.to_pylist()]
    names.append("")
    hole = len(names) - 1
    indices: Codes = gathered(
        column, np.min_scalar_type(hole), lambda chunk: pc.fill_null(chunk.indices, hole)
    )
    empty = np.array([not name for name in names])
    if not blank and (holes := empty[indices]).any():
        raise empty_cell(file, role, int(np.argmax(holes)))
    used = np.bincount(indices, minlength=len(names)) > 0
    different = len(set(names)) == len(names)
    if different and used[:-1].all() and not used[hole]:
        return indices, names[:-1]
    merged: dict[str, int] = {}
    place = np.zeros(len(names), dtype=indices.dtype)
    for at in np.flatnonzero(used):
        place[at] = merged.setdefault(names[at], len(merged))
    return place[indices], list(merged)


def empty_cell(file: Path, role: str, row: int) -> UllageError:
    """Of a row, counted from 0, that says nothing in a column that must not be empty."""
    return UllageError(
        TABLE_BAD_CELL,
        file=file,
        row=f"{row + 1:,}",
        column=role,
        found="an empty cell",
        allowed="a name is needed",
        suggestion="fill it in"
        + ("" if role in REQUIRED else f"; or leave the whole column {role} out"),
    )


def blocks(file: Path, column: Any) -> tuple[Codes, int | None]:
    """Codes that rise in the order of the blocks, and what 0 stands for where they are counted.

    Numbers and times in their own order; text in the order of its first use in the file.
    """
    if pa.types.is_dictionary(column.type):
        if _is_text(column.type.value_type):
            column = _by_first_use(column.unify_dictionaries())
        else:
            column = column.cast(column.type.value_type)
    if column.null_count:
        raise empty_cell(file, "block", int(np.argmax(np.asarray(pc.is_null(column)))))
    if pa.types.is_integer(column.type):
        least, most = pc.min_max(column).as_py().values()
        if most - least <= 4 * len(column) + 1000:
            first = pa.scalar(least, column.type)
            return gathered(column, np.int32, lambda chunk: pc.subtract(chunk, first)), least
    if pa.types.is_dictionary(column.type) or _is_text(column.type):
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        trimmed = pc.utf8_trim_whitespace(encoded.chunk(0).dictionary).dictionary_encode()
        place: Codes = np.asarray(trimmed.indices, dtype=np.int32)
        ranks = place[gathered(encoded, np.int32, lambda chunk: chunk.indices)]
        if (empty := pc.index(trimmed.dictionary, "").as_py()) >= 0:
            raise empty_cell(file, "block", int(np.argmax(ranks == empty)))
        return ranks, None
    try:
        rank = pc.rank(column.combine_chunks(), tiebreaker="dense")
    except pa.ArrowException as error:
        raise UllageError(
            TABLE_NOT_READABLE,
            file=file,
            reason=f"its column of blocks holds {column.type}",
            suggestion="number the blocks, or name them",
        ) from error
    return (rank.to_numpy(zero_copy_only=False) - 1).astype(np.int32), None


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _by_first_use(column: Any) -> Any:
    """The same texts, numbered as they come. No text is there more than once."""
    words = column.chunk(0).dictionary
    numbers = pa.chunked_array([chunk.indices for chunk in column.chunks]).dictionary_encode()
    if words.null_count:
        return column.cast(words.type)
    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(chunk.indices, words.take(chunk.dictionary))
            for chunk in numbers.chunks
        ]
    )


def in_order(key: Codes, size: int) -> NDArray[np.int64] | None:
    """The places of the rows, cell by cell and within one as they stand; None: they are in order.

    size: keys are below it.
    """
    if (key[1:] >= key[:-1]).all():
        return None
    if size <= _FEW:
        return np.concatenate([np.flatnonzero(key == at) for at in range(size)])
    return np.argsort(key, kind="stable")  # of 8 and 16 bits by radix


_FEW = 8


def distinct(codes: Codes) -> int:
    """How many different ones there are."""
    present = np.zeros(int(codes.max()) + 1, dtype=bool)
    present[codes] = True
    return int(np.count_nonzero(present))
