"""`basics`: sysbench's five tests by a program of ours."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.workloads.workload_runs import context_in, run
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.cpu.basics import PROGRAM, Basics, BasicsParameters

WORKLOAD = Basics()
TESTS: list[dict[str, Any]] = [
    {"test": "cpu", "events": 20},
    {"test": "memory", "events": 1000},
    {"test": "threads", "events": 1},
    {"test": "mutex"},
    {"test": "fileio", "events": 50},
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
    ({"threads": 1}, "was asked for"),
    ({"test": "memory"}, "was asked for"),
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
