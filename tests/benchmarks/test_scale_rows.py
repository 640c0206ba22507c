"""What the benchmark of many runs lists: journals that are read, and those that are remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.engine import scale


def test_new_and_remembered_runs_are_two_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[bool] = []

    def cost(*words: str, cache: Path) -> scale.Cost:
        if words[0] == "list":
            lists.append((cache / "lists").exists())
            (cache / "lists").mkdir(parents=True, exist_ok=True)
        assert cache.parent == tmp_path, "never the user's own"
        return scale.Cost(1.0, 1.0)

    monkeypatch.setattr(scale, "cost", cost)
    monkeypatch.setattr(scale, "sealed", lambda *_: None)
    monkeypatch.setattr(scale, "copy", lambda *_: None)
    growths = list(scale._of_runs(tmp_path, (20, 40)))
    assert [growth.command for growth in growths] == ["list", scale.REMEMBERED, "query"]
    assert lists == [False, True] * 2, "each size is read anew first"


def test_all_sizes_are_remembered() -> None:
    assert min(*scale.RUNS, *scale.RUNS_QUICK) >= 20
