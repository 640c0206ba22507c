"""Programs of our own are found where `make programs` puts them."""

from pathlib import Path

import pytest

from ullage import errors, ours
from ullage.errors import UllageError


def test_the_one_for_the_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "DIRECTORY", tmp_path)
    for name in ("plain", "openmpi/ring", "mpich/ring"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert ours.program("plain") == tmp_path / "plain"
    assert ours.program("ring", "openmpi") == tmp_path / "openmpi/ring"
    assert ours.program("ring", "mpich") == tmp_path / "mpich/ring"


@pytest.mark.parametrize("mpi", [None, "openmpi"])
def test_what_was_not_built_is_said(
    mpi: ours.Mpi | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "DIRECTORY", tmp_path)
    (tmp_path / "openmpi/ring").mkdir(parents=True)  # a folder is no program
    with pytest.raises(UllageError) as caught:
        ours.program("ring", mpi)
    assert caught.value.kind is errors.PROGRAM_MISSING
    assert "ring" in caught.value.message
