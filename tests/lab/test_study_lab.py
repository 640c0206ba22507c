"""`ullage study run NAME --quick`, as a user types it: every table, and a page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.traces import left_with
from ullage.runs.records import JOURNAL

LEARNED = "ours, after those until chrony had settled"

# Of an idle machine's minutes, with room for a busy one's.
pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(3600)]


def quick(name: str, runs: Path) -> dict[str, Any]:
    """Run it; what it says as JSON."""
    options = ("--quick", "--json", "--runs", str(runs))
    done = subprocess.run(
        [sys.executable, "-m", "ullage", "study", "run", name, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    study: dict[str, Any] = json.loads(done.stdout)
    first, *_ = study["runs"].values()
    page = (Path(first) / "study.html").read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    assert not left_with(set(tags(runs)))
    return study


def tags(runs: Path) -> Iterator[str]:
    """Of all sessions, of runs of either kind."""
    for file in runs.glob(f"*/{JOURNAL}"):
        events = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        yield from (event["tag"] for event in events if event["event"] == "started")


def table(study: dict[str, Any], key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = next(t["rows"] for t in study["fresh"] if t["key"] == key)
    return rows


def test_the_overhead_of_vms_and_containers(tmp_path: Path) -> None:
    study = quick("cmu-overhead", tmp_path)
    for resource in ("cpu", "memory", "disk", "network"):
        rows = table(study, f"{resource}-fresh")
        assert len({row["label"].partition(",")[0] for row in rows}) == 3, "two containers and a VM"
        for row in rows:
            ratio, verdict = row["cells"][:2]
            assert ratio["low"] < ratio["value"] < ratio["high"]
            assert verdict in ("worse", "better", "equivalent", "inconclusive")
    machines = table(study, "machine-fresh")
    assert len(machines) == 3, "none of theirs, which are over a Windows"
    assert all(row["cells"][0]["value"] > 0 for row in table(study, "memory-blocks-fresh"))
    assert all(row["cells"][0]["low"] < row["cells"][0]["high"] for row in machines)


def test_what_the_disk_under_a_vm_costs(tmp_path: Path) -> None:
    study = quick("flash-energy", tmp_path)
    rows = table(study, "disks-fresh")
    primary = [row for row in rows if row["cells"][1] != "no verdict"]
    assert len(primary) == 6, "two disks, three tests"
    assert all(row["cells"][0]["low"] < row["cells"][0]["high"] for row in primary)
    energies = table(study, "energy-fresh")
    assert {row["cells"][0] for row in energies} == {"estimated at the wall"}
    assert all(row["cells"][3]["value"] > 0 for row in energies), "W"


def test_what_messages_cost_and_what_programs_feel_of_it(tmp_path: Path) -> None:
    study = quick("mpi-degradation", tmp_path)
    labels = {row["label"] for row in table(study, "communication-fresh")}
    assert any("queens" in label for label in labels)
    assert any("CG S" in label for label in labels)
    for key in ("messages-fresh", "round-trips-fresh"):
        assert all(row["cells"][0]["value"] > 0 for row in table(study, key)), key
    assert all(row["cells"][0]["low"] < row["cells"][0]["high"] for row in compared(study))


def test_how_fast_the_host_grows_and_what_its_clocks_do(tmp_path: Path) -> None:
    study = quick("elastic-clock", tmp_path)
    assert list(study["runs"]) == [
        "elastic-clock-time-quick",
        "elastic-clock-ocean-quick",
        "elastic-clock-ntp-quick",
        "elastic-clock-host-quick",
        "elastic-clock-room-quick",
        "elastic-clock-quick",
    ]
    rooms = [row["cells"] for row in table(study, "rooms-fresh")]
    first = Path(study["runs"]["elastic-clock-room-quick"]).name
    assert len(rooms) == 2
    assert all(viewers["value"] >= 1 and run == f"lxc of {first}" for viewers, _, run in rooms)
    for key in ("clock-cost-fresh", "clock-ecp-fresh", "allocation-fresh", "movie-fresh"):
        assert table(study, key), key
    assert all(row["cells"][3]["value"] > 0 for row in table(study, "movie-fresh")), "TaR"
    sailed = {row["label"]: row["cells"] for row in table(study, "clock-ocean-4-8-fresh")}
    assert len(sailed) == 10, "two numbers of processes, five variants"
    assert all((cells[7]["value"], cells[8]["value"]) == (6, 0) for cells in sailed.values())
    rows = table(study, "clock-beside-0-fresh")
    off = {row["label"].partition(", ")[2]: row["cells"] for row in rows}
    assert len(off) == 4, "chrony, and three of ours"
    once, learned = off["ours, after one exchange"], off[LEARNED]
    assert learned[3]["value"] < once[3]["value"], "it knows the oscillator's rate"
    assert len({cells[1]["value"] for cells in off.values()}) == 1, "over the same seconds"


def test_networks_pipelines_and_making_instances(tmp_path: Path) -> None:
    study = quick("network-pipeline", tmp_path)
    assert len(study["runs"]) == 3
    for key in ("throughput-fresh", "latency-fresh", "connections-fresh", "speedups-fresh"):
        assert table(study, key), key
    assert all(row["cells"][0]["value"] > 0 for row in table(study, "speedups-fresh"))


def compared(study: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in table(study, "verdicts-fresh") if row["cells"][1] != "no verdict"]
