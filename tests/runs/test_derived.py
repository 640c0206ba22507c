"""Where that is kept which is made of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.runs import derived


@pytest.fixture(autouse=True)
def places_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))


def test_the_cache_is_of_the_folder_not_of_its_name(tmp_path: Path) -> None:
    places = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        places.add(derived.place(tmp_path / name, read_only=True))
    (tmp_path / "one").rename(tmp_path / "kept")  # so that no other has its inode
    (tmp_path / "other").mkdir()
    (tmp_path / "other").rename(tmp_path / "one")
    places.add(derived.place(tmp_path / "one", read_only=True))
    assert len(places) == 3
