"""What holds for all five sysbench workloads: only their own exact report is taken."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.workload_runs import SEED, checked, context_in, printing, run, without_a_line
from ullage import workloads
from ullage.workloads.base import InvalidTrialError, Output, Workload
from ullage.workloads.cpu.sysbench import SysbenchParameters, size

DATA = Path(__file__).parent / "data" / "sysbench"
SMALL: dict[str, dict[str, Any]] = {
    "sysbench-cpu": {"prime": 1000, "events": 50, "threads": 2},
    "sysbench-memory": {"total_size": "8MiB", "block_size": "64KiB", "threads": 2},
    "sysbench-fileio": {"mode": "rndrw", "files": 2, "total_size": "1MiB", "events": 200},
    "sysbench-threads": {"events": 50, "threads": 2},
    "sysbench-mutex": {"locks": 5000, "loops": 100, "threads": 2},
}
NAMES = tuple(SMALL)
GARBAGE = ["", "\x00", "\x00" * 5000, "nan", "FATAL: \n", "x" * (3 << 20), "Latency (ms):\n" * 99]


@cache
def sample(name: str) -> tuple[Workload[Any], SysbenchParameters, dict[str, Output]]:
    """A real run, made once."""
    workload = workloads.get(name)
    parameters = workload.parameters_model(**SMALL[name])
    with TemporaryDirectory(dir="/var/tmp") as directory:
        return workload, parameters, run(workload, parameters, Path(directory))


def refused(name: str, text: str) -> str:
    """Both reading and checking refuse this output; the reason."""
    workload, parameters, outputs = sample(name)
    bent = printing(outputs, "main", text)
    with pytest.raises(InvalidTrialError):
        workload.parse(parameters, bent)
    with pytest.raises(InvalidTrialError) as caught:
        workload.check(parameters, bent)
    return str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_run_gives_its_figures(name: str) -> None:
    workload, parameters, outputs = sample(name)
    figures = checked(workload, parameters, outputs)
    assert figures["total_time_s"] == float(
        re.findall(r"total time: +([0-9.]+)s", outputs["main"].stdout)[0]
    )
    assert workload.facts(parameters, outputs)["version"].startswith("sysbench 1.0.")


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_needed(name: str) -> None:
    text = sample(name)[2]["main"].stdout
    for shorter in without_a_line(text):
        assert refused(name, shorter)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("figure", ["nan", "-nan", "inf", "-1.00", "", "1e9", "0x1p3", "1,00"])
def test_every_figure_must_be_one(name: str, figure: str) -> None:
    text = sample(name)[2]["main"].stdout
    numbers = list(re.finditer(r"(?<=[ (/])[0-9]+\.[0-9]+(?=[ s/\n)])", text))
    assert len(numbers) > 8
    for match in numbers:
        reason = refused(name, text[: match.start()] + figure + text[match.end() :])
        assert "line" in reason


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_alone_before_and_after(name: str, garbage: str) -> None:
    text = sample(name)[2]["main"].stdout
    assert refused(name, garbage)
    if garbage:
        assert refused(name, garbage + text)
        assert refused(name, text + garbage)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(text=st.text())
@example(text="sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n")
def test_random_text_is_invalid_and_nothing_else(name: str, text: str) -> None:
    assert refused(name, text)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_bent_report_is_invalid_or_a_figure(name: str, data: st.DataObject) -> None:
    workload, parameters, outputs = sample(name)
    text = outputs["main"].stdout
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 30)))
    bent = printing(outputs, "main", text[:at] + data.draw(st.text(max_size=12)) + text[until:])
    try:
        workload.check(parameters, bent)
    except InvalidTrialError:
        return
    checked(workload, parameters, bent)


@pytest.mark.parametrize("name", NAMES)
def test_another_thread_count_is_not_what_was_asked(name: str) -> None:
    text = sample(name)[2]["main"].stdout
    requested = sample(name)[1].threads
    reason = refused(name, text.replace(f"threads: {requested}\n", f"threads: {requested + 1}\n"))
    assert f"Number of threads: {requested}" in reason


@pytest.mark.parametrize("name", NAMES)
def test_status_signal_and_complaints(name: str) -> None:
    workload, parameters, outputs = sample(name)
    for change, says in (
        ({"status": 1}, "status 1"),
        ({"status": None, "signal": 9}, "signal 9"),
        ({"stderr": "WARNING: something\n"}, "something"),
    ):
        with pytest.raises(InvalidTrialError, match=says):
            workload.check(parameters, {"main": replace(outputs["main"], **change)})


@pytest.mark.parametrize("name", NAMES)
def test_work_that_took_no_time_or_did_nothing(name: str) -> None:
    workload, parameters, outputs = sample(name)
    text = outputs["main"].stdout
    for pattern, zero in ((r"(time: +)[0-9.]+s", r"\g<1>0.0000s"), (r"(events: +)\d+", r"\g<1>0")):
        bent = printing(outputs, "main", re.sub(pattern, zero, text))
        with pytest.raises(InvalidTrialError, match=r"no event|no time"):
            workload.check(parameters, bent)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_of_the_block_reaches_the_tool(name: str, tmp_path: Path) -> None:
    workload, parameters, outputs = sample(name)
    assert f"seed ({SEED + 1})" in outputs["main"].stdout
    context = replace(context_in(tmp_path, workload, parameters), seed=2**63)
    (argument,) = [a for a in workload.tasks(parameters, context)[0].argv if "--rand-seed" in a]
    assert 0 < int(argument.partition("=")[2]) < 2**31


@pytest.mark.parametrize("name", ["sysbench-cpu", "sysbench-fileio", "sysbench-threads"])
def test_time_or_events(name: str) -> None:
    model: Any = workloads.get(name).parameters_model
    assert (model().time_s, model().events) == (1, None)
    assert (model(events=7).time_s, model(events=7).events) == (None, 7)
    with pytest.raises(ValidationError, match="not both"):
        model(events=7, time_s=1)
    with pytest.raises(ValidationError, match="give time_s or events"):
        model(time_s=None)


@pytest.mark.parametrize(
    "wrong", [{"threads": 0}, {"threads": "2"}, {"threads": True}, {"threads": 2.5}, {"tread": 1}]
)
@pytest.mark.parametrize("name", NAMES)
def test_wrong_parameters(name: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        workloads.get(name).parameters_model(**wrong)


@pytest.mark.parametrize(
    ("value", "printed"),
    [(4096, "4KiB"), (1536, "1.5KiB"), (400 << 20, "400MiB"), (409_600_000, "390.62MiB")],
)
def test_sizes_as_sysbench_prints_them(value: int, printed: str) -> None:
    assert size(value) == printed


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_debian_13_in_german_gives_its_figures(name: str) -> None:
    """Recorded: another LuaJIT, and a locale with a comma for the point."""
    text = (DATA / f"debian13-de-{name}.txt").read_text()
    workload = workloads.get(name)
    parameters = workload.parameters_model(**SMALL[name])
    figures = checked(workload, parameters, {"main": Output(0, None, text, "", 1.0)})
    assert figures["total_time_s"] == float(re.findall(r"total time: +([0-9.]+)s", text)[0])
    assert "system LuaJIT 2.1.1700206165" in text
