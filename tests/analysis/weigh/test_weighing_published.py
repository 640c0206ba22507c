"""The published raw figures of the CMU study, through our own method: S2.1 to S2.3.

Their derived tables rest on these. The expected digits below were reckoned apart from the code
(awk over the CSV files): of times VM / physical, of rates physical / VM.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ullage.analysis import overhead
from ullage.analysis.weigh.weighing import Weighing, weigh
from ullage.analysis.weigh.weights import WeighRequest
from ullage.runs.events import BlockDone, Started, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, Metric, Resolved, Resource, WorkloadRecord

PUBLISHED = Path(__file__).parents[1] / "published"
GUESTS = ("win81_x64", "win81_x86", "debian7_x64", "debian7_x86")
MIB = 1024.0**2


def _rows(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / f"cmu2015_{name}.csv").open() as file:
        return list(csv.DictReader(file))


def _workload(key: str, resource: Resource, metric: str, unit: str) -> WorkloadRecord:
    better = "lower" if unit == "s" else "higher"
    return WorkloadRecord(
        key=key,
        workload=key.partition("[")[0],
        resource=resource,
        title=key,
        parameters={},
        metrics=(Metric(name=metric, unit=unit, better=better, description=key, primary=True),),
        duration_s=1.0,
    )


Figures = Mapping[str, tuple[WorkloadRecord, Mapping[str, float]]]
"""Workload → its record, and machine → value; the baseline is `physical`."""


def _figures(threads: str) -> Figures:
    """Everything that was measured with so many threads; the network locally, with its link."""
    by_workload: dict[str, tuple[WorkloadRecord, dict[str, float]]] = {}

    def add(key: str, resource: Resource, unit: str, machine: str, value: float) -> None:
        record = _workload(key, resource, "time" if unit == "s" else "rate", unit)
        by_workload.setdefault(key, (record, {}))[1][machine] = value

    for row in _rows("cpu"):
        if row["threads"] == threads:
            add("cpu", "cpu", "s", row["machine"], float(row["total_time_s"]))
    for row in _rows("memory"):
        if row["threads"] == threads:
            key = f"memory[block={row['block_KiB']}]"
            add(key, "memory", "B/s", row["machine"], float(row["rate_MiBps"]) * MIB)
    for row in _rows("disk"):
        machine = {"physical_local": "physical"}.get(row["machine"], row["machine"])
        if row["threads"] == threads and machine != "physical_smb":
            add("disk", "disk", "B/s", machine, float(row["rate_MiBps"]) * MIB)
    for row in _rows("network"):
        if row["placement"] == "local":
            machine = {"link": "physical"}.get(row["machine"], row["machine"])
            add("network", "network", "bit/s", machine, float(row["rate_Mbps"]) * 1e6)
    return by_workload


def _environment(key: str, instances: int) -> EnvironmentRecord:
    nuisances = {"cpus": "1", "instances": str(instances)}
    return EnvironmentRecord(key=key, label=key, provider="published", nuisances=nuisances)


def _weighed(path: Path, figures: Figures, weights: Mapping[Resource, float]) -> Weighing:
    """Their single measurements, as a run of one block."""
    path.mkdir()
    machines = ("physical", *GUESTS)
    resolved = Resolved(
        ullage="0",
        run="cmu2015",
        tag="ull-0",
        name="cmu2015",
        seed=1,
        baseline="physical",
        confidence=0.95,
        margin=0.02,
        resources={},
        blocks={"min": 1, "max": 1},
        environments=tuple(_environment(machine, 1) for machine in machines),
        workloads=tuple(record for record, _ in figures.values()),
        host={"cpus": 4, "memory_bytes": 8 << 30},
    )
    (path / "resolved.json").write_text(resolved.model_dump_json())
    events: list[Any] = [
        Started(epoch_ns=1, start_ns=1, pid=1, tag="ull-0", resumed=False, boot_id="0")
    ]
    for record, values in figures.values():
        for machine in machines:
            order = len(events) - 1
            events.append(
                Trial(
                    trial=f"b000-t{order:03d}",
                    block=0,
                    order=order,
                    position=machines.index(machine),
                    environment=machine,
                    workload=record.key,
                    status="ok",
                    epoch_ns=1 + order,
                    start_ns=1,
                    end_ns=2,
                    metrics={record.metrics[0].name: values[machine]},
                )
            )
    events.append(BlockDone(block=0, epoch_ns=len(events), seconds=1.0))
    (path / "journal.jsonl").write_text("".join(f"{e.model_dump_json()}\n" for e in events))
    folder = RunFolder.open(path)
    return weigh(
        folder, overhead.analyse(folder), WeighRequest(weights, nodes={"node": {GUESTS[0]: 4}})
    )


def _by_machine(weighing: Weighing) -> dict[str, float]:
    return {machine.environment: machine.total.overhead for machine in weighing.machines}


CPU: dict[str, Sequence[float]] = {
    "1": (0.7086, 0.9172, 0.6784, 1.2216),
    "2": (1.0066, 1.0055, 0.7841, 1.3449),
    "4": (1.2058, 0.9839, 0.9129, 1.6383),
    "8": (1.1049, 0.9952, 0.8153, 1.3801),
    "16": (1.3727, 1.3708, 0.9224, 1.5629),
    "32": (1.0089, 1.0093, 0.6978, 1.1925),
}
DISK: dict[str, Sequence[float]] = {
    "1": (0.0771, 0.1002, 0.9071, 1.1012),
    "2": (0.0527, 0.0888, 0.8018, 0.2619),
    "4": (0.0988, 0.0457, 0.7494, 0.3774),
    "8": (0.0465, 0.0591, 1.1513, 0.5634),
    "16": (0.0745, 0.0513, 0.9333, 0.5077),
    "32": (0.1807, 0.0884, 0.9430, 0.6247),
}
NETWORK: Sequence[float] = (0.9390, 0.8798, 0.4191, 0.5580)


@pytest.mark.parametrize("threads", CPU)
def test_their_cpu_overhead_is_time_over_time(tmp_path: Path, threads: str) -> None:
    figures = {k: v for k, v in _figures(threads).items() if v[0].resource == "cpu"}
    overheads = _by_machine(_weighed(tmp_path / "run", figures, {"cpu": 1.0}))
    assert [round(overheads[guest], 4) for guest in GUESTS] == list(CPU[threads])


@pytest.mark.parametrize("threads", DISK)
def test_their_disk_overhead_is_rate_over_rate_to_one_in_ten_thousand(
    tmp_path: Path, threads: str
) -> None:
    figures = {k: v for k, v in _figures(threads).items() if v[0].resource == "disk"}
    overheads = _by_machine(_weighed(tmp_path / "run", figures, {"disk": 1.0}))
    assert [round(overheads[guest], 4) for guest in GUESTS] == list(DISK[threads])


def test_their_network_overhead_is_against_the_nominal_link(tmp_path: Path) -> None:
    figures = {k: v for k, v in _figures("1").items() if v[0].resource == "network"}
    overheads = _by_machine(_weighed(tmp_path / "run", figures, {"network": 1.0}))
    assert [round(overheads[guest], 4) for guest in GUESTS] == list(NETWORK)


def test_their_memory_counts_by_the_geometric_mean_of_its_block_sizes(tmp_path: Path) -> None:
    """An "overhead" of 0.16 in Debian: what was compared there was operating systems."""
    figures = {k: v for k, v in _figures("1").items() if v[0].resource == "memory"}
    overheads = _by_machine(_weighed(tmp_path / "run", figures, {"memory": 1.0}))
    assert [round(overheads[guest], 4) for guest in GUESTS] == [1.5231, 1.6813, 0.1638, 0.1686]


def test_a_machine_that_is_for_everything(tmp_path: Path) -> None:
    """S2.2 with 10 % CPU, 20 % memory, 60 % disk and 10 % network; S2.3 with four of them."""
    weights: dict[Resource, float] = {"cpu": 0.1, "memory": 0.2, "disk": 0.6, "network": 0.1}
    weighed = _weighed(tmp_path / "run", _figures("1"), weights)
    overheads = _by_machine(weighed)
    assert [round(overheads[guest], 4) for guest in GUESTS] == [0.5156, 0.5761, 0.6868, 0.8724]
    (node,) = weighed.nodes
    assert {machine.total.interval for machine in weighed.machines} == {None}
    assert node.mean.overhead == pytest.approx(overheads[GUESTS[0]])
    assert node.total.overhead == pytest.approx(overheads[GUESTS[0]])
