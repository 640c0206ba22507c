"""Programs of our own are found where `make programs` puts them."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.agent import client
from ullage.host import binaries


def test_the_one_for_the_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "DIRECTORY", tmp_path)
    for name in ("plain", "openmpi/ring", "mpich/ring"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert binaries.program("plain") == tmp_path / "plain"
    assert binaries.program("ring", "openmpi") == tmp_path / "openmpi/ring"
    assert binaries.program("ring", "mpich") == tmp_path / "mpich/ring"


@pytest.mark.parametrize("mpi", [None, "openmpi"])
def test_what_was_not_built_is_said(
    mpi: binaries.Mpi | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "DIRECTORY", tmp_path)
    (tmp_path / "openmpi/ring").mkdir(parents=True)  # a folder is no program
    with pytest.raises(UllageError) as caught:
        binaries.program("ring", mpi)
    assert caught.value.kind is errors.PROGRAM_MISSING
    assert "ring" in caught.value.message


PRINTS = {
    "ullage-agent": ("--version",),
    "ullage-load": ("icmp", "127.0.0.1", "--count", "1"),
    "ullage-pipelines": ("dedup-corpus", "--output", "corpus", "--size", "1000"),
    "ullage-viewers": ("node", "--bytes", "1000"),
}
"""Each prints something at once. The front goes on: it is a server, and says so."""
REFUSES = {
    "ullage-agent": ("dance",),
    "ullage-front": ("--config", "none"),
    "ullage-load": ("connect", "nowhere"),
    "ullage-pipelines": ("undedup", "--input", "none", "--output", "out"),
    "ullage-viewers": ("run", "--config", "none"),
}
"""Each has something against that."""


def program(name: str) -> Path:
    try:
        return client.binary() if name == "ullage-agent" else binaries.program(name)
    except UllageError:
        pytest.skip("needs `make build programs`")


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.root
@pytest.mark.parametrize("name", PRINTS)
def test_one_whose_output_nobody_reads_ends_without_a_word(
    name: str, unread: int, tmp_path: Path
) -> None:
    """As `ullage` itself does: no panic, no core, no complaint."""
    argv = [str(program(name)), *PRINTS[name]]
    for stdout, status in ((unread, 1), (subprocess.DEVNULL, 0)):
        done = subprocess.run(
            argv,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL if name != "ullage-viewers" else subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (status, b"")


@pytest.mark.parametrize("name", REFUSES)
def test_one_whose_complaint_nobody_reads_keeps_its_status(
    name: str, unread: int, tmp_path: Path
) -> None:
    argv = [str(program(name)), *REFUSES[name]]
    statuses = [
        subprocess.run(
            argv, cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=stderr, check=False, timeout=120
        ).returncode
        for stderr in (subprocess.DEVNULL, unread)
    ]
    assert statuses[0] == statuses[1] in (1, 2)
