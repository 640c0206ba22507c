"""A tar that comes through a pipe: what is kept of it, and each way that it can fail."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ullage.common.archives.inflow import CutError, Inflow
from ullage.common.commands import CommandError


def archive(content: bytes) -> bytes:
    """A tar of one file."""
    archived = io.BytesIO()
    with tarfile.open(fileobj=archived, mode="w") as tar:
        member = tarfile.TarInfo("file")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return archived.getvalue()


def kept(place: Path, data: bytes, size: int, unpack: list[str] | None = None) -> str:
    """What becomes of these bytes, when so many were promised."""
    reading, writing = os.pipe()

    def send() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        return Inflow(reading, size).keep(
            place / "kept.tar", unpack or ["tar", "-xf", "-", "-C", str(place)]
        )
    finally:
        sender.join(20)
        os.close(reading)


def test_it_is_kept_and_unpacked_at_once(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    data = archive(content)
    assert kept(tmp_path, data, len(data)) == hashlib.sha256(data).hexdigest()
    assert (tmp_path / "kept.tar").read_bytes() == data
    assert (tmp_path / "file").read_bytes() == content


def test_what_ends_too_soon(tmp_path: Path) -> None:
    with pytest.raises(CutError, match="10240 of 10241 bytes"):
        kept(tmp_path, archive(b"x"), 10_241)


@pytest.mark.parametrize(
    ("data", "program", "words"),
    [
        (lambda: b"no tar" * 2000, None, "does not look like a tar"),
        # It ends at once: what is still to come does not break anything.
        (
            lambda: archive(bytes(2_000_000)),
            ["sh", "-c", "echo No space left >&2; exit 3"],
            "No sp",
        ),
    ],
)
def test_a_program_that_fails_says_why(
    tmp_path: Path, data: Callable[[], bytes], program: list[str] | None, words: str
) -> None:
    sent = data()
    with pytest.raises(CommandError, match=words):
        kept(tmp_path, sent, len(sent), program)


def test_one_that_is_not_wanted_any_more(tmp_path: Path) -> None:
    """Nothing comes, and nobody closes the pipe."""
    reading, writing = os.pipe()
    inflow = Inflow(reading, 100)
    inflow.stop()
    try:
        with pytest.raises(CutError, match="not wanted"):
            inflow.keep(tmp_path / "kept.tar", ["cat"])
    finally:
        os.close(reading)
        os.close(writing)


def test_a_program_that_takes_nothing_is_not_waited_for(tmp_path: Path) -> None:
    """Its pipe is full, so nothing else is looked at."""
    reading, writing = os.pipe()
    inflow = Inflow(reading, 8 << 20)
    faults: list[Exception] = []

    def keep() -> None:
        try:
            inflow.keep(tmp_path / "kept.tar", ["sleep", "600"])
        except CutError as error:
            faults.append(error)

    keeping = threading.Thread(target=keep, daemon=True)
    keeping.start()
    try:
        for _ in range(3):  # more than the pipes and one piece hold
            os.write(writing, bytes(1 << 20))
        inflow.stop()
        keeping.join(20)
        assert not keeping.is_alive() and "not wanted" in str(faults[0])
    finally:
        os.close(writing)
        os.close(reading)
