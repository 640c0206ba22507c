"""`netpipe` over this host's loopback, and what NPtcp, NPopenmpi and NPmpich2 once printed."""

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.workload_runs import context_in, free_port, printing, start
from ullage.runs.records import Curve
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.mpi.netpipe_mpi import NetpipeMpi, NetpipeMpiParameters
from ullage.workloads.network import netpipe_report
from ullage.workloads.network.netpipe import Netpipe, NetpipeTcpParameters
from ullage.workloads.network.netpipe_report import MEGABIT, NetpipeParameters

NETPIPE, NETPIPE_MPI = Netpipe(), NetpipeMpi()
DATA = Path(__file__).parent / "data" / "netpipe"
RECORDED: dict[str, dict[str, Any]] = {
    "tcp": {},
    "tcp-10MB": {"largest": "10MB", "perturbation": 0},
    "openmpi": {},
    "mpich": {},
    "debian13-de": {"largest": "1KiB", "repeats": 3},  # in a German locale
}


def recorded(name: str) -> tuple[NetpipeParameters, str]:
    return NetpipeParameters(**RECORDED[name]), (DATA / f"{name}.txt").read_text()


def refused(parameters: NetpipeParameters, text: str) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        netpipe_report.read(parameters, text)
    return str(caught.value)


def curve(points: object) -> Curve:
    assert isinstance(points, list)
    return points


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_give_their_figures(name: str) -> None:
    parameters, text = recorded(name)
    figures = netpipe_report.figures(parameters, text)
    assert set(figures) == {metric.name for metric in netpipe_report.METRICS}
    throughput, latency = curve(figures["throughput"]), curve(figures["latency"])
    rows = [line.split() for line in text.split("\n") if re.match(r" *[0-9]+ +[0-9.]+ +0", line)]
    assert [size for size, _ in throughput] == [float(row[0]) for row in rows]
    for (size, bits), row in zip(throughput, rows, strict=True):
        assert bits == float(row[1]) * MEGABIT
        assert size * 8 / bits == pytest.approx(float(row[2]), abs=2e-8, rel=1e-5)
    assert max(size for size, _ in latency) <= netpipe_report.LATENCY_UP_TO
    assert figures["smallest_latency"] == latency[0][1]
    assert figures["peak_throughput"] in [bits for _, bits in throughput]


def test_the_sizes_of_the_published_range() -> None:
    """Two to a doubling, and with neighbours from 16 bytes on."""
    plain = netpipe_report.sizes(NetpipeParameters(largest="10MB", perturbation=0))
    assert plain[:12] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    assert plain[-1] == 8 << 20
    assert netpipe_report.sizes(NetpipeParameters(largest=32))[7:] == [
        *(13, 16, 19),
        *(21, 24, 27),
        *(29, 32, 35),
    ]


@pytest.mark.parametrize(
    ("smallest", "sizes"),
    [
        (2, [2, 3, 4, 6, 8, 12, 16, 24, 32]),
        (3, [3, 4, 5, 7, 9, 13, 17, 25, 33]),
        (64, [64, 96, 128, 192, 256, 384, 512, 768, 1024]),
        (100, [100, 150, 200, 300, 400, 600, 800, 1200, 1600]),
    ],
)
def test_a_run_that_begins_later_doubles_its_step_one_size_earlier(
    smallest: int, sizes: list[int]
) -> None:
    """What NPtcp of netpipe-tcp 3.7.2-8 printed with `-l SMALLEST -p 0`."""
    parameters = NetpipeParameters(smallest=smallest, largest=sizes[-1], perturbation=0)
    assert netpipe_report.sizes(parameters) == sizes


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize(
    "change",
    [{"smallest": 2}, {"largest": "2MiB"}, {"largest": 64}, {"perturbation": 1}],
)
def test_other_sizes_are_not_what_was_asked(name: str, change: dict[str, Any]) -> None:
    parameters, text = recorded(name)
    assert refused(NetpipeParameters(**{**parameters.model_dump(), **change}), text)


@pytest.mark.parametrize("name", RECORDED)
def test_every_row_is_needed_once(name: str) -> None:
    parameters, text = recorded(name)
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if re.match(r" *[0-9]+ +[0-9.]+ +0", line):
            assert refused(parameters, "\n".join(lines[:i] + lines[i + 1 :]))
            assert refused(parameters, "\n".join([*lines[:i], line, *lines[i:]]))


@pytest.mark.parametrize(
    "row",
    [
        "       1 0.000000   0.00000000",
        "       0 0.313112   0.00002437",
        "       1 0.313112   0.00002537",
        "       1 0.413112   0.00002437",
        "       1 -0.313112   0.00002437",
        "       1 0.313112   nan",
        "       1 0.313112   0.00002437 x",
        "       1 inf   0.00002437",
        "       1 \x1f0.313112   0.00002437",
        "NetPIPE: error writing or reading",
    ],
)
def test_rows_that_are_no_result(row: str) -> None:
    parameters, text = recorded("tcp")
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("       1 "))
    assert refused(parameters, "\n".join([*lines[:first], row, *lines[first + 1 :]]))


@pytest.mark.parametrize("text", ["", "\x00", "nonsense", "9" * 9999, " " * (1 << 21), "1 1 1\n"])
def test_garbage(text: str) -> None:
    assert refused(NetpipeParameters(), text)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), name=st.sampled_from(list(RECORDED)))
def test_a_bent_output_is_invalid_or_figures(data: st.DataObject, name: str) -> None:
    parameters, text = recorded(name)
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 40)))
    bent = text[:at] + data.draw(st.text("0123456789. \n-einfa:", max_size=12)) + text[until:]
    try:
        figures = netpipe_report.figures(parameters, bent)
    except InvalidTrialError:
        return
    for points in (curve(figures["throughput"]), curve(figures["latency"])):
        assert all(0 < value < 1e18 for point in points for value in point)


def exchange(**sizes: Any) -> tuple[NetpipeTcpParameters, dict[str, Output]]:
    """A real exchange. Its receiver says that it is ready on standard error."""
    parameters = NetpipeTcpParameters(repeats=3, port=free_port(), **sizes)
    with TemporaryDirectory() as name:
        directory = Path(name)
        receiver, sender = NETPIPE.tasks(parameters, context_in(directory, NETPIPE, parameters))
        assert receiver.ready is not None
        process = start(replace(receiver, cwd=name), directory)
        try:
            while receiver.ready not in (directory / "receiver.stderr").read_text():
                assert process.poll() is None
            # A pipe, as an agent has: in a file the results would lie over the remarks.
            done = subprocess.run(sender.argv, capture_output=True, text=True, check=False)
        finally:
            process.kill()
            process.wait()
    return parameters, {"sender": Output(done.returncode, None, done.stdout, done.stderr, 1.0)}


@cache
def sample() -> tuple[NetpipeTcpParameters, dict[str, Output]]:
    return exchange(largest=256)


needs_netpipe = pytest.mark.skipif(shutil.which("NPtcp") is None, reason="needs netpipe-tcp")


@needs_netpipe
@pytest.mark.parametrize("smallest", [1, 2, 3, 64, 100])
@pytest.mark.parametrize("perturbation", [0, 3])
def test_a_real_run_gives_its_figures(smallest: int, perturbation: int) -> None:
    parameters, outputs = exchange(smallest=smallest, largest="4KiB", perturbation=perturbation)
    NETPIPE.check(parameters, outputs)
    figures = NETPIPE.parse(parameters, outputs)
    assert [size for size, _ in curve(figures["throughput"])] == netpipe_report.sizes(parameters)


@needs_netpipe
def test_status_and_signal() -> None:
    parameters, outputs = sample()
    for change in ({"status": 1}, {"status": None, "signal": 15}):
        with pytest.raises(InvalidTrialError):
            NETPIPE.check(parameters, {"sender": replace(outputs["sender"], **change)})
    with pytest.raises(InvalidTrialError):
        NETPIPE.check(parameters, printing(outputs, "sender", ""))


def test_who_stands_where(tmp_path: Path) -> None:
    parameters = NetpipeTcpParameters(peer={"environment": "vm"}, repeats=None)
    assert [role.place for role in NETPIPE.roles(parameters)] == ["instance", "partner"]
    assert NETPIPE.partner(parameters) == "vm"
    context = replace(
        context_in(tmp_path, NETPIPE, parameters),
        addresses={"sender": "10.0.0.1", "receiver": "10.0.0.2"},
    )
    receiver, sender = NETPIPE.tasks(parameters, context)
    assert sender.argv[sender.argv.index("-h") + 1] == "10.0.0.2"
    assert "-n" not in sender.argv
    assert "-h" not in receiver.argv


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_mpi_runs_two_ranks_of_its_own_program(tmp_path: Path, mpi: Any) -> None:
    parameters = NetpipeMpiParameters(mpi=mpi, repeats=7)
    (task,) = NETPIPE_MPI.tasks(parameters, context_in(tmp_path, NETPIPE_MPI, parameters))
    program = task.argv.index({"openmpi": "NPopenmpi", "mpich": "NPmpich2"}[mpi])
    assert task.argv[program + 1 :] == netpipe_report.options(parameters)
    outputs = {"main": Output(0, None, recorded(mpi)[1], "", 1.0)}
    NETPIPE_MPI.check(parameters, outputs)
    assert NETPIPE_MPI.parse(parameters, outputs) == netpipe_report.figures(*recorded(mpi))


@pytest.mark.parametrize(
    "wrong",
    [
        {"smallest": 0},
        {"smallest": "2KiB", "largest": "1KiB"},
        {"perturbation": -1},
        {"repeats": 0},
        {"peer": "none"},
    ],
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NetpipeTcpParameters(**wrong)


def test_mpi_is_between_two() -> None:
    with pytest.raises(ValidationError, match="between two ranks"):
        NetpipeMpiParameters(peer="each")


def test_titles() -> None:
    assert NETPIPE.title(NetpipeTcpParameters()) == "NetPIPE to the host, 1B to 1.0MiB"
    assert (
        NETPIPE_MPI.title(NetpipeMpiParameters(peer="second", largest=1024))
        == "NetPIPE over openmpi to a second instance, 1B to 1.0KiB"
    )
