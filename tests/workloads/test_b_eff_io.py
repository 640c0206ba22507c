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

from tests.workloads import b_eff_io_table
from tests.workloads.workload_runs import printing
from ullage.workloads.base import Context, InvalidTrialError, Output
from ullage.workloads.mpi import b_eff_io_report as report
from ullage.workloads.mpi.b_eff_io import BEffIo, BEffIoParameters

DATA = Path(__file__).parent / "data/b_eff_io"
WORKLOAD = BEffIo()
Recorded = tuple[BEffIoParameters, dict[str, Output]]


def recorded(name: str, **fields: Any) -> Recorded:
    text = (DATA / name).read_text()
    seconds = json.loads(text)["wall_s"] + 0.5
    output = Output(status=0, signal=None, stdout=text, stderr="", seconds=seconds)
    return BEffIoParameters(**fields), {"main": output}


OPENMPI = recorded("openmpi-4.1.4-local.json", time_s=20)
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
def test_the_figures_are_those_of_releases_2_1_and_1(run: Recorded) -> None:
    WORKLOAD.check(*run)
    figures = WORKLOAD.parse(*run)
    result = json.loads(run[1]["main"].stdout)
    means, scatter = {}, {}
    for method in ("write", "rewrite", "read"):
        rates = [t["bytes"] / t["seconds"] for t in result["types"] if t["method"] == method]
        means[method] = (rates[0] + rates[0] + rates[1] + rates[2] + rates[3] + rates[4]) / 6
        scatter[method] = rates[0]
        assert figures[method] == pytest.approx(means[method], rel=1e-6)
    writing = means["write"] + (scatter["rewrite"] - scatter["write"]) / 6
    single = math.sqrt(writing * means["read"])
    assert figures["b_eff_io"] == pytest.approx(single, rel=1e-6)
    first = (means["write"] + means["rewrite"] + 2 * means["read"]) / 4
    assert figures["b_eff_io_release_1"] == pytest.approx(first, rel=1e-6)
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


def test_the_single_figure_by_hand() -> None:
    """W = (1 + 2 + 3 + 4 + 5 + 9) / 6 = 4, R = (6 + 6 + 8 + 9 + 10 + 15) / 6 = 9, √36 = 6."""
    by_type = {"write": (1, 2, 3, 4, 5), "rewrite": (9, 70, 80, 90, 99), "read": (6, 8, 9, 10, 15)}
    rates = {(m, kind): float(by_type[m][kind]) for m in report.METHODS for kind in range(5)}
    assert report.single_figure(rates) == pytest.approx(6.0, rel=1e-12)
    rates["rewrite", 4] = 1e9
    assert report.single_figure(rates) == pytest.approx(6.0, rel=1e-12), "scatter alone counts"
    rates["rewrite", 0] = 39.0  # W = 9
    assert report.single_figure(rates) == pytest.approx(9.0, rel=1e-12)


def test_the_figure_of_release_1_by_hand() -> None:
    assert report.single_figure_1({"write": 4.0, "rewrite": 8.0, "read": 10.0}) == 8.0


def test_the_metrics_say_which_figure_is_whose() -> None:
    by_name = {metric.name: metric for metric in WORKLOAD.metrics}
    assert [metric.name for metric in WORKLOAD.metrics if metric.primary] == ["b_eff_io"]
    assert "release 2.1: √(W · R)" in by_name["b_eff_io"].description
    assert "release 1 (Euro-Par 2000): 25 % write" in by_name["b_eff_io_release_1"].description
    page = " ".join((BEffIo.__doc__ or "").split())
    assert "The single figure is √(W · R)" in page
    assert "the two are not comparable" in page


@pytest.mark.parametrize("largest", [2 << 20, 300 * 8192])
def test_every_row_of_the_table(largest: int) -> None:
    assert len(b_eff_io_table.TABLE) == 43
    assert report.table(largest) == b_eff_io_table.sized(largest)
    assert sum(units for *_, units in report.table(largest).values()) == 64


@both
def test_every_row_as_the_program_has_it(run: Recorded) -> None:
    result = json.loads(run[1]["main"].stdout)
    rows = b_eff_io_table.sized(result["memory_bytes"] // 128)
    for p in result["patterns"]:
        if p["number"] not in (33, 42):
            row = (p["type"], p["chunk_bytes"], p["call_bytes"], p["units"])
            assert row == rows[p["number"]]


@pytest.mark.parametrize(
    ("memory", "chunk"),
    [
        (1, 2 << 20),
        (256 << 20, 2 << 20),
        (257 << 20, (2 << 20) + 8192),
        ((300 << 20) + 1_048_575, 300 * 8192),
        (2048 << 20, 16 << 20),  # release 2.1 printed 16.000 MBytes
        (128 << 30, 1 << 30),
    ],
)
def test_the_largest_chunk_is_in_steps_of_8_kib(memory: int, chunk: int) -> None:
    assert report.largest_chunk(memory) == chunk


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ((3, 10, 97), 96),  # 3 calls of 32 chunks in type 0
        ((4, 9, 97), 90),  # ten times type 1
        ((4, 10, 95), 95),  # type 2
    ],
)
def test_types_3_and_4_repeat_the_least_of_types_0_to_2(
    calls: tuple[int, int, int], expected: int
) -> None:
    done: dict[tuple[report.AccessMethod, int], report.Pattern] = {}
    for number, n in zip((4, 12, 20, 28, 37), (*calls, expected, expected), strict=True):
        kind, chunk, call, units = b_eff_io_table.sized(2 << 20)[number]
        done["write", number] = report.Pattern(
            method="write", type=kind, number=number, chunk_bytes=chunk, call_bytes=call,
            units=units, calls=n, bytes=n * call, seconds=1.0,
        )  # fmt: skip
    assert [report.repeated(done, "write", number) for number in (28, 37)] == [expected, expected]
    assert report.repeated(done, "write", 20) is None, "by time"
    assert report.repeated(done, "read", 20) == calls[2]
    assert report.repeated(done, "rewrite", 4) == calls[0]


def test_a_short_run_says_that_it_keeps_no_rules() -> None:
    almost = WORKLOAD.facts(BEffIoParameters(time_s=1799), OPENMPI[1])
    assert almost["rules"] == "not kept: scheduled for 1799 s of at least 1800 s"
    long = WORKLOAD.facts(BEffIoParameters(time_s=1800), OPENMPI[1])
    assert long["rules"] == "kept"
    apart = WORKLOAD.facts(BEffIoParameters(time_s=1800, shared_pointers=False), OPENMPI[1])
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
    (field,) = fields
    complaint = refused(OPENMPI[1], BEffIoParameters(**{"time_s": 20, **fields}))
    assert complaint.startswith(
        {"time_s": "seconds"}.get(field, field.replace("_", " ")) + ": asked for"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["patterns"].pop(5), "pattern 5 was not done: write"),
        (lambda r: r["patterns"].__setitem__(0, r["patterns"][1]), "twice"),
        (lambda r: r["patterns"][4].update(chunk_bytes=32_776), "is not that of the table"),
        (lambda r: r["patterns"][8].update(call_bytes=2_097_168), "is not that of the table"),
        (lambda r: r["patterns"][4].update(bytes=1), "calls are not 1 bytes"),
        (lambda r: r["patterns"][4].update(seconds=1e-9), "ended before its time"),
        (lambda r: r["types"].pop(), "not every pattern type"),
        (lambda r: r["types"][3].update(bytes=r["types"][3]["bytes"] + 8), "its patterns are not"),
        (lambda r: r["types"][3].update(seconds=1e-3), "took longer than it did"),
        (lambda r: r.update(effective_s=r["effective_s"] * 2), "do not add up"),
        (lambda r: r.update(read=r["read"] * 1.1), "read: its bytes and seconds are not"),
        (lambda r: r.update(b_eff_io=r["write"]), "b_eff_io: its bytes and seconds are not"),
        (lambda r: r.update(b_eff_io_release_1=r["read"]), "release_1: its bytes and seconds"),
        (lambda r: r.update(segment_bytes=r["segment_bytes"] + (1 << 20)), "are no segment"),
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


@pytest.mark.parametrize(
    ("method", "number"), [("write", 0), ("write", 28), ("rewrite", 20), ("read", 20), ("read", 42)]
)
def test_other_counts_than_those_to_repeat_are_refused(method: str, number: int) -> None:
    def change(result: dict[str, Any]) -> None:
        pattern = next(
            p for p in result["patterns"] if (p["method"], p["number"]) == (method, number)
        )
        pattern["bytes"] += pattern["bytes"] // pattern["calls"]
        pattern["calls"] += 1

    complaint = refused(bent(change))
    assert complaint.startswith(f"pattern {number}, {method}: ")
    assert "calls in place of" in complaint


def test_a_failed_run_says_why() -> None:
    complaint = (
        "error: rank 1 read wrong data: type 2, chunks of 1024 bytes, call 0, byte 8 of the file"
    )
    output = Output(status=3, signal=None, stdout="", stderr=f"{complaint}\n", seconds=1.0)
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
