"""`ullage study run NAME --quick`, as a user types it: every table, and a page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab.traces import left_by

pytestmark = [pytest.mark.lab, pytest.mark.root]


def quick(name: str, runs: Path) -> dict[str, Any]:
    """Run it; what it says as JSON."""
    options = ("--quick", "--json", "--runs", str(runs))
    done = subprocess.run(
        [sys.executable, "-m", "ullage.cli", "study", "run", name, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    page = (Path(told["runs"][f"{name}-quick"]) / "study.html").read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    assert not left_by(runs)
    return told


def table(told: dict[str, Any], key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = next(t["rows"] for t in told["fresh"] if t["key"] == key)
    return rows


def test_the_overhead_of_vms_and_containers(tmp_path: Path) -> None:
    told = quick("cmu-overhead", tmp_path)
    for resource in ("cpu", "memory", "disk", "network"):
        rows = table(told, f"{resource}-fresh")
        assert len({row["label"].partition(",")[0] for row in rows}) == 3, "two containers and a VM"
        for row in rows:
            ratio, verdict = row["cells"][:2]
            assert ratio["low"] < ratio["value"] < ratio["high"]
            assert verdict in ("worse", "better", "equivalent", "inconclusive")
    machines = [row for row in table(told, "machine-fresh") if not row["label"].endswith("there")]
    assert len(machines) == 3
    assert all(row["cells"][0]["low"] < row["cells"][0]["high"] for row in machines)


def test_what_the_disk_under_a_vm_costs(tmp_path: Path) -> None:
    told = quick("flash-energy", tmp_path)
    rows = table(told, "disks-fresh")
    primary = [row for row in rows if row["cells"][1] != "no verdict"]
    assert len(primary) == 6, "two disks, three tests"
    assert all(row["cells"][0]["low"] < row["cells"][0]["high"] for row in primary)
    energies = table(told, "energy-fresh")
    assert {row["cells"][0] for row in energies} == {"estimated at the wall"}
    assert all(row["cells"][2]["value"] > 0 for row in energies), "W"
