"""Checksums inside JSON: the last member of a record, `sum`, tells whether it is as it was written.

A line of an append-only file has 16 hexadecimal digits of the SHA-256 of the `sum` of the line
before it (nothing, for the first) and of all its own bytes before `,"sum"`: so a changed line is
seen, and one that is missing, doubled or moved. A document has the same without a line before. It
is against disks and copies that go wrong; who wants to deceive computes it anew.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_LINE: Final = re.compile(rb',"sum":"([0-9a-f]{16})"\}')
_DOCUMENT: Final = re.compile(rb',(?:"sum":"([0-9a-f]{16})"\}|\n "sum": "([0-9a-f]{16})"\n\})\Z')


class BrokenSumError(ValueError):
    """What is read is not what was written."""


class Chain:
    """The lines of one file, in order: each is written or read with the one before it in mind."""

    def __init__(self, before: str = "") -> None:
        """before: the `sum` of the last line that is there, when a writer goes on."""
        self.before = before

    def sealed(self, record: bytes) -> bytes:
        """A record, `{…}`, as a line without its end."""
        content = record[:-1]
        self.before = _sum(self.before, content)
        return b'%b,"sum":"%b"}' % (content, self.before.encode())

    def opened(self, line: bytes) -> bytes:
        """The record in a line; BrokenSumError. A line of a file without sums is one itself."""
        if (written := sum_of(line)) is None:
            if self.before:
                raise BrokenSumError("it has no checksum, unlike the lines before it")
            return line
        content = line[:_LINE_TAIL]
        if _sum(self.before, content) != written:
            raise BrokenSumError("its checksum does not hold: it, or a line before it, was changed")
        self.before = written
        return content + b"}"

    def is_damaged_end(self, tail: bytes) -> bool:
        """Is a last line without its newline more than what a killed writer leaves?

        That is a beginning of a line, never a whole one and then something else. A record within
        may have a `sum` too, from a guest even: a line's own is told by what it is the sum of.
        """
        return any(
            match.end() < len(tail)
            and _sum(self.before, tail[: match.start()]) == match[1].decode()
            for match in _LINE.finditer(tail)
        )


_LINE_TAIL: Final = -len(b',"sum":"0123456789abcdef"}')


def sum_of(line: bytes) -> str | None:
    """The `sum` that a line ends with; None: it has none."""
    match = _LINE.fullmatch(line[_LINE_TAIL:])
    return match[1].decode() if match else None


def sealed(document: bytes) -> bytes:
    """A whole JSON object, compact or with an indent of 1, with its `sum`."""
    compact, indented = document.removesuffix(b"}"), document.removesuffix(b"\n}")
    if indented is not document:
        return b'%b,\n "sum": "%b"\n}' % (indented, _sum("", indented).encode())
    return b'%b,"sum":"%b"}' % (compact, _sum("", compact).encode())


def has_sum(document: bytes) -> bool:
    """Was it sealed?"""
    return _DOCUMENT.search(document[-_TAIL:]) is not None


def opened(document: bytes) -> bytes:
    """The same without its `sum`; one that never had any is returned as it is. BrokenSumError."""
    match = _DOCUMENT.search(document, max(0, len(document) - _TAIL))
    if match is None:
        return document
    content = document[: match.start()]
    if _sum("", content) != (match[1] or match[2]).decode():
        raise BrokenSumError("its checksum does not hold: it was changed")
    return content + (b"}" if match[1] else b"\n}")


_TAIL: Final = 40
"""Bytes at the end of a document among which its `sum` stands."""


def _sum(before: str, content: bytes) -> str:
    digest = hashlib.sha256(before.encode())
    digest.update(content)
    return digest.hexdigest()[:16]
