"""`basics`: sysbench's five tests by a program of ours."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.workloads.workload_runs import context_in, run
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.cpu.basics import PROGRAM, Basics
from ullage.workloads.cpu.basics_parameters import BasicsParameters
from ullage.workloads.cpu.basics_report import primes_below
from ullage.workloads.cpu.sysbench import FILE_MODES

WORKLOAD = Basics()
TESTS: list[dict[str, Any]] = [
    {"test": "cpu", "events": 20},
    {"test": "memory", "events": 1000},
    {"test": "threads", "events": 1},
    {"test": "mutex"},
    *({"test": "fileio", "events": 250, "mode": mode} for mode in FILE_MODES),
    {"test": "fileio", "events": 5, "files": 2, "total_size": "64KiB", "block_size": "8KiB"},
    {"test": "memory", "events": 10, "block_size": "1MiB"},
    {"test": "stream", "events": 100},
    {"test": "cpu", "time_s": 1},
]


def put(parameters: BasicsParameters, directory: Path) -> None:
    """What the engine does with the workload's files."""
    for name, file in WORKLOAD.files(parameters).items():
        (directory / name).symlink_to(file)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Output]:
    directory = tmp_path_factory.mktemp("basics")
    put(BasicsParameters(), directory)
    return run(WORKLOAD, BasicsParameters(events=20, time_s=None, threads=2), directory)


@pytest.mark.parametrize("fields", TESTS)
def test_each_does_what_was_asked_for(fields: dict[str, Any], tmp_path: Path) -> None:
    parameters = BasicsParameters.model_validate({**fields, "threads": 2})
    put(parameters, tmp_path)
    outputs = run(WORKLOAD, parameters, tmp_path)
    WORKLOAD.check(parameters, outputs)
    figures = WORKLOAD.parse(parameters, outputs)
    absent = set() if parameters.test == "stream" else {"bytes_per_second"}
    assert set(figures) == {metric.name for metric in WORKLOAD.metrics} - absent
    assert all(isinstance(value, float) and value > 0 for value in figures.values())
    assert WORKLOAD.facts(parameters, outputs)["version"].startswith(f"{PROGRAM} ")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {PROGRAM, "main.stdout", "main.stderr"}, "its files are gone"


BENT: list[tuple[dict[str, Any], str]] = [
    ({"threads": 1}, "threads: 2 was asked for, 1 was done"),
    ({"test": "memory"}, "test: cpu was asked for, memory was done"),
    ({"time_s": 1}, "time_s: None was asked for"),
    ({"prime": 9_999}, "prime: 10000 was asked for, 9999 was done"),
    ({"block": 1024}, "block: None was asked for"),
    ({"seed": 1 << 31}, "a seed of 31 bits"),
    ({"flushes": 1}, "must find 23332"),
    ({"written": 1}, "has no files"),
    ({"events": 19}, "20 events were asked for, 19 were done"),
    ({"events": 0}, "no event was done"),
    ({"seconds": 0.0}, "no event was done"),
    ({"seconds": 1e6}, "and ran for"),
    ({"seconds": 2e-6}, "its events took"),
    ({"result": 1228 * 20 - 1}, "must find 24560, not 24559"),
    ({"surprise": 1}, "is not a report"),
]


@pytest.mark.parametrize(("change", "complaint"), BENT)
def test_a_report_of_other_work_is_refused(
    real: dict[str, Output], change: dict[str, Any], complaint: str
) -> None:
    parameters = BasicsParameters(events=20, time_s=None, threads=2)
    WORKLOAD.check(parameters, real)
    report = {**json.loads(real["main"].stdout), **change}
    bent = {"main": replace(real["main"], stdout=json.dumps(report))}
    with pytest.raises(InvalidTrialError, match=complaint):
        WORKLOAD.check(parameters, bent)


FILES = {"test": "fileio", "events": 250, "mode": "rndrw"}
BENT_OF_OTHERS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"test": "memory", "events": 10}, {"block": 2048, "result": 20_480}, "block: 1024 was"),
    ({"test": "memory", "events": 10}, {"read": True}, "read: False was"),
    ({"test": "threads", "events": 1}, {"yields": 0, "result": 0}, "yields: 1000 was"),
    ({"test": "threads", "events": 1}, {"locks": 1}, "locks: 8 was"),
    ({"test": "mutex"}, {"locks": 1, "result": 1}, "locks: 50000 was"),
    ({"test": "mutex"}, {"mutexes": 1}, "mutexes: 4096 was"),
    ({"test": "mutex"}, {"loops": 0}, "loops: 10000 was"),
    (FILES, {"mode": "rndrd"}, "mode: rndrw was"),
    (FILES, {"files": 1}, "files: 16 was"),
    (FILES, {"total": 1}, "total: 67108864 was"),
    (FILES, {"flush": 0}, "flush: 100 was"),
    (FILES, {"written": 0}, "reads to 0 writes are not three to two"),
    ({**FILES, "mode": "rndwr"}, {"flushes": 0, "result": 250 << 14}, "have 32 to 32 flushes"),
    ({**FILES, "mode": "seqrd"}, {"written": 1 << 14}, "0 bytes are written in mode seqrd"),
    ({**FILES, "mode": "seqrewr"}, {"written": 0}, "bytes are written in mode seqrewr, not 0"),
]


@pytest.mark.parametrize(("fields", "change", "complaint"), BENT_OF_OTHERS)
def test_other_sizes_modes_and_counts_are_refused(
    fields: dict[str, Any], change: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    parameters = BasicsParameters.model_validate(fields)
    put(parameters, tmp_path)
    outputs = run(WORKLOAD, parameters, tmp_path)
    WORKLOAD.check(parameters, outputs)
    report = {**json.loads(outputs["main"].stdout), **change}
    bent = {"main": replace(outputs["main"], stdout=json.dumps(report))}
    with pytest.raises(InvalidTrialError, match=complaint):
        WORKLOAD.check(parameters, bent)


def test_the_clocks_of_a_guest_and_of_its_host_may_be_a_little_apart(
    real: dict[str, Output],
) -> None:
    parameters = BasicsParameters(events=20, time_s=None, threads=2)
    seconds = json.loads(real["main"].stdout)["seconds"]
    WORKLOAD.check(parameters, {"main": replace(real["main"], seconds=seconds - 0.002)})
    apart = {"main": replace(real["main"], seconds=seconds - 0.002 - 0.02)}
    with pytest.raises(InvalidTrialError, match="and ran for"):
        WORKLOAD.check(parameters, apart)


def test_primes_are_counted_here_too() -> None:
    limits = [3, 4, 9, 10, 25, 26, 10_000, 20_000, 80_000]
    assert [primes_below(limit) for limit in limits] == [0, 1, 3, 3, 8, 8, 1228, 2261, 7836]


def test_any_number_of_primes_is_proved(tmp_path: Path) -> None:
    parameters = BasicsParameters(events=2, time_s=None, prime=12_345)
    put(parameters, tmp_path)
    outputs = run(WORKLOAD, parameters, tmp_path)
    report = json.loads(outputs["main"].stdout)
    report["result"] += 1
    bent = {"main": replace(outputs["main"], stdout=json.dumps(report))}
    WORKLOAD.check(parameters, outputs)
    with pytest.raises(InvalidTrialError, match="2 events must find"):
        WORKLOAD.check(parameters, bent)


def test_titles_and_records_tell_what_was_asked_for_beside_the_usual() -> None:
    disk = {"test": "fileio", "mode": "rndrw", "block_size": "400MiB", "total_size": "100GiB"}
    parameters = BasicsParameters.model_validate({**disk, "files": 128})
    assert WORKLOAD.title(parameters) == (
        "files through the cache, random read and write, blocks of 400 MiB"
        " by ullage-basics, 1 thread"
    )
    assert WORKLOAD.title(BasicsParameters()) == "CPU by ullage-basics, 1 thread"
    usual = BasicsParameters().model_dump(mode="json")
    assert set(usual) == {"test", "threads", "time_s", "events", "prime"}
    kept = parameters.model_dump(mode="json")
    assert BasicsParameters.model_validate(kept) == parameters


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"test": "cpu", "block_size": "1KiB"}, "cpu has no block_size"),
        ({"test": "memory", "mode": "seqrd"}, "mode is of fileio alone"),
        ({"test": "memory", "files": 2}, "files is of fileio alone"),
        ({"test": "stream", "total_size": "1GiB"}, "total_size is of fileio alone"),
        ({"test": "memory", "block_size": 1025}, "multiple of 1024"),
        ({"test": "fileio", "files": 3}, "multiple of files × block_size, 48KiB"),
    ],
)
def test_what_a_test_has_not_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        BasicsParameters.model_validate(fields)


def test_a_stream_that_lost_bytes_is_refused(tmp_path: Path) -> None:
    parameters = BasicsParameters.model_validate({"test": "stream", "events": 10})
    put(parameters, tmp_path)
    outputs = run(WORKLOAD, parameters, tmp_path)
    WORKLOAD.check(parameters, outputs)
    report = json.loads(outputs["main"].stdout)
    rate = WORKLOAD.parse(parameters, outputs)["bytes_per_second"]
    assert rate == report["result"] / report["seconds"]
    report["result"] -= 1
    bent = {"main": replace(outputs["main"], stdout=json.dumps(report))}
    with pytest.raises(InvalidTrialError, match="must find 655360, not 655359"):
        WORKLOAD.check(parameters, bent)


def test_a_report_without_a_percentile_has_the_other_figures(real: dict[str, Output]) -> None:
    parameters = BasicsParameters(events=20, time_s=None, threads=2)
    report = json.loads(real["main"].stdout)
    del report["p95_s"]
    older = {"main": replace(real["main"], stdout=json.dumps(report))}
    WORKLOAD.check(parameters, older)
    figures = WORKLOAD.parse(parameters, older)
    absent = {"latency_p95_s", "bytes_per_second"}
    assert set(figures) == {metric.name for metric in WORKLOAD.metrics} - absent


def test_a_report_of_windows_is_read_and_one_of_another_code_page_refused(
    real: dict[str, Output],
) -> None:
    parameters = BasicsParameters(events=20, time_s=None, threads=2)
    text = real["main"].stdout
    crlf = {"main": replace(real["main"], stdout=text.replace("\n", "\r\n"))}
    WORKLOAD.check(parameters, crlf)
    utf16 = {"main": replace(real["main"], stdout=text.encode("utf-16").decode(errors="replace"))}
    with pytest.raises(InvalidTrialError, match="is not a report"):
        WORKLOAD.check(parameters, utf16)


def test_a_program_that_ends_early_is_refused(real: dict[str, Output]) -> None:
    parameters = BasicsParameters(time_s=60, threads=2)
    report = {**json.loads(real["main"].stdout), "time_s": 60, "events_wanted": None}
    bent = {"main": replace(real["main"], stdout=json.dumps(report))}
    with pytest.raises(InvalidTrialError, match="60 s were asked for"):
        WORKLOAD.check(parameters, bent)


@pytest.mark.parametrize(
    "fields", [{"test": "mutex", "time_s": 2}, {"test": "cpu", "time_s": 2, "events": 3}]
)
def test_two_limits_or_one_too_many_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BasicsParameters.model_validate(fields)


def test_the_estimate_follows_the_work(tmp_path: Path) -> None:
    assert WORKLOAD.duration_s(BasicsParameters(time_s=7)) == 7
    fields = {"test": "mutex", "threads": 4}
    assert WORKLOAD.duration_s(BasicsParameters.model_validate(fields)) == 1
    argv = WORKLOAD.tasks(BasicsParameters(), context_in(tmp_path, WORKLOAD, BasicsParameters()))
    assert argv[0].argv[0] == f"./{PROGRAM}"
