"""The rows of Windows guests: published figures stand beside a Windows, and beside nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.experiments.studies.planruns import figure, fresh, make
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.studies import get, running, showing
from ullage.experiments.studies.base import DerivedTable
from ullage.experiments.studies.cmu_overhead.study import QUICK, WINDOWS

STUDY = get("cmu-overhead")
QUICK_WINDOWS, FULL_WINDOWS = WINDOWS
GUEST = {"provider": "hyperv", "emulated": False, "userland": "Windows Server 2022", "cpus": "1"}


def windows_table(tmp_path: Path, **machine: object) -> DerivedTable:
    """Of a run of the full plan, where Wine's place was taken by such a machine."""
    run = make(tmp_path, STUDY, FULL_WINDOWS, {("wine", "cpu"): 2.0}, blocks=6)
    resolved = json.loads((run / "resolved.json").read_text())
    resolved.pop("sum", None)
    (record,) = (e for e in resolved["environments"] if e["key"] == "wine")
    record["provider"], record["emulated"] = machine["provider"], machine["emulated"]
    record["nuisances"] |= {"userland": machine["userland"], "cpus": machine["cpus"]}
    (run / "resolved.json").write_text(json.dumps(resolved))
    return fresh(STUDY, (FULL_WINDOWS, run))["windows-fresh"]


def there(table: DerivedTable, guest: str) -> list[float | None]:
    return [cell.value for _, of, cell in table.figures() if of.title == f"{guest} there"]


def test_a_windows_guest_has_the_published_rows_beside(tmp_path: Path) -> None:
    table = windows_table(tmp_path, **GUEST)
    assert [round(x or 0, 4) for x in there(table, "win81_x64")] == [
        0.7086, 1.6733, 1.4519, 1.6130, 1.5717, 1.5950, 1.5831, 1.2227
    ]  # fmt: skip
    row = table.rows[0].label
    assert figure(table, row, "win81_x86 there").value == pytest.approx(0.9172, abs=5e-5)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"provider": "wine", "userland": "Wine 8.0 (not Windows)"},
         "Wine 8.0 (not Windows) is no Windows"),
        ({"userland": "Debian 12"}, "Debian 12 is no Windows"),
        ({"userland": ""}, "what ran there is no Windows"),
        ({"provider": "ssh"}, "that Windows is no guest that runs on its CPUs"),
        ({"provider": "qemu", "emulated": True}, "that Windows is no guest that runs on its CPUs"),
        ({"cpus": "2"}, "nothing was published for this setting"),
    ],
)  # fmt: skip
def test_what_is_no_windows_guest_has_none_and_says_why(
    tmp_path: Path, other: dict[str, object], why: str
) -> None:
    table = windows_table(tmp_path, **GUEST | other)
    assert {*there(table, "win81_x64"), *there(table, "win81_x86")} == {None}
    assert f"–: {why}." in showing.notes(table)


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
