"""`sysbench-fileio` on this host's disk."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pydantic import ValidationError

from tests.workloads.workload_runs import checked, context_in, printing, run, run_trial
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.workloads.base import InvalidTrialError
from ullage.workloads.storage.sysbench_fileio import SysbenchFileio, SysbenchFileioParameters

FILEIO = SysbenchFileio()
MODES = ("seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw")


@pytest.fixture
def disk() -> Iterator[Path]:
    """A directory that is not in memory."""
    with TemporaryDirectory(dir="/var/tmp") as directory:
        yield Path(directory)


def small(**fields: Any) -> SysbenchFileioParameters:
    defaults = {"files": 4, "total_size": "4MiB", "events": 499}
    return SysbenchFileioParameters(**{**defaults, **fields})


@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_counted(disk: Path, mode: str, checksums: bool) -> None:
    parameters = small(mode=mode, checksums=checksums, threads=2)
    figures = checked(FILEIO, parameters, run(FILEIO, parameters, disk))
    assert ("reads_per_second" in figures) == parameters.reads
    assert ("writes_per_second" in figures) == parameters.writes
    assert ("fsyncs_per_second" in figures) == parameters.writes
    assert figures["throughput"] == figures["operations_per_second"] * 16_384


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_itself(disk: Path, mode: str) -> None:
    outputs = run(FILEIO, small(mode=mode), disk)
    for different in MODES:
        if different != mode:
            with pytest.raises(InvalidTrialError):
                FILEIO.check(small(mode=different), outputs)


@pytest.mark.parametrize(
    "policy",
    [
        {"fsync_freq": 0, "fsync_end": False},
        {"fsync_freq": 10, "fsync_end": False},
        {"fsync_freq": 0},
        {"fsync_all": True, "fsync_mode": "fdatasync"},
        {"direct": False},
        {"direct": False, "io_mode": "mmap"},
        {"io_mode": "async", "events": 5000},
        {"block_size": "1MiB", "events": 23},
    ],
)
def test_flushes_flags_and_ways(disk: Path, policy: dict[str, Any]) -> None:
    parameters = small(mode="rndwr", **policy)
    figures = checked(FILEIO, parameters, run(FILEIO, parameters, disk))
    assert ("latency_avg_s" in figures) == (parameters.io_mode != "async")
    if parameters.fsync_freq == 0 and not parameters.fsync_end:
        assert "fsyncs_per_second" not in figures


def test_a_timed_run(disk: Path) -> None:
    parameters = SysbenchFileioParameters(files=2, total_size="8MiB")
    figures = checked(FILEIO, parameters, run(FILEIO, parameters, disk))
    assert "total_time_s" not in figures


def test_odd_sizes_are_echoed_as_sysbench_rounds_them(disk: Path) -> None:
    parameters = small(mode="seqwr", files=3, block_size=12_288, total_size=3 * 12_288 * 7)
    checked(FILEIO, parameters, run(FILEIO, parameters, disk))


def test_seqwr_creates_and_needs_no_preparation(disk: Path) -> None:
    parameters = small(mode="seqwr")
    assert FILEIO.prepare(parameters, context_in(disk, FILEIO, parameters)) == ()
    checked(FILEIO, parameters, run_trial(FILEIO, parameters, disk))
    first = {path.name: path.stat().st_ctime_ns for path in disk.glob("test_file.*")}
    checked(FILEIO, parameters, run_trial(FILEIO, parameters, disk))
    second = {path.name: path.stat().st_ctime_ns for path in disk.glob("test_file.*")}
    assert all(second[name] != file_time for name, file_time in first.items())


def test_cleanup_leaves_nothing(disk: Path) -> None:
    parameters = small()
    run(FILEIO, parameters, disk)
    assert len(list(disk.glob("test_file.*"))) == 4
    for task in FILEIO.cleanup(parameters, context_in(disk, FILEIO, parameters)):
        subprocess.run(task.argv, cwd=task.cwd, check=True, capture_output=True)
    assert not list(disk.glob("test_file.*"))


def test_files_that_were_not_prepared(disk: Path) -> None:
    parameters = small()
    with pytest.raises(InvalidTrialError, match="FATAL: Cannot open file"):
        FILEIO.check(parameters, run_trial(FILEIO, parameters, disk))


def test_damaged_data_is_found_by_its_checksum(disk: Path) -> None:
    parameters = small(mode="seqrd", checksums=True, direct=False)
    context = replace(context_in(disk, FILEIO, parameters), memory_bytes=1 << 20)
    for task in FILEIO.prepare(parameters, context):
        subprocess.run(task.argv, cwd=task.cwd, check=True, capture_output=True)
    with (disk / "test_file.1").open("r+b") as file:
        file.seek(20_000)
        file.write(b"not what was written")
    with pytest.raises(InvalidTrialError, match="FATAL: Checksum mismatch"):
        FILEIO.check(parameters, run_trial(FILEIO, parameters, disk))


def test_checksums_must_be_as_asked(disk: Path) -> None:
    with pytest.raises(InvalidTrialError, match=r"Validation checks: on\."):
        FILEIO.check(small(checksums=True), run(FILEIO, small(), disk))
    with pytest.raises(InvalidTrialError, match=r"Validation checks: on\."):
        FILEIO.check(small(), run(FILEIO, small(checksums=True), disk))


def test_figures_that_contradict_the_mode_or_each_other(disk: Path) -> None:
    parameters = small(mode="rndrd")
    outputs = run(FILEIO, parameters, disk)
    text = outputs["main"].stdout
    (read_mib,) = [s.split()[-1] for s in text.split("\n") if "read, MiB/s" in s]
    for old, new, says in (
        ("writes/s:                     0.00", "writes/s: 5.00", "writes in mode rndrd"),
        ("fsyncs/s:                     0.00", "fsyncs/s: 5.00", "none were asked for"),
        (f" {read_mib}\n", f" {float(read_mib) + 1:.2f}\n", "reads of 16KiB are not"),
        ("events:              499", "events:              498", "498 were done"),
    ):
        with pytest.raises(InvalidTrialError, match=says):
            FILEIO.check(parameters, printing(outputs, "main", text.replace(old, new)))


def test_flushes_that_were_asked_for_and_not_made(disk: Path) -> None:
    parameters = small(mode="rndwr", fsync_all=True)
    outputs = run(FILEIO, parameters, disk)
    lines = outputs["main"].stdout.split("\n")
    text = "\n".join("    fsyncs/s: 0.00" if "fsyncs/s" in s else s for s in lines)
    with pytest.raises(InvalidTrialError, match="one after each write"):
        FILEIO.check(parameters, printing(outputs, "main", text))


def test_cached_files_must_be_twice_the_memory() -> None:
    parameters = SysbenchFileioParameters(direct=False)
    context = replace(context_in(Path("/data"), FILEIO, parameters), memory_bytes=128 << 20)
    assert FILEIO.prepare(parameters, context)
    with pytest.raises(UllageError) as caught:
        FILEIO.prepare(parameters, replace(context, memory_bytes=(128 << 20) + 1))
    assert caught.value.kind is errors.WORKLOAD_FILES_TOO_SMALL
    assert "256MiB of files" in caught.value.message
    assert "direct: true" in caught.value.hint


def test_direct_files_may_be_small() -> None:
    parameters = SysbenchFileioParameters()
    context = replace(context_in(Path("/data"), FILEIO, parameters), memory_bytes=1 << 40)
    task = FILEIO.prepare(parameters, context)[-1]
    assert "--file-extra-flags=direct" in task.argv


def test_work_happens_in_the_workspace() -> None:
    parameters = SysbenchFileioParameters()
    context = replace(context_in(Path("/data"), FILEIO, parameters), workspace="/data/mine")
    tasks = [
        *FILEIO.prepare(parameters, context),
        *FILEIO.tasks(parameters, context),
        *FILEIO.cleanup(parameters, context),
    ]
    assert [task.cwd for task in tasks] == ["/data/mine"] * 4


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"mode": "rndread"}, "'rndrd'"),
        ({"files": 3}, "multiple of files × block_size"),
        ({"block_size": 1000}, "greater than"),
        ({"block_size": 5000}, "multiple of 4096"),
        ({"io_mode": "mmap"}, "needs direct: false"),
        ({"direct": "yes"}, "boolean"),
        ({"files": 0}, "greater than"),
        ({"validate": True}, "Extra inputs"),
    ],
)
def test_wrong_parameters(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        SysbenchFileioParameters(**wrong)


def test_titles_and_the_published_set() -> None:
    assert FILEIO.title(SysbenchFileioParameters()) == "disk random read, 16 KiB"
    published = SysbenchFileioParameters(
        mode="rndrw", files=128, total_size="100GiB", block_size="400MiB", events=100, threads=32
    )
    assert FILEIO.title(published) == "disk random read and write, 400 MiB, 32 threads"
    assert FILEIO.duration_s(published) > 100
