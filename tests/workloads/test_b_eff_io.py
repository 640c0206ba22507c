"""`b-eff-io`: recorded results of both MPIs, on a local disk and over NFS between two guests."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.workload_runs import printing
from ullage.workloads import b_eff_io_report as report
from ullage.workloads.b_eff_io import BEffIo, BEffIoParameters
from ullage.workloads.base import Context, InvalidTrialError, Output

DATA = Path(__file__).parent / "data/b_eff_io"
WORKLOAD = BEffIo()
Recorded = tuple[BEffIoParameters, dict[str, Output]]


def recorded(name: str, **fields: Any) -> Recorded:
    text = (DATA / name).read_text()
    seconds = json.loads(text)["wall_s"] + 0.5
    output = Output(status=0, signal=None, stdout=text, stderr="", seconds=seconds)
    return BEffIoParameters(**fields), {"main": output}


OPENMPI = recorded("openmpi-4.1.4-local.json")
MPICH = recorded("mpich-4.0.2-nfs.json", mpi="mpich", file_system="nfs", peer="second")
both = pytest.mark.parametrize("run", [OPENMPI, MPICH], ids=["openmpi", "mpich"])


def refused(outputs: dict[str, Output], parameters: BEffIoParameters = OPENMPI[0]) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        WORKLOAD.check(parameters, outputs)
    return str(caught.value)


def bent(change: Callable[[dict[str, Any]], object], run: Recorded = OPENMPI) -> dict[str, Output]:
    result = deepcopy(json.loads(run[1]["main"].stdout))
    change(result)
    return printing(run[1], "main", json.dumps(result))


@both
def test_the_weights_are_the_published_ones(run: Recorded) -> None:
    WORKLOAD.check(*run)
    figures = WORKLOAD.parse(*run)
    result = json.loads(run[1]["main"].stdout)
    means = {}
    for method in ("write", "rewrite", "read"):
        rates = [t["bytes"] / t["seconds"] for t in result["types"] if t["method"] == method]
        means[method] = (rates[0] + rates[0] + rates[1] + rates[2] + rates[3] + rates[4]) / 6
        assert figures[method] == pytest.approx(means[method], rel=1e-6)
    single = (means["write"] + means["rewrite"] + 2 * means["read"]) / 4
    assert figures["b_eff_io"] == pytest.approx(single, rel=1e-6)
    assert set(figures) == {metric.name for metric in WORKLOAD.metrics}


@both
def test_curves_have_a_point_for_each_size_of_a_chunk(run: Recorded) -> None:
    figures = WORKLOAD.parse(*run)
    largest = json.loads(run[1]["main"].stdout)["memory_bytes"] // 128
    sizes = [1024, 1032, 32_768, 32_776, 1 << 20, (1 << 20) + 8, largest]
    for method in report.METHODS:
        curve = figures[f"{method}_by_chunk"]
        assert isinstance(curve, list)
        assert [size for size, _ in curve] == sizes
        assert all(rate > 0 and math.isfinite(rate) for _, rate in curve)
    patterns = json.loads(run[1]["main"].stdout)["patterns"]
    rate = {p["number"]: p["bytes"] / p["seconds"] for p in patterns if p["method"] == "write"}
    by_hand = (2 * rate[5] + rate[13] + rate[21] + rate[29] + rate[38]) / 6
    assert dict(figures["write_by_chunk"])[1024.0] == pytest.approx(by_hand)  # type: ignore[arg-type]


def test_the_table_has_43_patterns_and_64_units() -> None:
    rows = report.table(2 << 20)
    assert len(rows) + 2 == 43
    assert sum(units for *_, units in rows.values()) == 64
    assert report.largest_chunk(2048 << 20) == 16 << 20  # release 2.1 printed 16.000 MBytes
    assert report.largest_chunk(100 << 20) == 2 << 20


def test_a_short_run_says_that_it_keeps_no_rules() -> None:
    assert WORKLOAD.facts(*OPENMPI)["rules"] == "not kept: scheduled for 1 s of at least 900 s"
    long = WORKLOAD.facts(BEffIoParameters(time_s=900), OPENMPI[1])
    assert long["rules"] == "kept"
    apart = WORKLOAD.facts(BEffIoParameters(time_s=900, shared_pointers=False), OPENMPI[1])
    assert apart["rules"] == "not kept: no shared file pointers"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"peer": "second"}, "their local disks differ; say file_system: nfs"),
        ({"file_system": "nfs"}, "say which other one, with peer"),
        ({"peer": "host", "file_system": "nfs"}, "peer"),
        ({"ranks": 1}, "ranks"),
        ({"ranks": 5}, "ranks"),
        ({"time_s": 0}, "time_s"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        BEffIoParameters(**fields)
    assert message in str(caught.value)


def test_nfs_is_served_to_the_ranks_instances_alone() -> None:
    parameters = BEffIoParameters(file_system="nfs", peer="each", ranks=3)
    addresses = {"main": "10.0.0.2", "server": "10.0.0.2", "peer-0": "10.0.0.2"}
    addresses |= {"peer-1": "10.0.0.3"}
    context = Context(
        addresses=addresses,
        cpus=1,
        memory_bytes=1 << 30,
        seed=7,
        workspace="/data/x",
        workspaces=dict.fromkeys(addresses, "/data/x"),
    )
    assert [role.name for role in WORKLOAD.roles(parameters)] == ["main", "peer", "server"]
    share, *mounts = WORKLOAD.prepare(parameters, context)
    assert share.argv[1:4] == ("export", "/data/x/served", "10.0.0.2")
    assert set(share.argv[4:]) == {"10.0.0.2", "10.0.0.3"}
    assert {task.role for task in mounts} == {"main", "peer-1"}
    assert {task.argv for task in mounts} == {
        ("./nfs.sh", "mount", "10.0.0.2", "/data/x/served", "mounted")
    }
    main, server = WORKLOAD.tasks(parameters, context)
    assert server.service
    assert main.env["OMPI_MCA_io"] == "romio321"
    assert main.argv[main.argv.index("--memory") + 1] == str(1 << 29)  # two of the three on one
    assert main.argv[main.argv.index("--directory") + 1] == "mounted"
    *unmounts, withdraw = WORKLOAD.cleanup(parameters, context)
    assert {task.role for task in unmounts} == {"main", "peer-1"}
    assert withdraw.argv[1:3] == ("withdraw", "/data/x/served")


@pytest.mark.parametrize(
    "fields", [{"ranks": 3}, {"time_s": 2}, {"memory": 1 << 30}, {"shared_pointers": False}]
)
def test_another_run_is_not_what_was_asked(fields: dict[str, Any]) -> None:
    assert "asked for" in refused(OPENMPI[1], BEffIoParameters(**fields))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["patterns"].pop(5), "pattern 5 was not done: write"),
        (lambda r: r["patterns"].__setitem__(0, r["patterns"][1]), "twice"),
        (lambda r: r["patterns"][4].update(chunk_bytes=32_776), "not as published"),
        (lambda r: r["patterns"][4].update(bytes=1), "calls are not 1 bytes"),
        (lambda r: r["patterns"][4].update(seconds=1e-9), "ended before its time"),
        (lambda r: r["types"].pop(), "not every pattern type"),
        (lambda r: r["types"][3].update(bytes=r["types"][3]["bytes"] + 8), "its patterns are not"),
        (lambda r: r["types"][3].update(seconds=1e-3), "took longer than it did"),
        (lambda r: r.update(effective_s=r["effective_s"] * 2), "do not add up"),
        (lambda r: r.update(read=r["read"] * 1.1), "read: its bytes and seconds are not"),
        (lambda r: r.update(b_eff_io=r["write"]), "b_eff_io: its bytes and seconds are not"),
        (lambda r: r.update(write=None), "write"),
        (lambda r: r.update(largest_chunk_bytes=2 << 20), "largest chunk"),
        (lambda r: r.update(wall_s=r["wall_s"] + 60), "was there for"),
        (lambda r: r.update(wall_s=r["effective_s"] / 2), "measured longer than it ran"),
    ],
)
def test_figures_that_cannot_be_are_refused(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    assert message in refused(bent(change))


def test_reading_more_than_was_written_is_refused() -> None:
    def change(result: dict[str, Any]) -> None:
        read = next(p for p in result["patterns"] if p["method"] == "read" and p["number"] == 20)
        read["bytes"] = read["bytes"] // read["calls"] * (read["calls"] + 10**6)
        read["calls"] += 10**6

    assert "went further than was written" in refused(bent(change))


def test_a_failed_run_says_why() -> None:
    said = "error: rank 1 read wrong data: type 2, chunks of 1024 bytes, call 0, byte 8 of the file"
    output = Output(status=3, signal=None, stdout="", stderr=f"{said}\n", seconds=1.0)
    assert "rank 1 read wrong data" in refused({"main": output})
    assert "no output" in refused({})


@settings(max_examples=60)
@given(data=st.data())
def test_whatever_is_printed_there_is_a_true_figure_or_none(data: st.DataObject) -> None:
    parameters, outputs = data.draw(st.sampled_from([OPENMPI, MPICH]))
    text = outputs["main"].stdout
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 40))
    piece = data.draw(st.text(max_size=20) | st.from_regex(r"[-0-9.eE+,:{}\[\]]{0,9}"))
    changed = printing(outputs, "main", text[:start] + piece + text[start + length :])
    try:
        WORKLOAD.check(parameters, changed)
    except InvalidTrialError:
        return
    WORKLOAD.facts(parameters, changed)
    for figure in WORKLOAD.parse(parameters, changed).values():
        for value in [rate for _, rate in figure] if isinstance(figure, list) else [figure]:
            assert value > 0
            assert math.isfinite(value)


@settings(max_examples=60)
@given(
    where=st.sampled_from(["patterns", "types"]),
    index=st.integers(0, 14),
    value=st.none() | st.integers(-1, 1 << 70) | st.floats() | st.text(max_size=5) | st.just([]),
    data=st.data(),
)
def test_whatever_a_field_holds(where: str, index: int, value: Any, data: st.DataObject) -> None:
    def change(result: dict[str, Any]) -> None:
        inner = data.draw(st.sampled_from([result, result[where][index]]))
        inner[data.draw(st.sampled_from(sorted(inner)))] = value

    changed = bent(change)
    try:
        WORKLOAD.check(OPENMPI[0], changed)
    except InvalidTrialError:
        return
    assert all(WORKLOAD.parse(OPENMPI[0], changed).values())
