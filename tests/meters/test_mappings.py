"""Whose file a mapping is: only the image's own has functions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ullage.meters.perf import mappings as room
from ullage.meters.perf.mappings import Mapped, OwnFiles

INSIDE = "/usr/bin/tool"
START = 0x7F0000000000


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one program, `/usr/bin/tool`, and a link that leads out of it."""
    root = tmp_path_factory.mktemp("image") / "root"
    place = root / INSIDE.lstrip("/")
    place.parent.mkdir(parents=True)
    source = root.parent / "source.c"
    source.write_text("int work(int n) { return n + 1; }\nint main(void) { return work(1); }\n")
    subprocess.run(["gcc", "-O0", str(source), "-o", str(place)], check=True)
    (root / "outside").symlink_to(root.parent)
    (root.parent / "stranger").write_bytes(place.read_bytes())
    return root


def identity(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_dev, status.st_ino


def offset_of(file: Path, name: str) -> int:
    """Where in the file a function begins: these small ones lie in memory as in the file."""
    argv = ["nm", "--defined-only", str(file)]
    symbols = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    (address,) = (row.split()[0] for row in symbols.splitlines() if row.split()[-1] == name)
    return int(address, 16)


@pytest.mark.parametrize("seen_as", ["inside", "from the host"])
def test_the_images_own_file_has_functions(image: Path, seen_as: str) -> None:
    """Whoever was there before the samples began is told by its place on the host."""
    file = image / INSIDE.lstrip("/")
    path = INSIDE if seen_as == "inside" else str(file)
    at = offset_of(file, "work")
    mapped = Mapped(OwnFiles(image))
    mapped.mapped(7, (START, 0x1000), at & ~0xFFF, identity(file), path)
    assert mapped.function(7, START + (at & 0xFFF), path) == "work"
    assert mapped.function(7, START + 0x1000, path) == ""
    assert mapped.function(7, START + (at & 0xFFF), "/usr/bin/other") == ""
    assert mapped.function(8, START + (at & 0xFFF), path) == ""


@pytest.mark.parametrize(
    "path",
    [
        "/outside/stranger",
        "/../stranger",
        "/usr/../../stranger",
        "/usr/bin/none",
        "/usr/bin",
        "//usr/bin/tool",
        "usr/bin/tool",
        "",
        "/usr/bin/tool\0x",
        "/usr/bin/tool (deleted)",
        "/" + "x" * 5000,
    ],
)
def test_another_path_is_none(image: Path, path: str) -> None:
    for file in (image / INSIDE.lstrip("/"), image.parent / "stranger", image / "usr/bin"):
        assert OwnFiles(image).find(*identity(file), path) is None


def test_a_neighbour_whose_name_begins_like_the_root_s_is_none(image: Path) -> None:
    """As `rootfs.tar` lies beside `root`."""
    neighbour = image.parent / f"{image.name}fs"
    neighbour.write_bytes((image / INSIDE.lstrip("/")).read_bytes())
    assert OwnFiles(image).find(*identity(neighbour), str(neighbour)) is None
    assert OwnFiles(image).find(*identity(neighbour), "fs") is None


def test_another_file_under_the_same_path_is_none(image: Path) -> None:
    """As where an instance has put its own over it; and a host without an image has none."""
    device, inode = identity(image / INSIDE.lstrip("/"))
    files = OwnFiles(image)
    assert files.find(device, inode, INSIDE) is not None
    assert files.find(device, inode + 1, INSIDE) is None
    assert files.find(device + 1, inode, INSIDE) is None
    assert OwnFiles(None).find(device, inode, INSIDE) is None


def test_a_file_that_was_changed_meanwhile_is_not_read(tmp_path: Path, image: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "tool").write_bytes((image / INSIDE.lstrip("/")).read_bytes())
    at = offset_of(root / "tool", "work")
    for then in ("another", "a link", "gone"):
        file = OwnFiles(root).find(*identity(root / "tool"), "/tool")
        assert file is not None
        moved = (root / "tool").rename(root / "kept")
        if then == "another":
            (root / "tool").write_bytes(moved.read_bytes())
        elif then == "a link":
            (root / "tool").symlink_to(moved)
        assert file.function(at) == ""
        moved.rename(root / "tool")
    again = OwnFiles(root).find(*identity(root / "tool"), "/tool")
    assert again is not None
    assert again.function(at) == "work"


def test_processes_inherit_and_replace(image: Path) -> None:
    file = image / INSIDE.lstrip("/")
    at = offset_of(file, "work")
    mapped = Mapped(OwnFiles(image))
    mapped.mapped(7, (START, 0x1000), at & ~0xFFF, identity(file), INSIDE)
    mapped.forked(8, 7)
    mapped.replaced(7)
    address = START + (at & 0xFFF)
    assert mapped.function(8, address, INSIDE) == "work"
    assert mapped.function(7, address, INSIDE) == ""
    mapped.forked(8, 9)  # its number was given anew
    assert mapped.function(8, address, INSIDE) == ""


def test_the_latest_mapping_of_an_address_counts_and_there_are_not_ever_more(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = image / INSIDE.lstrip("/")
    at = offset_of(file, "work")
    monkeypatch.setattr(room, "_MOST_MAPPED", 3)
    mapped = Mapped(OwnFiles(image))
    for offset in (0, 0, 0, 0, at):
        mapped.mapped(7, (START, 0x1000), offset, identity(file), INSIDE)
    assert mapped.function(7, START, INSIDE) == "work"
    assert len(mapped._of[7]) == 3


def test_files_are_not_looked_for_without_end(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_FILES", 2)
    files = OwnFiles(image)
    mine = identity(image / INSIDE.lstrip("/"))
    for name in ("/a", "/b"):
        assert files.find(*mine, name) is None
    assert files.find(*mine, INSIDE) is None


def test_a_file_is_read_once(image: Path) -> None:
    file = image / INSIDE.lstrip("/")
    files = OwnFiles(image)
    own = files.find(*identity(file), INSIDE)
    assert own is not None
    assert own is files.find(*identity(file), INSIDE)
    assert own.function(offset_of(file, "work")) == "work"
    os.utime(file)
    assert own.function(offset_of(file, "main")) == "main"
