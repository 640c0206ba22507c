"""Files of whole lines."""

import errno
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common.files import append, cut_torn_end, give, is_held


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lines"


@pytest.fixture
def fd(file: Path) -> Iterator[int]:
    opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    yield opened
    os.close(opened)


@given(st.integers(0, 3), st.binary(max_size=20).map(lambda tail: tail.replace(b"\n", b"")))
def test_a_torn_end_is_cut_and_told(
    tmp_path_factory: pytest.TempPathFactory, whole: int, tail: bytes
) -> None:
    file = tmp_path_factory.mktemp("lines") / "lines"
    # Longer than what is read at once, so that the end of a line may be on the edge of it.
    lines = b"".join(b"x" * (1 << 16) + b"\n" for _ in range(whole))
    file.write_bytes(lines + tail * 5000)
    opened = os.open(file, os.O_RDWR | os.O_APPEND)
    try:
        assert cut_torn_end(opened) == bool(tail)
        assert not cut_torn_end(opened)
    finally:
        os.close(opened)
    assert file.read_bytes() == lines


def test_a_write_cut_short_is_taken_back(
    fd: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(fd, file, b"one\n")
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:2]))
    with pytest.raises(OSError, match="No space left") as caught:
        append(fd, file, b"two\nthree\n")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(file))
    monkeypatch.undo()
    append(fd, file, b"four\n")
    assert file.read_bytes() == b"one\nfour\n"


def test_what_did_not_reach_the_disk_is_taken_back(
    fd: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", broken)
    append(fd, file, b"one\n")
    with pytest.raises(OSError, match="broken"):
        append(fd, file, b"two\n", wait=True)
    assert file.read_bytes() == b"one\n"


def test_who_cannot_append_is_told_where(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with file.open("ab") as stream:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
            with pytest.raises(OSError, match="File too large") as caught:
                append(stream.fileno(), file, b"line\n", wait=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(file)


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    device = tmp_path / "null"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    give(b"figures", device)
    assert stat.S_ISCHR(device.stat().st_mode)


def test_what_is_no_file_is_no_lock_that_is_held(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.lock")
    assert not is_held(tmp_path / "x.lock")
