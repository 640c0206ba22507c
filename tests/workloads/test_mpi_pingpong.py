"""`mpi-pingpong`: its two programs' outputs, read strictly, and the C program itself."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.workload_runs import printing, without_a_line
from ullage.engine import figures
from ullage.host import binaries
from ullage.plan import matrix
from ullage.runs.records import Curve, Scalar
from ullage.workloads.base import Context, InvalidTrialError, Output
from ullage.workloads.mpi.mpi_pingpong import MpiPingpong, MpiPingpongParameters

PINGPONG = MpiPingpong()
DATA = Path(__file__).parent / "data" / "mpi_pingpong"
CHECKOUT = Path(__file__).resolve().parents[2]
SAMPLES: dict[str, dict[str, Any]] = {
    "openmpi-4.1.4": {},
    "openmpi-4.1.4-network": {"peer": "second"},
    "mpich-4.0.2": {"mpi": "mpich"},
    "mpich-4.0.2-network": {"mpi": "mpich", "peer": "host"},
    "mpi4py-4.1.2": {"program": "mpi4py"},
    "mpi4py-4.0.3": {"program": "mpi4py", "mpi": "mpich"},
}
names = pytest.mark.parametrize("name", list(SAMPLES))


@cache
def sample(name: str) -> tuple[MpiPingpongParameters, dict[str, Output]]:
    text = (DATA / f"{name}.txt").read_text()
    return MpiPingpongParameters(**SAMPLES[name]), {"main": Output(0, None, text, "", 1.0)}


def parsed(
    parameters: MpiPingpongParameters, outputs: dict[str, Output]
) -> dict[str, Scalar | Curve]:
    """Through the engine's own gate: finite, declared, positive where primary."""
    case = matrix.Case("mpi-pingpong", "mpi-pingpong", PINGPONG, parameters, {})
    return figures.parse(case, outputs)


def refused(parameters: MpiPingpongParameters, outputs: dict[str, Output]) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        PINGPONG.check(parameters, outputs)
    return str(caught.value)


def bent(name: str, old: str, new: str) -> dict[str, Output]:
    """The sample with the first match of a pattern replaced."""
    _, outputs = sample(name)
    text, count = re.subn(old, new, outputs["main"].stdout, count=1, flags=re.MULTILINE)
    assert count == 1
    return printing(outputs, "main", text)


@names
def test_recorded_outputs(name: str) -> None:
    parameters, outputs = sample(name)
    figures = parsed(parameters, outputs)
    curve, rates = figures["one_way_time"], figures["bandwidth"]
    assert isinstance(curve, list) and isinstance(rates, list)
    assert [x for x, _ in curve] == [2**i for i in range(23)]
    assert figures["latency"] == curve[0][1]
    for (size, seconds), (_, rate) in zip(curve, rates, strict=True):
        assert rate == pytest.approx(size / seconds)
    expected = {metric.name for metric in PINGPONG.metrics}
    if parameters.program == "mpi4py":
        expected -= {"one_way_time_median", "one_way_time_minimum"}
    assert set(figures) == expected
    launched = "ullage-exec 10.0.0.3 orted\n" if parameters.peer != "none" else ""
    facts = PINGPONG.facts(parameters, {"main": replace(outputs["main"], stderr=launched)})
    assert ("TCP" in facts["transport"]) == (parameters.peer != "none")
    if parameters.program == "c":
        assert name.split("-")[1] in facts["library"]


def test_figures_are_those_that_stand_there() -> None:
    figures = parsed(*sample("openmpi-4.1.4"))
    row = next(r for r in sample("openmpi-4.1.4")[1]["main"].stdout.split("\n") if "size 64 " in r)
    printed = {key: float(value) for key, value in re.findall(r"(\w+)_ns ([0-9.]+)", row)}
    for name, key in (
        ("one_way_time", "mean"),
        ("one_way_time_median", "median"),
        ("one_way_time_minimum", "minimum"),
        ("one_way_time_deviation", "stdev"),
    ):
        curve = figures[name]
        assert isinstance(curve, list)
        assert dict(curve)[64] == pytest.approx(printed[key] * 1e-9)


@names
def test_every_line_is_needed(name: str) -> None:
    parameters, outputs = sample(name)
    for text in without_a_line(outputs["main"].stdout):
        if text.count("# ") == outputs["main"].stdout.count("# "):  # titles aside
            assert refused(parameters, printing(outputs, "main", text))


@names
@pytest.mark.parametrize(
    "change",
    [{"max_size": "2MiB"}, {"min_size": 2}, {"repetitions": 101}, {"bytes_per_size": "8MiB"}],
)
def test_another_test_is_not_what_was_asked(name: str, change: dict[str, Any]) -> None:
    _, outputs = sample(name)
    assert refused(MpiPingpongParameters(**{**SAMPLES[name], **change}), outputs)


def test_messages_that_went_around_the_network() -> None:
    parameters, _ = sample("openmpi-4.1.4-network")
    for sent in ("sent", "received"):
        outputs = bent("openmpi-4.1.4-network", rf"{sent} \d+", f"{sent} 1000")
        assert "went another way" in refused(parameters, outputs)
    assert parameters.payload > 100 << 20


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("openmpi-4.1.4", r"minimum_ns \d+\.\d+", "minimum_ns 999999999.000"),
        ("openmpi-4.1.4", r"minimum_ns \d+\.\d+", "minimum_ns 0.000"),
        ("openmpi-4.1.4", r"mean_ns \d+\.\d+", "mean_ns nan"),
        ("openmpi-4.1.4", r"mean_ns \d+\.\d+", "mean_ns 1e300"),
        ("openmpi-4.1.4", "^library: Open MPI v", "library: MPICH Version: "),
        ("mpi4py-4.1.2", r"\d\.\d{7}e-\d\d", "0.0000000e+00"),
        ("mpi4py-4.1.2", r"\d\.\d{7}e-\d\d", "1.0000000e+99"),
        ("mpi4py-4.1.2", r"\d\.\d{7}e-\d\d", "nan"),
        ("mpi4py-4.1.2", r"^( +1 +)\d+\.\d\d", r"\g<1>99.00"),
    ],
)
def test_figures_must_be_figures(name: str, old: str, new: str) -> None:
    assert refused(sample(name)[0], bent(name, old, new))


def test_a_bad_end_has_no_figures() -> None:
    parameters, outputs = sample("openmpi-4.1.4")
    words = "error: a message is not what was sent\n"
    failed = replace(outputs["main"], status=1, stderr=words)
    assert "not what was sent" in refused(parameters, {"main": failed})


@settings(max_examples=120)
@given(name=st.sampled_from(sorted(SAMPLES)), data=st.data())
def test_a_bent_output_is_invalid_or_a_figure(name: str, data: st.DataObject) -> None:
    parameters, outputs = sample(name)
    text = outputs["main"].stdout
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 30)))
    changed = text[:at] + data.draw(st.text(max_size=12)) + text[until:]
    try:
        PINGPONG.check(parameters, printing(outputs, "main", changed))
    except InvalidTrialError:
        return
    parsed(parameters, printing(outputs, "main", changed))


@pytest.mark.parametrize("text", ["", "\x00", "library: ", "9" * 99_999, "\n" * 9999], ids=range(5))
@names
def test_garbage(name: str, text: str) -> None:
    parameters, outputs = sample(name)
    assert refused(parameters, printing(outputs, "main", text))


# --- parameters -----------------------------------------------------------------------------------
def test_the_published_counts() -> None:
    requested = MpiPingpongParameters(max_size="1GiB", bytes_per_size=None, program="mpi4py")
    assert len(requested.sizes) == 31 and requested.sizes[-1] == 1 << 30
    assert {(requested.before(size), requested.measured(size)) for size in requested.sizes} == {
        (30, 100)
    }
    assert 2 * requested.payload == 2 * 130 * ((1 << 31) - 1)
    (task,) = PINGPONG.tasks(requested, Context({"main": "127.0.0.1"}, 1, 1 << 30, seed=1))
    assert task.argv[-1] == (
        "pingpong -a none -m 1 -n 1073741824 --skip 30 --loop 100 --skip-large 30 "
        "--loop-large 100 --skip-huge 30 --loop-huge 100"
    )


def test_large_messages_are_repeated_less_often() -> None:
    requested = MpiPingpongParameters(max_size="1GiB")
    assert [
        (requested.before(s), requested.measured(s)) for s in (1, 1 << 17, 1 << 20, 1 << 30)
    ] == [
        (30, 100),
        (30, 100),
        (4, 16),
        (1, 3),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_size": 3},
        {"max_size": 1000},
        {"min_size": 2048, "max_size": 1024},
        {"max_size": "2GiB"},
        {"repetitions": 2},
        {"warmups": 0},
        {"bytes_per_size": 0},
        {"peer": "each"},
        {"program": "fortran"},
    ],
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MpiPingpongParameters(**wrong)


def test_titles() -> None:
    assert PINGPONG.title(MpiPingpongParameters(peer="host")) == "MPI messages to the host"


# --- the program ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def program() -> Path:
    path = binaries.DIRECTORY / "openmpi/pingpong"
    argv = ["make", "--silent", "-C", str(CHECKOUT / "mpi/programs/pingpong"), str(path)]
    subprocess.run(argv, check=True)
    return path


def ran(program: Path, *options: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    argv = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    argv += ["--mca", "mpi_yield_when_idle", "1", "-np", str(ranks), str(program), *options]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def test_a_real_run(program: Path) -> None:
    fields: dict[str, Any] = {"min_size": 8, "max_size": "64KiB", "bytes_per_size": "256KiB"}
    parameters = MpiPingpongParameters(**fields, repetitions=20, warmups=6)
    (task,) = PINGPONG.tasks(parameters, Context({"main": "127.0.0.1"}, 1, 1 << 30, seed=1))
    done = ran(program, *task.argv[task.argv.index("./pingpong") + 1 :])
    parsed(parameters, {"main": Output(done.returncode, None, done.stdout, done.stderr, 1.0)})
    assert "size 65536 warmups 1 repetitions 4 " in done.stdout


@pytest.mark.parametrize(
    ("options", "ranks", "words"),
    [
        (("--max-bytes", "x"), 2, "x is not a number"),
        (("--min-bytes", "3"), 2, "must be a power of two"),
        (("--device", "none0", "--max-bytes", "1"), 2, "no such network device"),
        (("--max-bytes", "1"), 3, "between two ranks"),
    ],
)
def test_bad_options(program: Path, options: tuple[str, ...], ranks: int, words: str) -> None:
    done = ran(program, *options, ranks=ranks)
    assert done.returncode != 0 and words in done.stderr


CORRUPT = """\
#include <mpi.h>
int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    char *bytes = (char *)buffer;
    int rank;
    PMPI_Comm_rank(comm, &rank);
    bytes[count / 2] ^= (char)(rank == 1 && count == 4096);
    int status = PMPI_Send(buffer, count, type, to, tag, comm);
    return status;
}
"""


def test_a_wrong_byte_is_an_error(program: Path, tmp_path: Path) -> None:
    source, library = tmp_path / "corrupt.c", tmp_path / "corrupt.so"
    source.write_text(CORRUPT)
    flags = ["-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(["mpicc.openmpi", *flags], check=True)
    argv = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
    argv += ["-x", f"LD_PRELOAD={library}", str(program), "--max-bytes", "4096"]
    # An odd number of exchanges: the bit is flipped back every second time.
    argv += ["--warmups", "1", "--repetitions", "2", "--bytes-per-size", "0"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and "not what was sent" in done.stderr
    assert "size 2048 " in done.stdout and "every message" not in done.stdout
