"""Files that somebody else may have made, opened so that none can hang or exhaust who reads it.

A run folder may come from anybody. A pipe, a device or a link in the place of a file is refused
before a byte of it is read, and so is a file of more bytes than there can be. What is wrong is an
OSError that says so in words.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from itertools import count
from pathlib import Path
from typing import Final, Self

from ullage.common.quantities import format_bytes

LARGEST: Final = 1 << 30
"""Bytes of a file of lines."""
DOCUMENT: Final = 64 << 20
"""Bytes of a file that is read at once."""
MOST_LINES: Final = 1 << 22
"""Lines of one."""
MOST_VALUES: Final = 250_000
"""Of a JSON record: one that is no record of ours takes a kilobyte of memory for each of them."""
HASHED: Final = 8 << 30
"""Bytes of a file whose digest is taken: more than a trial's outputs may be."""
NOTHING: Final = f"sha256:{hashlib.sha256().hexdigest()}"
"""The digest of a file without a byte."""
LONGEST_LINE: Final = 16 << 20
"""Bytes of a line in one."""
_PIECE: Final = 1 << 18
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class OpenFolder:
    """A folder whose files are read by their names in it: many for the opening of one."""

    def __init__(self, path: Path) -> None:
        self.path, self._descriptor = path, os.open(path, _FOLDER)

    def document(self, name: str) -> bytes:
        """As `read_document`."""
        with self._open(name, DOCUMENT) as stream:
            return _document(stream, self.path / name, DOCUMENT, MOST_VALUES)

    def digest(self, name: str) -> str:
        """As `digest`."""
        with self._open(name, HASHED) as stream:
            return _digest(stream)

    def _open(self, name: str, limit: int) -> BufferedReader:
        return _open_in(self._descriptor, name, self.path, limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def open_regular(file: Path, limit: int = LARGEST, root: Path | None = None) -> BufferedReader:
    """Open a file to read it. root: a folder above it, below which no folder is a link either."""
    folder = _folder_of(file, root)
    try:
        return _open_in(folder, file.name, file.parent, limit)
    finally:
        os.close(folder)


def _open_in(folder: int, name: str, above: Path, limit: int) -> BufferedReader:
    """above: what an error calls the folder."""
    try:
        opened = os.open(name, _FLAGS, dir_fd=folder)
    except OSError as error:
        raise _in_words(error, above / name) from None
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(above / name))
        if status.st_size > limit:
            raise _too_large(above / name, limit)
        return os.fdopen(opened, "rb")
    except BaseException:
        os.close(opened)
        raise


def read_regular(file: Path, limit: int = DOCUMENT, root: Path | None = None) -> bytes:
    """All of it; see `open_regular`."""
    with open_regular(file, limit, root) as stream:
        return _whole(stream, file, limit)


def read_document(
    file: Path, limit: int = DOCUMENT, root: Path | None = None, *, values: int = MOST_VALUES
) -> bytes:
    """One JSON record, of so many values at most; see `open_regular`."""
    with open_regular(file, limit, root) as stream:
        return _document(stream, file, limit, values)


def read_lines(file: Path, limit: int = LARGEST, root: Path | None = None) -> Iterator[bytes]:
    """JSON records line by line, each with its end; the last one may be without it."""
    with open_regular(file, limit, root) as stream:
        read = 0
        for number in count(1):
            if not (line := stream.readline(LONGEST_LINE + 1)):
                return
            read += len(line)
            if number > MOST_LINES:
                raise OSError(errno.EFBIG, f"it has more than {MOST_LINES:,} lines", str(file))
            if len(line) > LONGEST_LINE:
                reason = f"a line of it is longer than {format_bytes(LONGEST_LINE)}"
                raise OSError(errno.EFBIG, reason, str(file))
            if read > limit:
                raise _too_large(file, limit)
            _check_values(line, file, MOST_VALUES)
            yield line


def digest(file: Path, root: Path) -> str:
    """`sha256:…` of what it holds; see `open_regular`."""
    with open_regular(file, HASHED, root) as stream:
        return _digest(stream)


def _whole(stream: BufferedReader, file: Path, limit: int) -> bytes:
    size = min(os.fstat(stream.fileno()).st_size, limit)  # it may have grown since it was opened
    data = stream.read(size + 1)  # of `limit` bytes would be made room for at once
    if len(data) > size:  # it grew
        data += stream.read(limit + 1 - len(data))
    if len(data) > limit:
        raise _too_large(file, limit)
    return data


def _document(stream: BufferedReader, file: Path, limit: int, values: int) -> bytes:
    data = _whole(stream, file, limit)
    _check_values(data, file, values)
    return data


def _digest(stream: BufferedReader) -> str:
    """Not by `hashlib.file_digest`: to clear its buffer takes longer than a small file."""
    hashed = hashlib.sha256()
    while piece := stream.read(_PIECE):
        hashed.update(piece)
    return f"sha256:{hashed.hexdigest()}"


def _folder_of(file: Path, root: Path | None) -> int:
    """A descriptor of the folder that it lies in."""
    if root is None:
        return os.open(file.parent, _FOLDER)
    try:
        os.fsencode(file)
    except UnicodeEncodeError:
        raise OSError(errno.EINVAL, "its name is no file's", str(file)) from None
    if file.parent == root and file.name not in ("", "..") and "\0" not in file.name:
        return os.open(root, _FOLDER)  # as nearly always; what follows takes its time
    parts = file.parent.relative_to(root).parts if file.parent.is_relative_to(root) else ("..",)
    if ".." in parts or file.name in ("", "..") or "\0" in str(file):
        raise OSError(errno.EINVAL, "its name leads out of the folder", str(file))
    folder = os.open(root, _FOLDER)
    for part in parts:
        above = folder
        try:
            folder = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
        except OSError as error:
            raise _in_words(error, file) from None
        finally:
            os.close(above)
    return folder


def _in_words(error: OSError, file: Path) -> OSError:
    reasons = {
        errno.ELOOP: "it is a symbolic link",
        errno.ENXIO: "it is not a regular file",
        errno.ENOTDIR: "a folder above it is a symbolic link, or none",
    }
    return OSError(error.errno, reasons.get(error.errno or 0, error.strerror), str(file))


def _check_values(record: bytes, file: Path, most: int) -> None:
    if len(record) > most and sum(map(record.count, b"[{,")) > most:
        raise OSError(errno.EFBIG, f"a record in it has more than {most:,} values", str(file))


def _too_large(file: Path, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {format_bytes(limit)}", str(file))
