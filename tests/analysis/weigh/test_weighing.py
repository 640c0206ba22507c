"""Machines, nodes and systems, weighed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from ullage.analysis import overhead
from ullage.analysis.weigh.weighing import Weighing, weigh
from ullage.analysis.weigh.weights import WeighRequest
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs.reader import RunFolder

S2 = {"cpu": 0.1, "memory": 0.2, "disk": 0.6, "network": 0.1}
Make = Callable[..., Weighing]


def _weigh(path: Path, **options: Any) -> Weighing:
    folder = RunFolder.open(path)
    return weigh(folder, overhead.analyse(folder), WeighRequest(**{"weights": S2, **options}))


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose ratios are the true ones, nearly without noise."""
    path = tmp_path_factory.mktemp("exact") / "run"
    return make_run(path, raw=False, failures=[], noise_sd=1e-4)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("noisy") / "run", raw=False)


def _rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change every event of the journal."""
    journal = path / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in events:
        change(event)
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def _resolved(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    file = path / "resolved.json"
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))
    return path


def test_a_machine_is_the_weighted_sum_of_its_ratios(exact: Path) -> None:
    weighing = _weigh(exact)
    assert [m.environment for m in weighing.machines] == ["container", "lxc", "vm"]
    vm = weighing.machines[-1]
    assert vm.emulated
    assert vm.label == "qemu-tcg (emulated)"
    assert vm.total.overhead == pytest.approx(0.1 * 6.9 + 0.2 * 2.4 + 0.6 * 3.1 + 0.1 * 8.2, 1e-3)
    assert vm.total.overhead == pytest.approx(sum(part.contribution for part in vm.parts))
    assert vm.total.interval is not None
    assert vm.total.interval.low <= vm.total.overhead <= vm.total.interval.high
    assert (vm.total.blocks, vm.total.dropped) == (12, 0)
    assert (weighing.nodes, weighing.system) == ((), None)


def test_with_one_resource_it_is_the_ratio_of_show(noisy: Path) -> None:
    folder = RunFolder.open(noisy)
    analysis = overhead.analyse(folder)
    weighing = weigh(folder, analysis, WeighRequest({"cpu": 1.0}))
    for machine in weighing.machines:
        (comparison,) = [
            r
            for r in analysis.resources
            if (r.environment, r.resource) == (machine.environment, "cpu")
        ]
        assert comparison.interval is not None
        assert machine.total.interval is not None
        for name in ("estimate", "low", "high"):
            expected = getattr(comparison.interval, name)
            assert getattr(machine.total.interval, name) == pytest.approx(expected)


def test_several_workloads_of_a_resource_count_by_their_geometric_mean(tmp_path: Path) -> None:
    second = WORKLOADS[0].model_copy(update={"key": "again-cpu"})
    works = (*WORKLOADS, second)
    truth = {("vm", WORKLOADS[0].key): 2.0, ("vm", "again-cpu"): 8.0}
    path = make_run(
        tmp_path / "run", raw=False, failures=[], noise_sd=1e-4, workloads=works, truth=truth
    )
    (vm,) = _weigh(path, weights={"cpu": 1.0}, environments=("vm",)).machines
    assert vm.total.overhead == pytest.approx(4, 1e-3)
    assert [name for name, _ in vm.parts[0].members] == [WORKLOADS[0].key, "again-cpu"]


def test_blocks_in_which_a_part_failed_are_left_out_and_counted(noisy: Path) -> None:
    """The disk trial of the VM fails in one block: no part may use that block."""
    vm = _weigh(noisy).machines[-1]
    assert (vm.total.blocks, vm.total.dropped) == (11, 1)
    assert {part.total.blocks for part in vm.parts} == {11}


def test_one_block_has_no_interval(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", raw=False, failures=[], blocks=1)
    assert {m.total.interval for m in _weigh(path).machines} == {None}


def test_makings_are_what_counts_where_there_are_several(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", raw=False, failures=[], blocks=12, blocks_each=2)
    total = _weigh(path).machines[0].total
    assert (total.generations, total.precision, total.blocks) == (6, "intermediate", 12)
    assert total.interval is not None
    assert total.interval.n == 6


def test_a_resource_without_a_figure_is_refused_and_named(exact: Path) -> None:
    with pytest.raises(UllageError) as caught:
        _weigh(exact, weights={"cpu": 0.5, "other": 0.5})
    assert caught.value.kind is errors.WEIGH_NO_FIGURE
    assert "weighed for other" in caught.value.message
    assert "cpu, memory, disk, network" in caught.value.message
    assert _weigh(exact, weights={"cpu": 1.0, "other": 0.0}).machines


def test_too_many_failures_are_refused_as_everywhere(tmp_path: Path) -> None:
    failures = [(b, "vm", WORKLOADS[2].key) for b in range(2)]
    path = make_run(tmp_path / "run", raw=False, failures=failures)
    with pytest.raises(UllageError) as caught:
        _weigh(path)
    assert caught.value.kind is errors.WEIGH_NO_FIGURE
    assert "too many failures: 2 of 12" in caught.value.message
    assert [m.environment for m in _weigh(path, environments=("lxc",)).machines] == ["lxc"]
    assert _weigh(path, weights={"cpu": 1.0}).machines


def test_resources_without_a_common_block_are_refused(tmp_path: Path) -> None:
    """A run cut short in its first block has one resource and no other yet."""
    path = make_run(tmp_path / "run", raw=False, failures=[], blocks=1)
    lines = (path / "journal.jsonl").read_text().splitlines(keepends=True)
    first = next(json.loads(x)["workload"] for x in lines if json.loads(x)["event"] == "trial")
    remaining = [x for x in lines if json.loads(x).get("workload", first) == first]
    (path / "journal.jsonl").write_text("".join(remaining))
    with pytest.raises(UllageError) as caught:
        _weigh(path)
    assert caught.value.kind is errors.WEIGH_NO_FIGURE
    assert "no pair" in caught.value.message


@pytest.mark.parametrize(
    "options",
    [
        {"environments": ("vn",)},
        {"environments": ("native",)},
        {"environments": ("native~again",)},
        {"own": {"vn": {"cpu": 1.0}}},
        {"nodes": {"a": {"vn": 1}}},
        {"shares": {("vn", "disk"): 0.5}},
    ],
)
def test_an_environment_that_is_not_there_is_refused(exact: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UllageError) as caught:
        _weigh(exact, **options)
    assert caught.value.kind is errors.WEIGH_NO_ENVIRONMENT


def test_a_node_adds_what_its_instances_have_of_it(exact: Path) -> None:
    """Two CPUs, of which each instance has one; 1 GiB of 25.2 GB; equal parts of all else."""
    weighing = _weigh(exact, nodes={"a": {"vm": 1, "container": 1}})
    (node,) = weighing.nodes
    memory = (1 << 30) / 25_200_000_000
    vm = 0.1 * 6.9 / 2 + 0.2 * 2.4 * memory + 0.6 * 3.1 / 2 + 0.1 * 8.2 / 2
    container = 0.1 / 2 + 0.2 * memory + 0.6 / 2 + 0.1 * 1.12 / 2
    counts = 2 * (0.1 / 2 + 0.2 * memory + 0.6 / 2 + 0.1 / 2)
    assert node.kind == "composed"
    assert node.total.overhead == pytest.approx(vm + container, 1e-3)
    assert node.mean.overhead == pytest.approx((vm + container) / counts, 1e-3)
    assert sum(node.by_resource.values()) == pytest.approx(node.total.overhead)
    assert node.shares["cpu"] == pytest.approx(1)
    assert {p.resource: p.share_from for p in node.parts} == {
        "cpu": "limit",
        "memory": "limit",
        "disk": "equal part",
        "network": "equal part",
    }
    for total in (node.total, node.mean):
        assert total.interval is not None
        assert total.interval.low <= total.overhead <= total.interval.high


def test_copies_count_as_often_as_they_are_there(exact: Path) -> None:
    half = {(None, r): 0.25 for r in S2}
    single, four = (
        _weigh(exact, nodes={"a": {"vm": copies}}, shares=half).nodes[0] for copies in (1, 4)
    )
    assert four.total.overhead == pytest.approx(4 * single.total.overhead)
    assert four.mean.overhead == pytest.approx(single.mean.overhead)
    assert four.mean.overhead == pytest.approx(_weigh(exact).machines[-1].total.overhead)
    assert {p.share_from for p in four.parts} == {"given"}
    assert four.shares["cpu"] == pytest.approx(1)
    own = _weigh(exact, nodes={"a": {"vm": 1}}, shares={**half, ("vm", "cpu"): 1.0}).nodes[0]
    assert own.parts[0].share == 1.0


def test_a_system_is_the_sum_of_its_nodes(exact: Path) -> None:
    weighing = _weigh(exact, nodes={"a": {"vm": 2}, "b": {"container": 1, "lxc": 1}})
    assert weighing.system is not None
    assert weighing.system.total.overhead == pytest.approx(
        sum(n.total.overhead for n in weighing.nodes)
    )
    counts = [sum(p.coefficient for p in node.parts) for node in weighing.nodes]
    mean = sum(n.mean.overhead * c for n, c in zip(weighing.nodes, counts, strict=True)) / sum(
        counts
    )
    assert weighing.system.mean.overhead == pytest.approx(mean)


def test_what_several_nodes_share_is_not_averaged_away(noisy: Path) -> None:
    """Two nodes of the same environment are one figure counted twice, and no surer for it."""
    weighing = _weigh(noisy, nodes={"a": {"vm": 1}, "b": {"vm": 1}})
    assert weighing.system is not None
    single, both = weighing.nodes[0].mean.interval, weighing.system.mean.interval
    assert single is not None
    assert both is not None
    assert both.high / both.low == pytest.approx(single.high / single.low)


def _with_instances(path: Path, slow: float) -> Path:
    """Two instances in every environment, of which the VM's second one is slower."""

    def two(data: dict[str, Any]) -> None:
        for environment in data["environments"]:
            environment["nuisances"]["instances"] = "2"

    def figures(event: dict[str, Any]) -> None:
        if event["event"] == "trial" and event["status"] == "ok":
            slowness = slow if event["environment"] == "vm" else 1.0
            own = event["metrics"]
            event["instances"] = {
                f"{event['environment']}-0": own,
                f"{event['environment']}-1": {
                    name: value / slowness for name, value in own.items()
                },
            }

    return _rewrite(_resolved(path, two), figures)


def test_instances_that_ran_together_make_a_measured_node(tmp_path: Path) -> None:
    """Each has ratios of its own: S2.3 as it is written."""
    path = make_run(tmp_path / "run", raw=False, failures=[], noise_sd=1e-4)
    weighing = _weigh(_with_instances(path, 2.0), environments=("vm",), weights={"cpu": 1.0})
    (node,) = weighing.nodes
    assert (node.name, node.kind) == ("vm", "measured")
    assert [part.instance for part in node.parts] == ["vm-0", "vm-1"]
    ratios = [part.total.overhead for part in node.parts]
    assert ratios == pytest.approx([6.9, 13.8], 1e-3)
    assert node.total.overhead == pytest.approx((6.9 + 13.8) / 2, 1e-3)
    assert node.mean.overhead == pytest.approx((6.9 + 13.8) / 2, 1e-3)


def test_a_trial_over_all_instances_counts_for_each(tmp_path: Path) -> None:
    """An MPI job has one figure for all of its instances."""
    path = make_run(tmp_path / "run", raw=False, failures=[], noise_sd=1e-4)

    def four(data: dict[str, Any]) -> None:
        for environment in data["environments"]:
            environment["nuisances"]["instances"] = "4"

    weighing = _weigh(_resolved(path, four), environments=("vm",), weights={"cpu": 1.0})
    (part,) = weighing.nodes[0].parts
    assert (part.instance, part.copies, part.share) == (None, 4, 0.5)
    assert weighing.nodes[0].shares == {"cpu": pytest.approx(2)}


@pytest.mark.parametrize(
    ("nuisances", "host", "shares"),
    [
        ({"cpus": "1, quota 0.5", "memory": "2GiB"}, {}, {"cpu": 0.25, "memory": 0.0852}),
        ({"cpus": "2"}, {"cpus": [0, 1, 2, 3]}, {"cpu": 0.5, "memory": 0.0426}),
        ({"memory": "1024GiB"}, {}, {"cpu": 0.5, "memory": 0.2}),
        ({"memory": "odd"}, {}, {"cpu": 0.5, "memory": 0.2}),
        ({"cpus": "odd"}, {"memory_bytes": None}, {"cpu": 0.2, "memory": 0.2}),
    ],
)
def test_shares_follow_the_limits(
    tmp_path: Path, nuisances: dict[str, str], host: dict[str, Any], shares: dict[str, float]
) -> None:
    """What has no limit, or more than there is, has an equal part: here of five."""
    path = make_run(tmp_path / "run", raw=False, failures=[], blocks=2)

    def change(data: dict[str, Any]) -> None:
        data["host"].update(host)
        for environment in data["environments"]:
            environment["nuisances"].update(nuisances)

    weighing = _weigh(_resolved(path, change), nodes={"a": {"vm": 5}})
    of_node = {p.resource: p.share for p in weighing.nodes[0].parts if p.resource in shares}
    assert of_node == pytest.approx(shares, rel=2e-3)


def test_json_has_no_infinities(noisy: Path) -> None:
    weighing = _weigh(noisy, nodes={"a": {"vm": 2}, "b": {"lxc": 1}})
    text = json.dumps(weighing.model_dump(mode="json"), allow_nan=False)
    assert Weighing.model_validate_json(text) == weighing
    assert math.isfinite(weighing.machines[0].total.overhead)
    assert len(ENVIRONMENTS) - 2 == len(weighing.machines)
