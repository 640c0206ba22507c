"""Layers merged to one tar: what lies on what, and what may not be taken."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tests.host.container_image.imagekit import Entry, directory, hard_link, layer, link
from ullage.common.archives.headers import ArchiveError
from ullage.host.container_image.layers import Tree


def merged(tmp_path: Path, *layers: bytes) -> dict[str, tarfile.TarInfo]:
    tree = Tree()
    for data in layers:
        tree.add(io.BytesIO(data))
    tree.write(tmp_path / "all.tar")
    with tarfile.open(tmp_path / "all.tar") as tar:
        return {member.name.removeprefix("./"): member for member in tar}


def content(tmp_path: Path, name: str) -> bytes:
    with tarfile.open(tmp_path / "all.tar") as tar:
        file = tar.extractfile(f"./{name}")
        assert file is not None
        return file.read()


def test_what_is_above_counts(tmp_path: Path) -> None:
    below = layer(directory("etc"), Entry("etc/a", b"old"), Entry("etc/b", b"b"))
    above = layer(Entry("etc/a", b"new", mode=0o4711, owner=33))
    members = merged(tmp_path, below, above)
    assert sorted(members) == [".", "etc", "etc/a", "etc/b"]
    assert content(tmp_path, "etc/a") == b"new"
    assert members["etc/a"].mode == 0o4711
    assert members["etc/a"].uid == 33


def test_whiteouts_are_about_the_layers_below(tmp_path: Path) -> None:
    below = layer(Entry("a/x"), Entry("a/y"), Entry("b/x"), Entry("c"))
    above = layer(Entry("b/new"), Entry("b/.wh..wh..opq"), Entry("a/.wh.x"), Entry(".wh.c"))
    assert sorted(merged(tmp_path, below, above)) == [".", "a", "a/y", "b", "b/new"]


@pytest.mark.parametrize("mark", [".wh..wh..opq", ".wh.file"])
def test_a_mark_in_a_directory_that_replaces_a_link_leaves_where_that_led(
    tmp_path: Path, mark: str
) -> None:
    """`rm current && mkdir current`, as overlayfs writes it."""
    below = layer(directory("app/v1"), Entry("app/v1/file"), link("app/current", "v1"))
    above = layer(directory("app/current"), Entry(f"app/current/{mark}"), Entry("app/current/new"))
    members = merged(tmp_path, below, above)
    assert {"app/v1/file", "app/current/new"} <= set(members)
    assert members["app/current"].isdir()


def test_a_mark_below_a_link_that_stays_follows_it(tmp_path: Path) -> None:
    below = layer(directory("usr/lib"), Entry("usr/lib/x"), link("lib", "usr/lib"))
    assert "usr/lib/x" not in merged(tmp_path, below, layer(Entry("lib/.wh.x")))


def test_a_hard_link_keeps_its_bytes_when_the_other_name_goes(tmp_path: Path) -> None:
    below = layer(Entry("a", b"bytes"), hard_link("b", "a"))
    members = merged(tmp_path, below, layer(Entry(".wh.a")))
    assert content(tmp_path, "b") == b"bytes"
    assert members["b"].isreg()
    assert merged(tmp_path, below)["b"].islnk()


def test_a_file_takes_the_place_of_a_directory(tmp_path: Path) -> None:
    below = layer(directory("a"), Entry("a/x"), Entry("b"))
    above = layer(Entry("a", b"file"), directory("b"), Entry("b/x"))
    assert sorted(merged(tmp_path, below, above)) == [".", "a", "b", "b/x"]


def test_links_are_followed_within_the_root(tmp_path: Path) -> None:
    below = layer(directory("usr/bin"), link("bin", "/usr/bin"), link("up", "../../../usr"))
    members = merged(tmp_path, below, layer(Entry("bin/x"), Entry("up/y")))
    assert {"usr/bin/x", "usr/y"} <= set(members)


def test_extended_attributes_stay_and_devices_go(tmp_path: Path) -> None:
    capable = Entry("a", b"1", xattrs={"security.capability": "\x01\x00\x00\x02"})
    members = merged(tmp_path, layer(capable, Entry("dev/sda", kind=tarfile.BLKTYPE)))
    assert members["a"].pax_headers["SCHILY.xattr.security.capability"] == "\x01\x00\x00\x02"
    assert "dev/sda" not in members


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([Entry("../etc/passwd", b"x")], "leads out of the root"),
        ([hard_link("a", "../../etc/shadow")], "leads out of the root"),
        ([hard_link("a", "b")], "which is no file"),
        ([Entry("a"), Entry("a/b")], "below what is no directory"),
        ([link("a", "b"), link("b", "a"), Entry("a/x")], "without end"),
    ],
)
def test_what_may_not_be_taken(entries: list[Entry], reason: str) -> None:
    with pytest.raises(ArchiveError, match=reason):
        Tree().add(io.BytesIO(layer(*entries)))


def test_a_damaged_later_header_is_no_end() -> None:
    data = bytearray(layer(Entry("a", b"1" * 512), Entry("b", b"2"), Entry("c")))
    data[1024 + 148] ^= 0xFF  # the checksum of the second
    with pytest.raises(ArchiveError, match="in its midst"):
        Tree().add(io.BytesIO(bytes(data)))


def test_a_negative_size_is_refused() -> None:
    info = tarfile.TarInfo("a")
    info.size = -512
    # Debian's Python has the mend of CVE-2025-8194, and refuses it first.
    with pytest.raises(ArchiveError, match=r"has -512 bytes|invalid offset"):
        Tree().add(io.BytesIO(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048)))


def test_a_cut_layer_is_refused() -> None:
    whole = layer(Entry("a", b"1" * 4096))
    with pytest.raises(ArchiveError, match="no tar"):
        Tree().add(io.BytesIO(whole[:2048]))


def test_where_something_is_to_be_mounted() -> None:
    tree = Tree()
    tree.add(io.BytesIO(layer(link("data", "/etc"))))
    tree.mount_point("tmp")
    with pytest.raises(ArchiveError, match="its /data is no directory"):
        tree.mount_point("data")
    tree.add(io.BytesIO(layer(directory("ullage/agent"))))
    with pytest.raises(ArchiveError, match="its /ullage/agent is no file"):
        tree.empty_file("ullage", "agent")
