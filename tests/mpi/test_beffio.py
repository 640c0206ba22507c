"""`beffio` with both MPIs: its patterns, its verification, and what it refuses."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.mpi.oceankit import build, needs_mpi
from tests.workloads import b_eff_io_table
from ullage.host import binaries
from ullage.workloads.mpi import b_eff_io_report as report

pytestmark = needs_mpi
MIB = 1 << 20
MPIS: tuple[binaries.Mpi, ...] = ("openmpi", "mpich")


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory: how fast a disk is does not matter here."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def command(mpi: binaries.Mpi, ranks: int, *options: str) -> list[str]:
    build("beffio")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    more = [*root, "--oversubscribe", "--mca", "btl", "self,vader"] if mpi == "openmpi" else []
    return [
        f"mpirun.{mpi}",
        *more,
        "-n",
        str(ranks),
        str(binaries.program("beffio", mpi)),
        *options,
    ]


ENV = {**os.environ, "OMPI_MCA_mpi_yield_when_idle": "1", "UCX_TLS": "self,posix"}


def launch(mpi: binaries.Mpi, ranks: int, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(mpi, ranks, *options),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=ENV,
        timeout=120,
    )


@cache
def result(mpi: binaries.Mpi) -> report.BEffIoResult:
    """Of a real run, proved."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        memory = str(515 * MIB + 12_345)  # 515 times 8 KiB for the largest chunk
        options = ("--time", "0.3", "--memory", memory, "--directory", name, "--seed", "9")
        done = launch(mpi, 2, *options)
        assert done.returncode == 0, done.stderr
        assert list(Path(name).iterdir()) == []
    return report.read(done.stdout)


@pytest.mark.parametrize("mpi", MPIS)
def test_a_real_run_does_every_pattern(mpi: binaries.Mpi) -> None:
    measured = result(mpi)
    assert (measured.ranks, measured.scheduled_s, measured.seed) == (2, 0.3, 9)
    assert measured.largest_chunk_bytes == 515 * 8192
    assert measured.labels == ["scheduled for less than 1800 s"]
    assert measured.segment_bytes % MIB == 0
    rows = b_eff_io_table.sized(515 * 8192)
    for pattern in measured.patterns:
        if pattern.number not in (33, 42):
            row = (pattern.type, pattern.chunk_bytes, pattern.call_bytes, pattern.units)
            assert row == rows[pattern.number]


@pytest.mark.parametrize("mpi", MPIS)
def test_only_first_writing_of_types_0_to_2_goes_by_time(mpi: binaries.Mpi) -> None:
    done = {(p.method, p.number): p for p in result(mpi).patterns}
    for (method, number), pattern in done.items():
        assert pattern.calls == done["write", number].calls, method
        if method == "write" and pattern.type < 3 and pattern.units:
            once_more = pattern.seconds * (pattern.calls + 1) / pattern.calls
            assert once_more >= 0.3 / 3 * pattern.units / 64 - 1e-9
    for scatter, shared, separate, *segments in b_eff_io_table.SAME_CHUNK:
        pattern = done["write", scatter]
        chunks = pattern.calls * pattern.call_bytes // pattern.chunk_bytes
        least = min(chunks, 10 * done["write", shared].calls, done["write", separate].calls)
        assert [done["write", number].calls for number in segments] == [least, least]


@pytest.mark.parametrize("mpi", MPIS)
def test_the_figures_are_those_of_the_rates(mpi: binaries.Mpi) -> None:
    measured = result(mpi)
    rate = {(t.method, t.type): t.bytes / t.seconds for t in measured.types}
    write, rewrite, read = (
        (2 * rate[m, 0] + rate[m, 1] + rate[m, 2] + rate[m, 3] + rate[m, 4]) / 6
        for m in report.METHODS
    )
    assert measured.write == pytest.approx(write, rel=1e-6)
    six = rate["rewrite", 0] + sum(rate["write", kind] for kind in range(5))
    assert measured.b_eff_io == pytest.approx(math.sqrt(six / 6 * read), rel=1e-6)
    assert measured.b_eff_io_release_1 == pytest.approx((write + rewrite + 2 * read) / 4, rel=1e-6)


@pytest.mark.parametrize("mpi", MPIS)
def test_some_types_alone_have_no_figure(mpi: binaries.Mpi, folder: Path) -> None:
    options = ("--time", "0.1", "--memory", "1", "--directory", str(folder), "--noshared")
    done = launch(mpi, 3, *options, "--types", "1")
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    figures = (*report.METHODS, "b_eff_io", "b_eff_io_release_1")
    assert [measured[name] for name in figures] == [None] * 5
    assert measured["labels"][1:] == ["no shared file pointers", "not all pattern types"]
    assert {pattern["type"] for pattern in measured["patterns"]} == {1}


@pytest.mark.parametrize("mpi", MPIS)
def test_a_byte_that_was_changed_is_found(mpi: binaries.Mpi, folder: Path) -> None:
    options = ("--time", "1", "--memory", "1", "--directory", str(folder), "--types", "2")
    over = threading.Event()
    spoiler = threading.Thread(target=_spoil, args=(folder / "beffio-2-1", over))
    spoiler.start()
    try:
        done = launch(mpi, 2, *options)
    finally:
        over.set()
        spoiler.join()
    assert done.returncode == 3, done.stderr
    assert "rank 1 read wrong data: type 2" in done.stderr
    assert "byte 4096 of the file" in done.stderr
    assert done.stdout == "" or "b_eff_io" not in done.stdout


def _spoil(path: Path, over: threading.Event) -> None:
    """Write a byte into the first chunk, again and again: it is rewritten once, then read."""
    while not over.is_set():
        try:
            with path.open("r+b", buffering=0) as file:
                while not over.is_set():
                    os.pwrite(file.fileno(), b"!", 4096)
        except OSError:
            over.wait(1e-4)


@pytest.mark.parametrize("mpi", MPIS)
def test_a_folder_that_is_not_there(mpi: binaries.Mpi) -> None:
    for _ in range(5):
        done = launch(mpi, 2, "--time", "1", "--memory", "1", "--directory", "/nowhere")
        assert done.returncode == 1
        if done.stderr:
            break  # on a busy machine MPICH's launcher may end before it has passed this on
    assert "error: rank" in done.stderr
    assert "/nowhere/beffio-0" in done.stderr
    assert "b_eff_io" not in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "are all needed"),
        (["--time", "0"], "not a possible value: --time '0'"),
        (["--time", "1e9"], "not a possible value"),
        (["--memory", "-5"], "not a possible value"),
        (["--types", "0,0"], "not a possible value"),
        (["--types", "5"], "not a possible value"),
        (
            ["--types", "0,3", "--time", "1", "--memory", "1", "--directory", "."],
            "as types 0 to 2 did",
        ),
        (["--fast"], "unknown option '--fast'"),
        (["--time"], "--time needs a value"),
        (["more"], "unexpected argument 'more'"),
    ],
)
def test_options_that_cannot_be(options: list[str], message: str) -> None:
    done = launch("mpich", 1, *options)
    assert done.returncode == 2
    assert message in done.stderr
