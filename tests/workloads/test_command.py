"""`command`: any program, timed from outside."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.workload_runs import checked, run
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.command import CommandParameters, OwnCommand

COMMAND = OwnCommand()


def test_true_takes_some_time(tmp_path: Path) -> None:
    parameters = CommandParameters(argv=["true"])
    figures = checked(COMMAND, parameters, run(COMMAND, parameters, tmp_path))
    assert figures["seconds"] > 0


def test_cpu_time_of_a_program_that_works(tmp_path: Path) -> None:
    parameters = CommandParameters(argv=["python3", "-c", "print(sum(range(10**6)))"])
    outputs = run(COMMAND, parameters, tmp_path)
    usage = outputs["main"].usage
    assert usage is not None
    figures = checked(COMMAND, parameters, outputs)
    assert figures["cpu_seconds"] == usage.user_s + usage.system_s


def test_no_cpu_time_where_none_was_counted(tmp_path: Path) -> None:
    parameters = CommandParameters(argv=["true"])
    outputs = run(COMMAND, parameters, tmp_path)
    outputs = {"main": replace(outputs["main"], usage=None)}
    assert set(checked(COMMAND, parameters, outputs)) == {"seconds"}


def test_no_shell_reads_the_arguments(tmp_path: Path) -> None:
    parameters = CommandParameters(argv=["echo", "$HOME; rm -rf *"], expect_output="$HOME; rm")
    checked(COMMAND, parameters, run(COMMAND, parameters, tmp_path))


def test_another_status_than_expected(tmp_path: Path) -> None:
    outputs = run(COMMAND, CommandParameters(argv=["false"]), tmp_path)
    with pytest.raises(InvalidTrialError, match="status 1, expected 0"):
        COMMAND.check(CommandParameters(argv=["false"]), outputs)
    checked(COMMAND, CommandParameters(argv=["false"], expect_status=1), outputs)


def test_text_that_does_not_appear(tmp_path: Path) -> None:
    parameters = CommandParameters(argv=["echo", "almost"], expect_output="done")
    with pytest.raises(InvalidTrialError, match="does not hold 'done'; it begins 'almost"):
        COMMAND.check(parameters, run(COMMAND, parameters, tmp_path))


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none(seconds: float) -> None:
    outputs = {"main": Output(0, None, "", "", seconds)}
    with pytest.raises(InvalidTrialError, match="elapsed time"):
        COMMAND.check(CommandParameters(argv=["true"]), outputs)


@given(st.text(), st.text(min_size=1))
def test_any_output_is_searched(stdout: str, expected: str) -> None:
    parameters = CommandParameters(argv=["x"], expect_output=expected)
    outputs = {"main": Output(0, None, stdout, "", 1.0)}
    if expected in stdout:
        assert COMMAND.parse(parameters, outputs) == {"seconds": 1.0}
        COMMAND.check(parameters, outputs)
    else:
        with pytest.raises(InvalidTrialError):
            COMMAND.check(parameters, outputs)


@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": "true"},
        {"argv": [1]},
        {"argv": ["a\x00b"]},
        {"argv": ["true"], "expect_status": 256},
        {"argv": ["true"], "expect_output": ""},
        {"argv": ["true"], "timeout_s": math.inf},
        {"argv": ["true"], "shell": True},
        {"argv": ["true"], "check": []},
        {
            "argv": ["true"],
            "metrics": {"seconds": {"unit": "s", "better": "lower", "line": "last"}},
        },
        {
            "argv": ["true"],
            "metrics": {"No": {"unit": "s", "better": "lower", "line": "last"}},
        },
    ],
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CommandParameters(**wrong)


def test_titles_are_short() -> None:
    assert COMMAND.title(CommandParameters(argv=["true"])) == "command true"
    assert len(COMMAND.title(CommandParameters(argv=["x" * 500]))) == len("command ") + 40


def test_peak_memory_is_what_the_agent_tells(tmp_path: Path) -> None:
    parameters = CommandParameters(argv=["true"])
    outputs = run(COMMAND, parameters, tmp_path)
    usage = outputs["main"].usage
    assert usage is not None
    assert checked(COMMAND, parameters, outputs)["peak_memory"] == usage.max_rss_bytes


def test_its_own_figures(tmp_path: Path) -> None:
    text = 'frames: 12.5 ms\n{"rates": [{"name": "a", "value": 3}, {"name": "b", "value": 7}]}'
    metrics = {
        "frame": {"unit": "ms", "better": "lower", "primary": True, "regex": "frames: ([0-9.]+)"},
        "rate": {"unit": "1/s", "better": "higher", "json": "$.rates[?@.name == 'b'].value"},
    }
    parameters = CommandParameters.model_validate({"argv": ["echo", text], "metrics": metrics})
    figures = checked(COMMAND, parameters, run(COMMAND, parameters, tmp_path))
    assert (figures["frame"], figures["rate"]) == (0.0125, 7.0)
    primary = [metric.name for metric in COMMAND.metrics_of(parameters) if metric.primary]
    assert primary == ["frame"]


def test_a_figure_that_is_not_there_names_its_metric(tmp_path: Path) -> None:
    metrics = {"frame": {"unit": "s", "better": "lower", "regex": "frame: (.*)"}}
    parameters = CommandParameters.model_validate({"argv": ["echo", "hello"], "metrics": metrics})
    with pytest.raises(InvalidTrialError, match=r"metric frame: regex .* matches nothing"):
        COMMAND.check(parameters, run(COMMAND, parameters, tmp_path))


def test_a_check_that_agrees_and_one_that_does_not(tmp_path: Path) -> None:
    argv = ["sh", "-c", "echo 41 > answer"]
    agrees = CommandParameters(argv=argv, check=["grep", "-q", "41", "answer"])
    checked(COMMAND, agrees, run(COMMAND, agrees, tmp_path))
    denies = CommandParameters(argv=argv, check=["sh", "-c", "cat answer; grep -q 42 answer"])
    with pytest.raises(InvalidTrialError, match="its check ended with status 1: '41'"):
        COMMAND.check(denies, run(COMMAND, denies, tmp_path))
