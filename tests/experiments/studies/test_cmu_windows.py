"""The rows of a second system: none of the published ones, over a physical Windows, is beside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.experiments.studies.planruns import fresh, make
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.studies import get, running
from ullage.experiments.studies.base import DerivedTable
from ullage.experiments.studies.cmu_overhead.study import QUICK, WINDOWS

STUDY = get("cmu-overhead")
QUICK_WINDOWS, FULL_WINDOWS = WINDOWS


def windows_table(tmp_path: Path, **machine: str) -> DerivedTable:
    """Of a run of the full plan, where Wine's place was taken by such a machine."""
    run = make(tmp_path, STUDY, FULL_WINDOWS, {("wine", "cpu"): 2.0}, blocks=6)
    resolved = json.loads((run / "resolved.json").read_text())
    resolved.pop("sum", None)
    (record,) = (e for e in resolved["environments"] if e["key"] == "wine")
    record["provider"] = machine["provider"]
    record["nuisances"] |= {"userland": machine["userland"], "cpus": "1"}
    (run / "resolved.json").write_text(json.dumps(resolved))
    return fresh(STUDY, (FULL_WINDOWS, run))["windows-fresh"]


@pytest.mark.parametrize(
    ("provider", "userland"),
    [("hyperv", "Windows Server 2022"), ("wine", "Wine 8.0 (not Windows)")],
)
def test_nothing_published_stands_beside_and_it_says_why(
    tmp_path: Path, provider: str, userland: str
) -> None:
    """Not beside a Windows guest either: here it is set over Linux, there it was over Windows."""
    table = windows_table(tmp_path, provider=provider, userland=userland)
    assert [column.title for column in table.columns] == ["ratio", "verdict"]
    assert len(table.rows) == 8
    assert any("over a physical Windows" in note for note in table.notes)


def test_the_windows_rows_are_counted_as_without_a_counterpart() -> None:
    for kind in STUDY.coverage():
        rows = STUDY.published(kind.file)
        of_windows = sum(row["machine"].startswith("win81") for row in rows)
        assert of_windows <= len(rows) - kind.fresh
        assert ("a physical Windows" in kind.missing) == ("network" not in kind.of)


def test_its_rows_count_for_nothing_else(tmp_path: Path) -> None:
    """`basics` calls all its tests CPU: they are in no table of a resource, and in no O."""
    quick, windows = (make(tmp_path, STUDY, plan, blocks=6) for plan in (QUICK, QUICK_WINDOWS))
    alone = fresh(STUDY, (QUICK, quick))
    both = fresh(STUDY, (QUICK, quick), (QUICK_WINDOWS, windows))
    assert set(both) - set(alone) == {"windows-fresh"}
    assert {key: both[key] for key in alone} == alone


def test_it_is_left_out_unless_it_is_named() -> None:
    assert running.StudyRequest(quick=True).plans(STUDY) == (QUICK,)
    named = running.StudyRequest(quick=True, only=(QUICK_WINDOWS.name,))
    assert named.plans(STUDY) == (QUICK_WINDOWS,)
    with pytest.raises(UllageError) as caught:
        running.StudyRequest(quick=True, only=(FULL_WINDOWS.name,)).plans(STUDY)
    assert caught.value.kind is errors.STUDY_UNKNOWN_PLAN
