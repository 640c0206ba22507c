"""The network study: its tables to their digits, its plans, and runs of our own beside it.

The digits were reckoned apart from the code (awk over the CSV files).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.experiments.studies.planruns import figure, fresh, holds, make, printed
from ullage.experiments.studies import get
from ullage.experiments.studies.network_pipeline.study import FULL, QUICK
from ullage.plan import matrix, schema

STUDY = get("network-pipeline")
TABLES = {table.key: table for table in STUDY.tables()}
NETWORK, PIPELINES, CREATE, CLOUD = QUICK
DISKS = next(plan for plan in FULL if plan.disks)
FILES = next(plan for plan in FULL if plan.name == "network-pipeline-files-full")


def test_the_ratio_of_create_times() -> None:
    table = TABLES["create"]
    assert printed(table, "over the quickest", 4) == {
        "openstack, 2": "1.0000",
        "cloudstack, 2": "2.0379",
    }
    assert printed(table, "for each", 3) == {"openstack, 2": "4.225", "cloudstack, 2": "8.610"}


def test_bonding_slows_one_instance_down_and_never_doubles() -> None:
    table = TABLES["bonding"]
    assert printed(table, "bonded ÷ single", 4) == {"1": "1.0730", "2": "0.7396", "3": "0.6627"}
    assert printed(table, "times as fast", 3) == {"1": "0.932", "2": "1.352", "3": "1.509"}
    assert printed(table, "longer by", 0) == {"1": "23", "2": "-132", "3": "-255"}
    assert "338 s against 315" in " ".join(table.notes)


def test_what_several_do_at_once() -> None:
    table = TABLES["together"]
    assert printed(table, "single link", 3) == {"1": "1.000", "2": "1.243", "3": "1.250"}
    assert printed(table, "bonded", 3) == {"1": "1.000", "2": "1.803", "3": "2.024"}


def test_no_digits_are_claimed_as_printed() -> None:
    figures = [cell for table in TABLES.values() for _, _, cell in table.figures()]
    assert figures
    assert all(cell.printed is None for cell in figures)


def test_the_readme_says_on_which_cloud_it_was_seen() -> None:
    assert "and on no CloudStack" in STUDY.readme()


def test_the_full_plans_have_the_published_series() -> None:
    network = matrix.resolve(*schema.load(STUDY.folder / "full.yaml"))
    parameters_by_key = {case.key: case.parameters.model_dump() for case in network.cases}
    assert parameters_by_key["netpipe"]["largest"] == 10_000_000
    assert parameters_by_key["netpipe"]["repeats"] is None
    threads = [
        parameters["threads"]
        for key, parameters in parameters_by_key.items()
        if key.startswith("connections")
    ]
    assert threads == [1, 2, 4, 8, 16, 32]
    create = matrix.resolve(*schema.load(STUDY.folder / "full-create.yaml"))
    assert [case.parameters.model_dump()["count"] for case in create.cases] == [2, 4, 8, 16]
    pipelines, _ = schema.load(STUDY.folder / "full-pipelines.yaml")
    assert pipelines.blocks.min == 10
    (ferret, *_) = [
        case.parameters.model_dump()
        for case in matrix.resolve(*schema.load(STUDY.folder / "full-pipelines.yaml")).cases
        if case.workload.name == "ferret"
    ]
    assert ferret["image_format"] == "jpeg" and ferret["candidates"] < ferret["images"]
    seconds = [p["time_s"] for key, p in parameters_by_key.items() if key.startswith("connections")]
    assert set(seconds) == {90}
    planned, document = schema.load(STUDY.folder / "full-files.yaml")
    files = matrix.resolve(planned, document)
    assert {environment.instances for environment in files.environments} == {1}, "two, with a peer"
    assert [case.parameters.model_dump()["jobs"] for case in files.cases] == [1, 2, 3]
    assert planned.network is not None and planned.network.rate == 10**9
    bonded = yaml.safe_load((STUDY.folder / "full-files.yaml").read_text())["environments"][
        "bonded"
    ]
    assert bonded["aggregation"] == {"mode": "balance-rr"}


def test_our_network_by_size(tmp_path: Path) -> None:
    run = make(tmp_path, STUDY, NETWORK, {("vm", "netpipe"): 3.0})
    tables = fresh(STUDY, (NETWORK, run))
    for key in ("throughput-fresh", "latency-fresh"):
        for row in ("64 B", "1 KiB", "16 KiB", "256 KiB"):
            assert holds(figure(tables[key], row, "vm"), 3.0)
            assert holds(figure(tables[key], row, "lxc"), 1.0)
    columns = {(c.title, c.unit) for c in tables["throughput-fresh"].columns}
    assert columns == {("native", "Mbit/s"), ("container", ""), ("lxc", ""), ("vm", "")}
    assert len(tables["connections-fresh"].rows) == 3 * 2
    assert any("a connection is two" in note for note in tables["connections-fresh"].notes)


def test_our_making_of_instances(tmp_path: Path) -> None:
    run = make(tmp_path, STUDY, CREATE, {("lxc", "create[count=8]"): 2.0})
    tables = fresh(STUDY, (CREATE, run))
    times = tables["network-pipeline-create-quick-create-fresh"]
    assert [column.title for column in times.columns] == ["2", "4", "8", "16"]
    assert holds(figure(times, "lxc, make", "8"), 2000)
    assert holds(figure(times, "native, remove", "8"), 1000)
    assert not any("there" in row.label for row in times.rows), "a cloud is another setting"
    ratios = tables["network-pipeline-create-quick-create-ratios-fresh"]
    assert holds(figure(ratios, "lxc, create, count 8", "ratio"), 2.0)
    assert len(ratios.rows) == 2 * 4 * 2


def test_instances_of_the_users_cloud(tmp_path: Path) -> None:
    run = make(tmp_path, STUDY, CLOUD, {("mine", "create[count=2]"): 2.0})
    times = fresh(STUDY, (CLOUD, run))["network-pipeline-cloud-quick-create-fresh"]
    assert holds(figure(times, "mine, make", "2"), 2000)
    (note,) = times.notes
    assert "2 of openstack 8.45 s, 2 of cloudstack 17.22 s" in note


def test_a_failed_count_has_no_time(tmp_path: Path) -> None:
    cell = ("lxc", "create[count=16]")
    run = make(tmp_path, STUDY, CREATE, failures=[(block, *cell) for block in range(8)])
    times = fresh(STUDY, (CREATE, run))["network-pipeline-create-quick-create-fresh"]
    missing = figure(times, "lxc, make", "16")
    assert missing.value is None and missing.why
    assert figure(times, "lxc, make", "8").value is not None


def test_speed_up_of_our_pipelines(tmp_path: Path) -> None:
    slow = "dedup[source=memory,threads=1]"
    truth = {(key, slow): 1.8 for key in ("native", "lxc")}
    tables = fresh(STUDY, (PIPELINES, make(tmp_path, STUDY, PIPELINES, truth)))
    table = tables["speedups-fresh"]
    assert [column.title for column in table.columns] == ["2 threads"]
    assert holds(figure(table, "native, dedup from memory", "2 threads"), 1.8)
    assert holds(figure(table, "lxc, dedup from memory", "2 threads"), 1.8)
    assert holds(figure(table, "vm, dedup from memory", "2 threads"), 1.0)
    assert holds(figure(table, "native, ferret from memory", "2 threads"), 1.0)
    assert len(tables["pipelines-fresh"].rows) == 2 * 6


def test_what_bounds_our_pipelines(tmp_path: Path) -> None:
    """CPU seconds and throughput are both 1,000 there, the input is 16 MiB."""
    table = fresh(STUDY, (PIPELINES, make(tmp_path, STUDY, PIPELINES)))["bound-fresh"]
    expected = 1e6 / (16 << 20)
    assert figure(table, "native, dedup from disk, 1", "CPUs").value == pytest.approx(
        expected, 0.05
    )
    assert figure(table, "native, dedup from disk, 1", "disk").value == pytest.approx(
        expected, 0.05
    )
    with pytest.raises(KeyError):
        figure(table, "native, dedup from memory, 1", "disk")
    assert figure(table, "vm, ferret from memory, 2", "CPUs").value == pytest.approx(1e6 / 96, 0.05)


def test_too_many_failures_leave_no_speed_up(tmp_path: Path) -> None:
    cell = ("lxc", "ferret[threads=2]")
    run = make(tmp_path, STUDY, PIPELINES, failures=[(2, *cell)])
    table = fresh(STUDY, (PIPELINES, run))["speedups-fresh"]
    missing = figure(table, "lxc, ferret from memory", "2 threads")
    assert missing.value is None
    assert "of 8 blocks 7" in missing.why


def test_one_block_has_no_interval(tmp_path: Path) -> None:
    run = make(tmp_path, STUDY, PIPELINES, blocks=1)
    single = figure(
        fresh(STUDY, (PIPELINES, run))["speedups-fresh"], "lxc, ferret from memory", "2 threads"
    )
    assert single.value is not None and single.low is None
    assert single.why == "one block has no spread"


def test_our_files_beside_the_published(tmp_path: Path) -> None:
    """Copies of the application in fixed instances; t(n) / t(1), for LXC over one link as there."""
    truth = {("vm", "files[jobs=3]"): 2.0}
    tables = fresh(STUDY, (FILES, make(tmp_path, STUDY, FILES, truth)))
    table = tables["files-together-fresh"]
    assert holds(figure(table, "vm", "3 copies"), 2.0)
    assert holds(figure(table, "lxc", "2 copies"), 1.0)
    assert figure(table, "lxc", "2 copies there").value == pytest.approx(507 / 315)
    assert figure(table, "lxc", "3 copies there").value == pytest.approx(756 / 315)
    others = [figure(table, row, "3 copies there") for row in ("native", "vm", "bonded")]
    assert all(cell.value is None and cell.why for cell in others), "it was LXC, on one link"
    row = next(
        r.label for r in tables["files-fresh"].rows if r.label.startswith("vm, files, jobs 3")
    )
    assert holds(figure(tables["files-fresh"], row, "ratio"), 2.0)


def test_pipelines_from_each_disk_that_is_named(tmp_path: Path) -> None:
    """As there: a qcow2 image on NFS, beside the host's own disk, in one run."""
    run = make(tmp_path, STUDY, DISKS, {("vm-2", "dedup[threads=1]"): 2.0})
    tables = fresh(STUDY, (DISKS, run))
    table = tables["pipelines-fresh"]
    dedup = "dedup, 30 % duplicates, 1 thread, disk"
    assert holds(figure(table, f"vm-2, {dedup}", "ratio"), 2.0)
    assert holds(figure(table, f"vm-1, {dedup}", "ratio"), 1.0)
    rows = [row.label for row in tables["speedups-fresh"].rows]
    assert "vm-2, ferret from disk" in rows and "native-2, dedup from disk" in rows


def test_all_full_runs_together(tmp_path: Path) -> None:
    runs = [(plan, make(tmp_path, STUDY, plan, blocks=2)) for plan in FULL]
    tables = STUDY.fresh({plan.name: path for plan, path in runs})
    assert len({table.key for table in tables}) == len(tables)
    (streams,) = (table for table in tables if table.key.startswith("streams"))
    assert len(streams.rows) == 2 * 4


def test_all_quick_runs_together(tmp_path: Path) -> None:
    runs = [(plan, make(tmp_path, STUDY, plan, blocks=2)) for plan in QUICK]
    tables = STUDY.fresh({plan.name: path for plan, path in runs})
    assert len({table.key for table in tables}) == len(tables)
