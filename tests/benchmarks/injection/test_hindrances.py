"""Whether this host can throttle a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.statistics.injection import hindrances
from ullage.host import cgroups
from ullage.host.cgroups import Hierarchy


@pytest.mark.parametrize(("version", "file"), [(1, "blkio.reset_stats"), (2, "cgroup.controllers")])
def test_the_tree_with_the_controller_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, file: str
) -> None:
    without = Hierarchy(tmp_path / "other", version, frozenset())
    tree = Hierarchy(tmp_path / "tree", version, frozenset())
    for hierarchy in (without, tree):
        hierarchy.path.mkdir()
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [without, tree])
    assert hindrances.Throttled.tree() is None
    assert "blkio" in str(hindrances.Throttled.missing())
    (without.path / "cgroup.controllers").write_text("cpu memory\n")
    (tree.path / file).write_text("cpu io memory\n")
    assert hindrances.Throttled.tree() == tree
