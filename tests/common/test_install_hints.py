"""Hints name packages as this host's distribution does, whatever its os-release holds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ullage.common import errors, packages
from ullage.common.errors import UllageError
from ullage.common.packages import distribution, install_command, need_library

FEDORA = b'NAME="Fedora Linux"\nID=fedora\nVERSION_ID=43\n'
ROCKY = b'ID="rocky"\nID_LIKE="rhel centos fedora"\n'


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (FEDORA, "fedora"),
        (ROCKY, "fedora"),
        (b"ID=alpine\n", "alpine"),
        (b"ID=ubuntu\nID_LIKE=debian\n", "debian"),
        (b"NAME=\xff\xfe\x00\nID=alpine", "alpine"),
        (b"ID='fedora\n", "fedora"),
        (b"ID=plan9\nID_LIKE=\n=\n\n#", "debian"),
        (b"", "debian"),
    ],
)
def test_the_distribution_is_read(release: bytes, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    file.write_bytes(release)
    assert distribution((tmp_path / "gone", file)) == expected
    assert distribution((tmp_path / "gone",)) == "debian"


def test_a_library_that_a_wheel_leaves_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    need_library("yaml", "numpy")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UllageError) as missing:
        need_library("yaml", "duckdb")
    assert missing.value.kind is errors.HOST_MISSING
    assert "Python's duckdb" in missing.value.message
    assert missing.value.hint == "install it: pip install duckdb"


def test_commands_are_those_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("crun", "qemu-utils", "frobtools")
    assert install_command(*names) == "apt-get install crun qemu-utils frobtools"
    monkeypatch.setattr(packages, "distribution", lambda: "fedora")
    assert install_command(*names) == "dnf install crun qemu-img frobtools"
    monkeypatch.setattr(packages, "distribution", lambda: "alpine")
    nowhere = "mmdebstrap is in no package of this distribution that we know"
    assert install_command("mmdebstrap") == nowhere
    assert install_command("mmdebstrap", "lxc") == f"apk add lxc ({nowhere})"
