"""The disk's throttle in both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.injection import hindered
from ullage import cgroups
from ullage.cgroups import Hierarchy


@pytest.mark.parametrize(("version", "file"), [(1, "blkio.reset_stats"), (2, "cgroup.controllers")])
def test_the_tree_with_the_controller_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, file: str
) -> None:
    other = Hierarchy(tmp_path / "other", version, frozenset())
    tree = Hierarchy(tmp_path / "tree", version, frozenset())
    for each in (other, tree):
        each.path.mkdir()
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [other, tree])
    assert hindered.Throttled.tree() is None
    assert "blkio" in str(hindered.Throttled.missing())
    (other.path / "cgroup.controllers").write_text("cpu memory\n")
    (tree.path / file).write_text("cpu io memory\n")
    assert hindered.Throttled.tree() == tree


def test_version_1(tmp_path: Path) -> None:
    tree = Hierarchy(tmp_path, 1, frozenset())
    place = hindered.throttle(tree, "/ullage/u1/native-0", "8:0", 1000)
    assert place == tmp_path / "ullage/u1/native-0"
    assert {file.name: file.read_text() for file in place.iterdir()} == {
        "blkio.throttle.read_bps_device": "8:0 1000"
    }


def test_version_2(tmp_path: Path) -> None:
    """This host's new tree has no controllers, so plain files stand for it."""
    tree = Hierarchy(tmp_path, 2, frozenset())
    place = hindered.throttle(tree, "/ullage/u1/native-0", "8:0", 1000)
    assert (place / "io.max").read_text() == "8:0 rbps=1000"
    for above in (tmp_path, tmp_path / "ullage", tmp_path / "ullage/u1"):
        assert (above / "cgroup.subtree_control").read_text() == "+io"
    assert not (place / "cgroup.subtree_control").exists()
