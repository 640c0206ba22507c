"""Hints name packages as this host's distribution does, whatever its os-release holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.common import packages
from ullage.common.packages import distribution, install_command

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


def test_commands_are_those_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("crun", "qemu-utils", "frobtools")
    assert install_command(*names) == "apt-get install crun qemu-utils frobtools"
    monkeypatch.setattr(packages, "distribution", lambda: "fedora")
    assert install_command(*names) == "dnf install crun qemu-img frobtools"
    monkeypatch.setattr(packages, "distribution", lambda: "alpine")
    nowhere = "mmdebstrap is in no package of this distribution that we know"
    assert install_command("mmdebstrap") == nowhere
    assert install_command("mmdebstrap", "lxc") == f"apk add lxc ({nowhere})"
