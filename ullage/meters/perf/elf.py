"""The functions of an ELF file, by where in it their code stands.

Of what a file says only its tables of symbols are read, as far as they are no larger than those of
any real program; a file that is none, or contradicts itself, has no functions.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
import pycxxfilt
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

MOST_SECTIONS: Final = 4_096
MOST_SEGMENTS: Final = 256
MOST_BYTES: Final = 32 << 20
"""Of a table of symbols, and of their names."""
_LONGEST_NAME: Final = 1_024
_BACK: Final = 16
"""Functions that begin before an address, of which one may hold it: few stand in one another."""
_SYMBOL: Final = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("address", "<u8"),
        ("size", "<u8"),
    ]
)
"""`Elf64_Sym`."""
_FUNCTIONS: Final = (2, 10)
"""Kinds of symbols: a function, and one that is chosen when the program is loaded."""


@dataclass(frozen=True)
class _Load:
    """A part of the file that goes into memory."""

    offset: int
    size: int
    address: int


@dataclass(frozen=True)
class Functions:
    """Those that have a name and a size, in the order of their addresses."""

    _loads: tuple[_Load, ...]
    _starts: list[int]
    _ends: list[int]
    _names: list[int]
    """Where in `_strings` each name begins."""
    _strings: bytes

    def at(self, offset: int) -> str:
        """The function whose code has this byte of the file; empty: none says that it has."""
        for load in self._loads:
            if load.offset <= offset < load.offset + load.size:
                return self._at_address(offset - load.offset + load.address)
        return ""

    def _at_address(self, address: int) -> str:
        above = bisect_right(self._starts, address)
        near = range(above - 1, max(above - 1 - _BACK, -1), -1)
        holding = [n for n in near if address < self._ends[n]]
        if not holding:
            return ""
        start = self._starts[holding[0]]
        names = [self._name(n) for n in holding if self._starts[n] == start]
        # One function has several names; the plainest is the one that people know.
        plainest = min(names, key=lambda name: (len(name) - len(name.lstrip("_")), len(name), name))
        return as_written(plainest)

    def _name(self, number: int) -> str:
        begin = self._names[number]
        end = self._strings.find(b"\0", begin, begin + _LONGEST_NAME)
        return self._strings[begin:end].decode("ascii", "replace") if end > begin else ""


def as_written(name: str) -> str:
    """`THD::init`, of `_ZN3THD4initEv`: names of C++ and Rust as in the source, no arguments."""
    if not name.startswith(("_Z", "_R")):
        return name
    try:
        demangled = pycxxfilt.demangle(
            name.partition(".")[0]
        )  # behind it: what a compiler appended
    except ValueError:
        demangled = None
    return _without_arguments(demangled) if demangled else name


def _without_arguments(signature: str) -> str:
    """`f(int) const` without what stands in its last brackets, and all behind them."""
    depth = 0
    for at in range(signature.rfind(")"), 0, -1):
        depth += (signature[at] == ")") - (signature[at] == "(")
        if depth == 0:
            return signature[:at]
    return signature


def functions(stream: BinaryIO) -> Functions | None:
    """Of a file; None where it is no ELF file of 64 bits, or has no functions with names."""
    try:
        return _read(stream)
    except Exception:  # what a library raises for a file that is none is no closed set
        return None


def _read(stream: BinaryIO) -> Functions | None:
    elf = ELFFile(stream)
    if elf.elfclass != 64 or not elf.little_endian:
        return None
    if elf.num_sections() > MOST_SECTIONS or elf.num_segments() > MOST_SEGMENTS:
        return None
    loads = tuple(
        _Load(segment["p_offset"], segment["p_filesz"], segment["p_vaddr"])
        for segment in elf.iter_segments(type="PT_LOAD")
    )
    tables = sorted(_tables(elf), key=lambda table: table["sh_type"] != "SHT_SYMTAB")
    for table in tables:  # the one of all symbols has those that are exported too
        strings = _bytes(stream, table.stringtable)
        if (parsed := _parsed(loads, _bytes(stream, table), strings)) is not None:
            return parsed
    return None


def _tables(elf: ELFFile) -> Iterator[SymbolTableSection]:
    """Of symbols. Others are not made: what stands in some would be parsed as they are."""
    for number in range(elf.num_sections()):
        with contextlib.suppress(ELFError):
            section = elf.get_section(number, ("SHT_SYMTAB", "SHT_DYNSYM"))
            if isinstance(section, SymbolTableSection):
                yield section


def _bytes(stream: BinaryIO, section: Section) -> bytes:
    """Of a section, as it stands in the file."""
    size, offset = section["sh_size"], section["sh_offset"]
    if size > MOST_BYTES:
        raise ValueError("too large")
    stream.seek(offset)
    return stream.read(size)


def _parsed(loads: tuple[_Load, ...], table: bytes, strings: bytes) -> Functions | None:
    symbols = np.frombuffer(table, _SYMBOL, len(table) // _SYMBOL.itemsize)
    ends = symbols["address"] + symbols["size"]  # a sum that is too large wraps around
    whole = (
        np.isin(symbols["info"] & 15, _FUNCTIONS)
        & (symbols["section"] != 0)
        & (symbols["name"] < len(strings))
        & (ends > symbols["address"])
    )
    if not whole.any():
        return None
    symbols, ends = symbols[whole], ends[whole]
    order = np.argsort(symbols["address"], kind="stable")
    return Functions(
        loads,
        symbols["address"][order].tolist(),
        ends[order].tolist(),
        symbols["name"][order].tolist(),
        strings,
    )
