"""Functions of ELF files: of one that was compiled here, and of whatever else is called one."""

from __future__ import annotations

import io
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.meters.perf import elf as room
from ullage.meters.perf.elf import as_written, functions

SOURCE = """
static int hidden(int n) { return n * n; }
int shown(int n) { int s = 0; for (int i = 0; i < n; i++) s += hidden(i) ^ n; return s; }
int alias_of(int n) __attribute__((alias("shown")));
int _shown(int n) __attribute__((alias("shown")));
int last(int n) { return shown(n) + 1; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a table of all symbols."""
    directory = tmp_path_factory.mktemp("elf")
    (directory / "source.c").write_text(SOURCE)
    binary = directory / "made.so"
    argv = ["gcc", "-O0", "-shared", "-fPIC", str(directory / "source.c"), "-o", str(binary)]
    subprocess.run(argv, check=True)
    return binary


@pytest.fixture(scope="module")
def stripped(library: Path) -> Path:
    """Only what it exports has names."""
    binary = library.with_name("stripped.so")
    subprocess.run(["strip", "-o", str(binary), str(library)], check=True)
    return binary


def symbols_of(file: Path) -> dict[str, tuple[int, int]]:
    """By another's word: name → offset in the file and size; .text lies in it as in memory."""
    listing = subprocess.run(
        ["nm", "--print-size", "--defined-only", str(file)],
        check=True,
        capture_output=True,
        text=True,
    )
    sections = subprocess.run(
        ["readelf", "-SW", str(file)], check=True, capture_output=True, text=True
    )
    (text,) = (
        line.split("]")[1].split() for line in sections.stdout.splitlines() if " .text" in line
    )
    shift = int(text[3], 16) - int(text[2], 16)
    rows = (line.split() for line in listing.stdout.splitlines())
    return {
        row[3]: (int(row[0], 16) + shift, int(row[1], 16))
        for row in rows
        if len(row) == 4 and row[2] in "tT"
    }


def test_each_byte_of_a_function_is_its_own(library: Path) -> None:
    with library.open("rb") as stream:
        parsed = functions(stream)
    assert parsed is not None
    symbols = symbols_of(library)
    for name in ("hidden", "last"):
        offset, size = symbols[name]
        assert {parsed.at(at) for at in range(offset, offset + size)} == {name}
        assert parsed.at(offset + size) != name
    offset, _ = symbols["shown"]
    assert parsed.at(offset) == "shown"  # no underscores, and the shortest of those
    assert parsed.at(library.stat().st_size + 1) == ""


def test_what_a_stripped_file_does_not_name_is_not_its_neighbour(
    library: Path, stripped: Path
) -> None:
    """Not the nearest name below: `hidden` stands between others, and nobody says so."""
    symbols = symbols_of(library)
    with stripped.open("rb") as stream:
        parsed = functions(stream)
    assert parsed is not None
    assert parsed.at(symbols["hidden"][0]) == ""
    assert parsed.at(symbols["last"][0]) == "last"


def test_a_function_inside_of_another(library: Path) -> None:
    """The one that begins last has its bytes; behind it they are the outer one's again."""
    data = bytearray(library.read_bytes())
    symbols = symbols_of(library)
    (start, size), (last, more) = symbols["shown"], symbols["last"]
    old = struct.pack("<QQ", start, size)
    assert data.count(old) >= 3  # the address of .text is its offset here
    outer = struct.pack("<QQ", start, last + more - start + 64)
    parsed = functions(io.BytesIO(bytes(data).replace(old, outer)))
    assert parsed is not None
    assert parsed.at(last) == "last"
    assert parsed.at(last + more) == "shown"


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        ("main", "main"),
        ("_ZN3THD4initEv", "THD::init"),
        ("_ZNK1A1fEi.part.0", "A::f"),
        ("_ZN1AclEi", "A::operator()"),
        ("_Z1fIiEvT_", "void f<int>"),
        ("_ZTV1A", "vtable for A"),
        ("_RNvC1a4main", "a::main"),
        ("_Znonsense", "_Znonsense"),
        ("_Z", "_Z"),
        ("", ""),
    ],
)
def test_names_as_they_are_written(mangled: str, plain: str) -> None:
    assert as_written(mangled) == plain


@given(st.text(max_size=60))
def test_every_name_is_some_name(text: str) -> None:
    for name in (text, f"_Z{text}", f"_R{text}"):
        assert isinstance(as_written(name), str)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\0" * 4096])
def test_what_is_no_elf_file_has_none(data: bytes) -> None:
    assert functions(io.BytesIO(data)) is None


def test_a_table_that_is_too_large_is_not_read(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOST_BYTES", "MOST_SECTIONS", "MOST_SEGMENTS"):
        with monkeypatch.context() as patch, library.open("rb") as stream:
            patch.setattr(room, name, 1)
            assert functions(stream) is None


HEADER = {"sections": (0x28, "<Q"), "segments": (0x36, "<H"), "count": (0x3C, "<H")}


@pytest.mark.parametrize("field", HEADER)
@pytest.mark.parametrize("value", [0, 1, 0x7FFF, 0xFFFF])
def test_a_header_that_lies(library: Path, field: str, value: int) -> None:
    """Nothing is raised; where it may still have functions, they are its own."""
    data = bytearray(library.read_bytes())
    offset, code = HEADER[field]
    struct.pack_into(code, data, offset, value)
    parsed = functions(io.BytesIO(bytes(data)))
    assert parsed is None or isinstance(parsed.at(symbols_of(library)["last"][0]), str)


@given(st.data())
def test_a_broken_file_breaks_nothing(library: Path, data: st.DataObject) -> None:
    """Cut off, or with bytes changed anywhere."""
    whole = bytearray(library.read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=30)):
        whole[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole))) :]
    parsed = functions(io.BytesIO(bytes(whole)))
    if parsed is not None:
        for offset in (0, 0x1000, 0x1100, 1 << 63):
            assert isinstance(parsed.at(offset), str)
