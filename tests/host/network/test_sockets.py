"""Where Unix sockets are put."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ullage.host import leftovers
from ullage.host.network import sockets
from ullage.host.network.sockets import SocketFolder

SSH_ADDS = ".0123456789abcdef"
"""ssh makes its socket under a longer name first."""


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place for temporary files."""
    place = tmp_path / ("deep" * 30)
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(place / "state"))
    return place


@pytest.mark.usefixtures("deep")
def test_a_path_is_short_wherever_temporary_files_lie(tag: str) -> None:
    folder = SocketFolder(tag)
    try:
        path = folder.socket("an instance of a long name " * 20)
        assert len(bytes(path)) + len(SSH_ADDS) <= sockets.LONGEST
        assert folder.path.stat().st_mode & 0o777 == 0o700
        assert path != folder.socket("another")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    finally:
        folder.remove()
    folder.remove()
    assert not folder.path.exists()


def test_a_folder_whose_maker_was_killed_is_found_and_removed(tag: str) -> None:
    folder = SocketFolder(tag)
    remains = leftovers.find(tag)
    assert [(one.kind, one.name) for one in remains] == [("sockets", str(folder.path))]
    assert leftovers.remove(remains) == []
    assert not folder.path.exists()


def test_a_link_with_such_a_name_is_none(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "PLACES", (tmp_path, tmp_path / "gone"))
    (tmp_path / f"ullage-{tag}-abcdefgh").symlink_to("/etc")
    (tmp_path / f"ullage-{tag}-abcdefghi").mkdir()
    folder = SocketFolder(tag)
    assert list(sockets.folders()) == [(folder.path, tag)]
