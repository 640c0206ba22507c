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
from typing import Final

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
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_regular(file: Path, limit: int = LARGEST, root: Path | None = None) -> BufferedReader:
    """Open a file to read it. root: a folder above it, below which no folder is a link either."""
    folder = _folder_of(file, root)
    try:
        opened = os.open(file.name, _FLAGS, dir_fd=folder)
    except OSError as error:
        raise _in_words(error, file) from None
    finally:
        os.close(folder)
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))
        if status.st_size > limit:
            raise _too_large(file, limit)
        return os.fdopen(opened, "rb")
    except BaseException:
        os.close(opened)
        raise


def read_regular(file: Path, limit: int = DOCUMENT, root: Path | None = None) -> bytes:
    """All of it; see `open_regular`."""
    with open_regular(file, limit, root) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:  # it grew
        raise _too_large(file, limit)
    return data


def read_document(
    file: Path, limit: int = DOCUMENT, root: Path | None = None, *, values: int = MOST_VALUES
) -> bytes:
    """One JSON record, of so many values at most; see `open_regular`."""
    data = read_regular(file, limit, root)
    _check_values(data, file, values)
    return data


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
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def _folder_of(file: Path, root: Path | None) -> int:
    """A descriptor of the folder that it lies in."""
    if root is None:
        return os.open(file.parent, _FOLDER)
    try:
        os.fsencode(file)
    except UnicodeEncodeError:
        raise OSError(errno.EINVAL, "its name is no file's", str(file)) from None
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
