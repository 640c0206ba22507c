"""Headers of a tar, read as strictly as a stranger's must be.

tarfile reads extended headers by regular expressions that a megabyte of digits holds for an hour,
keeps each global one with every member that follows, and takes numbers that lead it backwards.
https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html
"""

from __future__ import annotations

import math
import re
import tarfile
from typing import Final

_XATTR: Final = "SCHILY.xattr."
_LONGEST_EXTENSION: Final = 1 << 20
_MOST_RECORDS: Final = 128
_LONGEST_LENGTH: Final = len(str(_LONGEST_EXTENSION))
_MOST_ID: Final = (1 << 32) - 2
_MOST_SIZE: Final = 1 << 62
_LAST_S: Final = 1 << 33
"""A time after that, which ext4 ends soon after, is none: the year 2242."""
_SPARSE: Final = b"GNU.sparse."
_EXTENSIONS: Final = frozenset(
    {
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    }
)


class ArchiveError(Exception):
    """An archive that cannot be taken; the text says why."""


class Header(tarfile.TarInfo):
    """One of an entry, with what extended headers before it say. Global ones say nothing to us."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Header:
        entry = super().frombuf(buf, encoding, errors)
        if entry.type == tarfile.GNUTYPE_SPARSE:
            raise ArchiveError(f"{entry.name!r} is a sparse file")
        if entry.type in _EXTENSIONS and entry.size > _LONGEST_EXTENSION:
            raise ArchiveError(f"a header says that {entry.name!r} has {entry.size} bytes")
        entry.check()
        return entry

    def check(self) -> None:
        """ArchiveError for numbers that no file can have."""
        if not 0 <= self.size <= _MOST_SIZE:
            raise ArchiveError(f"a header says that {self.name[:80]!r} has {self.size} bytes")
        if not (0 <= self.uid <= _MOST_ID and 0 <= self.gid <= _MOST_ID):
            raise ArchiveError(
                f"{self.name[:80]!r} belongs to {self.uid}:{self.gid}, who is nobody"
            )
        self.mtime = self.mtime if 0 <= self.mtime < _LAST_S else 0

    def _proc_pax(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        """Of an extended header: the entry that follows it, as it says. tarfile calls this."""
        assert tar.fileobj is not None
        records = _records(tar.fileobj.read(_in_blocks(self.size))[: self.size])
        try:
            entry = self.fromtarfile(tar)
        except tarfile.HeaderError as error:
            raise ArchiveError(f"nothing follows a header's extension: {error}") from None
        if self.type == tarfile.XGLTYPE:
            return entry
        entry.offset = self.offset
        entry.take(records)
        if "size" in records and entry.isreg():
            tar.offset = entry.offset_data + _in_blocks(entry.size)
        return entry

    def take(self, records: dict[str, str]) -> None:
        """What an extended header says in place of this one. ArchiveError."""
        self.name = records.get("path", self.name).rstrip("/")
        self.linkname = records.get("linkpath", self.linkname)
        self.size = _whole(records.get("size"), self.size)
        self.uid = _whole(records.get("uid"), self.uid)
        self.gid = _whole(records.get("gid"), self.gid)
        self.mtime = _instant(records.get("mtime"), self.mtime)
        self.pax_headers = {key: value for key, value in records.items() if key.startswith(_XATTR)}
        self.check()


def _records(data: bytes) -> dict[str, str]:
    """Lines of `LENGTH KEY=VALUE`, whose length counts all of it."""
    records: dict[str, str] = {}
    at, number = 0, 0
    while at < len(data):
        space = data.find(b" ", at, at + _LONGEST_LENGTH + 1)
        length = data[at:space] if space > at else b""
        end = at + int(length) if re.fullmatch(rb"[0-9]+", length) else at
        key, equals, value = data[space + 1 : end].partition(b"=")
        number += 1
        if not (key and equals and value.endswith(b"\n")) or end > len(data):
            raise ArchiveError("a header's extension is damaged")
        if number > _MOST_RECORDS or key.startswith(_SPARSE) or not key.isascii():
            raise ArchiveError("a header's extension says what no image needs")
        records[key.decode("ascii")] = value[:-1].decode("utf-8", "surrogateescape")
        at = end
    return records


def _in_blocks(size: int) -> int:
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _whole(text: str | None, otherwise: int) -> int:
    if text is None:
        return otherwise
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise ArchiveError(f"a header's extension says {text[:40]!r} where a number stands")
    return int(text)


def _instant(text: str | None, otherwise: float) -> int:
    try:
        instant = otherwise if text is None else float(text)
    except ValueError:
        return 0
    return int(instant) if math.isfinite(instant) else 0
