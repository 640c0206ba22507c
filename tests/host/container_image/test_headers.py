"""Headers of a layer that a stranger wrote to hang, exhaust or mislead who reads them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tests.host.container_image.imagekit import Entry, layer, link
from ullage.common.archives.headers import ArchiveError
from ullage.host.container_image import layers
from ullage.host.container_image.layers import Tree

END = bytes(1024)


def header(name: str = "f", kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.USTAR_FORMAT)


def extended(data: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return header("x", kind, len(data)) + data + bytes(-len(data) % 512)


def record(key: str, value: str) -> bytes:
    body = f" {key}={value}\n".encode()
    return next(
        str(length).encode() + body
        for length in range(len(body), len(body) + 9)
        if length == len(body) + len(str(length))
    )


def members(tmp_path: Path, data: bytes) -> list[tarfile.TarInfo]:
    tree = Tree()
    tree.add(io.BytesIO(data))
    tree.write(tmp_path / "all.tar")
    with tarfile.open(tmp_path / "all.tar") as tar:
        return tar.getmembers()[1:]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"1" * 1_000_000, id="digits"),
        pytest.param(b"2 " * 500_000 + b"=x", id="records in records"),
        pytest.param(b"0 a=b\n", id="no length"),
        pytest.param(b"99 a=b\n", id="too long"),
        pytest.param(b"7 a=bcde", id="no end"),
        pytest.param(b"5 ab\n", id="no value"),
        pytest.param(b"5 =b\n", id="no key"),
    ],
)
def test_an_extension_is_read_in_one_pass_or_refused(data: bytes) -> None:
    with pytest.raises(ArchiveError, match="extension is damaged"):
        Tree().add(io.BytesIO(extended(data) + header() + END))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("size", "-1536"),
        ("size", "9" * 30),
        ("size", "9" * 19),
        ("uid", "-7"),
        ("gid", "4294967295"),
        ("uid", "nobody"),
    ],
)
def test_numbers_that_no_file_has_are_refused(key: str, value: str) -> None:
    """A size below zero leads a reader back, to read the same for ever."""
    data = header("a") + extended(record(key, value)) + header() + END
    with pytest.raises(ArchiveError, match=r"number stands|bytes|nobody"):
        Tree().add(io.BytesIO(data))


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e300", "-5", "soon"])
def test_a_time_that_is_none_is_the_first_of_all(text: str, tmp_path: Path) -> None:
    (entry,) = members(tmp_path, extended(record("mtime", text)) + header() + END)
    assert entry.mtime == 0


def test_what_an_extension_says_counts(tmp_path: Path) -> None:
    says = [("path", "dir/é"), ("size", "3"), ("uid", "7"), ("gid", "8"), ("mtime", "9.5")]
    says += [("SCHILY.xattr.user.a", "x\ny"), ("comment", "none of ours")]
    data = extended(b"".join(record(*one) for one in says)) + header(size=512)
    folder, entry = members(tmp_path, data + b"abc" + bytes(509) + header("next") + END)[:2]
    assert (folder.name, entry.name) == ("./dir", "./dir/é")
    assert (entry.size, entry.uid, entry.gid, entry.mtime) == (3, 7, 8, 9)
    assert entry.pax_headers["SCHILY.xattr.user.a"] == "x\ny"


def test_a_global_extension_is_kept_with_no_entry(tmp_path: Path) -> None:
    """tarfile would keep all of it with each entry that follows."""
    says = b"".join(record(f"SCHILY.xattr.user.a{number}", "x") for number in range(100))
    data = extended(says + record("path", "elsewhere"), tarfile.XGLTYPE)
    (entry,) = members(tmp_path, data + header() + END)
    assert (entry.name, entry.pax_headers) == ("./f", {})


@pytest.mark.parametrize(
    "data",
    [
        b"".join(record(f"SCHILY.xattr.user.a{number}", "x") for number in range(1000)),
        record("GNU.sparse.map", "1,2,3,4"),
        b"21 SCHILY.xattr.\x81\xff=x\n",
    ],
)
def test_what_no_image_needs_is_refused(data: bytes) -> None:
    with pytest.raises(ArchiveError, match="what no image needs"):
        Tree().add(io.BytesIO(extended(data) + header() + END))


def test_nothing_after_an_extension_is_no_end() -> None:
    with pytest.raises(ArchiveError, match="nothing follows"):
        Tree().add(io.BytesIO(header("a") + extended(record("path", "b")) + END))


def test_extensions_of_extensions() -> None:
    data = extended(record("comment", "x")) * 5000
    with pytest.raises(ArchiveError, match="no tar"):
        Tree().add(io.BytesIO(data + header() + END))


def test_a_path_that_no_kernel_takes() -> None:
    """Each of its half a million directories would be written with all of its path."""
    long = b"a/" * 500_000 + b"b\0"
    name = header("x", tarfile.GNUTYPE_LONGNAME, len(long)) + long + bytes(-len(long) % 512)
    with pytest.raises(ArchiveError, match="longer than any may be"):
        Tree().add(io.BytesIO(name + header() + END))


def test_a_path_that_links_make_long(tmp_path: Path) -> None:
    half = "/".join(["a" * 250] * 10)
    entries = [Entry(f"{half}/x"), link("l", half), Entry(f"l/{half}/y")]
    tree = Tree()
    tree.add(io.BytesIO(layer(*entries)))
    with pytest.raises(ArchiveError, match="longer than any may be"):
        tree.write(tmp_path / "all.tar")


def test_folders_that_nobody_wrote_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_ENTRIES", 1000)
    entries = [Entry("/".join([f"{number}", *"abcdefgh"])) for number in range(150)]
    with pytest.raises(ArchiveError, match="over 1,000 files"):
        Tree().add(io.BytesIO(layer(*entries)))


def test_links_that_lead_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty links to go through for each entry, each a long way."""
    monkeypatch.setattr(layers, "_MOST_STEPS", 20_000)
    about = "d/../" * 10
    links = [link(f"l{number}", f"{about}l{number + 1}") for number in range(30)]
    entries = [Entry("d/x"), *links, link("l30", "d"), *(Entry(f"l0/{n}") for n in range(100))]
    with pytest.raises(ArchiveError, match="without end"):
        Tree().add(io.BytesIO(layer(*entries)))


def test_names_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_MOST_WORDS", 1000)
    entries = [Entry(f"{number}", xattrs={"user.a": "x" * 100}) for number in range(10)]
    with pytest.raises(ArchiveError, match="characters of names"):
        Tree().add(io.BytesIO(layer(*entries)))
