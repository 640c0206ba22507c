"""Lists of many runs remember what was read, and only what is still so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testing.synthetic import make_run
from ullage.runs import listing
from ullage.runs.listing import list_runs
from ullage.runs.reader import RunFolder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three, and a cache of their own; three are worth keeping here."""
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(listing, "WORTH_KEEPING", 3)
    root = tmp_path / "runs"
    first = make_run(root / "a", blocks=2, failures=(), raw=False)
    for name in ("b", "c"):
        shutil.copytree(first, root / name)
    return root


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the runs that were read."""
    names: list[str] = []
    real = RunFolder.open

    def open_(path: Path) -> RunFolder:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(RunFolder, "open", open_)
    return names


def test_each_run_is_read_once(runs: Path, opened: list[str]) -> None:
    first = list_runs(runs)
    assert sorted(opened) == ["a", "b", "c"]
    assert list_runs(runs) == first and len(opened) == 3
    assert [run.unverified for run in list_runs(runs)] == [run.unverified for run in first]


def test_a_run_that_goes_on_is_read_anew(runs: Path, opened: list[str]) -> None:
    list_runs(runs)
    opened.clear()
    journal = runs / "b" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))  # it has not finished
    by_name = {run.run: run for run in list_runs(runs)}
    assert opened == ["b"] and by_name["b"].finished is None
    assert by_name["a"].finished is not None


def test_what_is_wrong_is_looked_at_each_time(runs: Path, opened: list[str]) -> None:
    (runs / "c" / "journal.jsonl").write_text("no journal\n")
    for _ in range(2):
        opened.clear()
        assert next(run for run in list_runs(runs) if run.run == "c").problem
        assert "c" in opened


@pytest.mark.parametrize("damage", ["{", '{"version": "0", "runs": {}}', '{"runs": 1}'])
def test_a_cache_that_is_none_is_read_past(runs: Path, opened: list[str], damage: str) -> None:
    before = list_runs(runs)
    (file,) = (runs.parent / "cache" / "lists").iterdir()
    file.write_text(damage)
    opened.clear()
    assert list_runs(runs) == before and len(opened) == 3


def test_a_name_that_is_no_text_is_read_each_time(runs: Path, opened: list[str]) -> None:
    (runs / "c").rename(runs / "c\udcff")
    shutil.copytree(runs / "b", runs / "d")
    assert {run.run for run in list_runs(runs)} == {"a", "b", "c\udcff", "d"}
    opened.clear()
    assert len(list_runs(runs)) == 4 and opened == ["c\udcff"]


def test_where_no_cache_can_be_kept_the_list_is_whole(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", "/proc/none")
    assert len(list_runs(runs)) == 3
