"""The work is exactly the nominal amount times the factor, and is proven by what the tools say."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.statistics.injection.workloads import (
    LOADS,
    MARK,
    PERCENTS,
    PIECE,
    STEP,
    Mark,
    ScaledCpu,
    ScaledDisk,
    ScaledNetwork,
    ScaledParameters,
    scaled,
)
from ullage.workloads.base import Context, InvalidTrialError, Output

FLAGS = {
    "cpu": ("--events=", 1),
    "memory": ("--memory-total-size=", 1 << 20),
    "disk": ("--events=", 1),
}


def context(data: Path, percent: int, prepares: bool = False) -> Context:
    data.mkdir(exist_ok=True)
    mark = Mark(percent=percent, prepares=prepares)
    (data / MARK).write_text(mark.model_dump_json())
    addresses = {"client": "10.0.0.2", "server": "10.0.0.3"}
    return Context(addresses, 1, 1 << 28, 5, str(data), str(data / "w"))


@given(st.integers(1, 10**9), st.sampled_from(PERCENTS))
def test_every_factor_of_a_step_is_whole_and_exact(steps: int, percent: int) -> None:
    assert scaled(steps * STEP, percent) * 100 == steps * STEP * percent


def test_a_part_of_a_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="105 % of 1010 is no whole number"):
        scaled(1010, 105)


@pytest.mark.parametrize("percent", PERCENTS)
@pytest.mark.parametrize("workload", LOADS, ids=lambda load: load.name)
def test_the_command_asks_for_exactly_the_work(
    workload: object, percent: int, tmp_path: Path
) -> None:
    load = next(load for load in LOADS if load is workload)
    tasks = load.tasks(ScaledParameters(work=2000), context(tmp_path, percent))
    amount = 20 * percent
    if isinstance(load, ScaledNetwork):
        (client,) = [task.argv for task in tasks if task.role == "client"]
        assert client[client.index("-n") + 1] == str(amount * PIECE)
        assert "-t" not in client
        assert "-R" in client
    else:
        flag, unit = FLAGS[load.name]
        assert f"{flag}{amount * unit}" in tasks[0].argv


def test_all_instances_read_the_files_that_one_of_them_writes(tmp_path: Path) -> None:
    disk, work = ScaledDisk(), ScaledParameters(work=2000)
    writer, reader = context(tmp_path / "a", 100, prepares=True), context(tmp_path / "b", 125)
    places = {disk.tasks(work, place)[0].cwd for place in (writer, reader)}
    assert places == {str(tmp_path / "shared")}
    assert disk.prepare(work, reader) == ()
    written = disk.prepare(work, writer)
    assert [task.argv[-1] for task in written] == ["cleanup", "prepare"]
    assert {task.argv[:3] for task in written} == {("env", "-C", str(tmp_path / "shared"))}


def iperf(requested: int, received: int, seconds: float = 2.0) -> dict[str, Output]:
    report = {
        "start": {"test_start": {"bytes": requested}},
        "end": {"sum_received": {"bytes": received, "seconds": seconds}},
    }
    return {"client": Output(0, None, json.dumps(report), "", seconds)}


def test_bytes_beyond_those_asked_for_count_in_time_and_amount() -> None:
    network, work = ScaledNetwork(), ScaledParameters(work=100)
    requested = 105 * PIECE
    outputs = iperf(requested, requested * 102 // 100)
    network.check(work, outputs)
    figures = network.parse(work, outputs)
    assert figures["work"] == 105
    assert figures["seconds"] == pytest.approx(2.0 / 1.02, rel=1e-6)


@pytest.mark.parametrize(
    ("requested", "received", "reason"),
    [
        (106, 106, "bytes were asked for"),
        (105, 104, "bytes came in place of"),
        (105, 120, "bytes came in place of"),
    ],
)
def test_other_work_is_no_trial(requested: int, received: int, reason: str) -> None:
    outputs = iperf(requested * PIECE, received * PIECE)
    with pytest.raises(InvalidTrialError, match=reason):
        ScaledNetwork().done(105, outputs)


def test_what_is_no_result_is_no_trial() -> None:
    with pytest.raises(InvalidTrialError, match="no result"):
        ScaledNetwork().done(100, {"client": Output(0, None, "{}", "", 1.0)})
    with pytest.raises(InvalidTrialError):
        ScaledCpu().check(ScaledParameters(work=100), {"main": Output(0, None, "hello", "", 1.0)})
