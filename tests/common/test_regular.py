"""Files that somebody else may have made."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from ullage.common.regular import (
    LARGEST,
    LONGEST_LINE,
    MOST_LINES,
    OpenFolder,
    digest,
    read_lines,
    read_regular,
)


def test_a_file_may_be_as_large_as_it_may(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 10)
    assert read_regular(file, 10) == b"x" * 10
    with pytest.raises(OSError, match="larger than 9B"):
        read_regular(file, 9)
    with pytest.raises(OSError, match="larger than 9B"):
        list(read_lines(file, 9))
    with file.open("wb") as stream:
        stream.truncate(LARGEST)
    with pytest.raises(OSError, match="a line of it is longer than 16MiB"):
        list(read_lines(file))
    file.write_bytes(b"\n" * (MOST_LINES + 1))
    with pytest.raises(OSError, match="it has more than 4,194,304 lines"):
        sum(map(len, read_lines(file)))
    with file.open("wb") as stream:
        stream.truncate(LONGEST_LINE)
    assert sum(map(len, read_lines(file))) == LONGEST_LINE


def test_a_file_that_grows_as_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it was read before it was refused."""
    file, kept, opening = tmp_path / "file", [], os.fdopen

    def grown(descriptor: int, mode: str) -> Any:
        os.truncate(file, 1 << 22)
        kept.append(os.dup(descriptor))
        return opening(descriptor, mode)

    file.write_bytes(b"x" * 10)
    monkeypatch.setattr(os, "fdopen", grown)
    with pytest.raises(OSError, match="larger than 10B"):
        read_regular(file, 10)
    assert os.lseek(kept[0], 0, os.SEEK_CUR) <= 1 << 20, "no more than a buffer"
    os.close(kept[0])


def test_no_folder_below_the_root_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "run" / "trials").mkdir(parents=True)
    (tmp_path / "run" / "trials" / "file").write_bytes(b"inside")
    (tmp_path / "run" / "link").symlink_to("trials")
    (tmp_path / "runs").symlink_to("run")
    root = tmp_path / "runs"
    assert read_regular(root / "trials" / "file", root=root) == b"inside"
    assert read_regular(root / "link" / "file") == b"inside"
    with pytest.raises(OSError, match="a folder above it is a symbolic link"):
        read_regular(root / "link" / "file", root=root)
    with pytest.raises(FileNotFoundError):
        read_regular(root / "trials" / "absent", root=root)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/passwd", "leads out of the folder"),
        ("", "leads out of the folder"),
        (".", "leads out of the folder"),
        ("../other", "leads out of the folder"),
        ("a\0b", "leads out of the folder"),
        ("a\ud800", "its name is no file's"),
        ("a\ud800/b", "its name is no file's"),
    ],
)
def test_a_name_that_no_file_below_the_root_has(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(OSError, match=reason):
        read_regular(tmp_path / name, root=tmp_path)


def test_a_file_of_the_kernels_is_read_though_it_has_no_size() -> None:
    file = Path("/proc/self/status")
    assert file.stat().st_size == 0
    assert read_regular(file).startswith(b"Name:")
    with pytest.raises(OSError, match="larger than 9B"):
        read_regular(file, 9)


def test_files_of_an_open_folder(tmp_path: Path) -> None:
    """It stays the same one when another gets its name, and has no links in it."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "file").write_bytes(b"{}")
    (folder / "link").symlink_to("file")
    with OpenFolder(folder) as opened:
        folder.rename(tmp_path / "moved")
        folder.mkdir()
        assert opened.document("file") == b"{}"
        assert opened.digest("file") == digest(tmp_path / "moved" / "file", tmp_path / "moved")
        with pytest.raises(OSError, match="it is a symbolic link"):
            opened.digest("link")
        with pytest.raises(FileNotFoundError):
            opened.document("absent")


def test_a_digest_of_several_pieces(tmp_path: Path) -> None:
    file, content = tmp_path / "file", bytes(range(251)) * 5_000
    file.write_bytes(content)
    assert digest(file, tmp_path) == f"sha256:{hashlib.sha256(content).hexdigest()}"
