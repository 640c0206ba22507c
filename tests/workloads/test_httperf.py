"""`httperf`: its recorded reports, and what is no report of it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.web_samples import bent, printing, sample
from tests.workloads.workload_runs import without_a_line
from ullage.workloads.base import Context, InvalidTrialError
from ullage.workloads.web.httperf import Httperf, HttperfParameters

HTTPERF = Httperf()
SCRIPT = [
    [
        {"document": "4KiB", "objects": ["1KiB", "2KiB", "64KiB"], "think_s": 0.1},
        {"document": "1KiB"},
    ],
    [{"document": "10KiB"}],
]


def parameters_of(mode: str, **fields: Any) -> HttperfParameters:
    """What the recorded runs were asked for."""
    of_mode: dict[str, dict[str, Any]] = {
        "sessions": {},
        "rate": {"server": "apache2", "rate": 300, "connections": 300, "calls": 2},
        "script": {"sessions": 6, "script": SCRIPT},
    }
    return HttperfParameters.model_validate({"mode": mode, **of_mode[mode], **fields})


def text_of(name: str = "sessions") -> str:
    return sample("httperf", name, "sessions")["client"].stdout


def refused(text: str, parameters: HttperfParameters | None = None) -> str:
    printed = printing(sample("httperf", "sessions"), "client", text)
    with pytest.raises(InvalidTrialError) as caught:
        HTTPERF.check(parameters or parameters_of("sessions"), printed)
    return str(caught.value)


@pytest.mark.parametrize(
    ("mode", "replies", "seconds", "reply_s", "cpu_s"),
    [
        ("sessions", 50, 2.127, 3.7e-3, 0.28),
        ("rate", 600, 1.033, 19e-3, 0.13),
        ("script", 18, 0.438, 10.2e-3, 0.07),
    ],
)
def test_recorded_runs(
    mode: str, replies: int, seconds: float, reply_s: float, cpu_s: float
) -> None:
    parameters, outputs = parameters_of(mode), sample("httperf", mode)
    HTTPERF.check(parameters, outputs)
    figures = HTTPERF.parse(parameters, outputs)
    assert set(figures) == {metric.name for metric in HTTPERF.metrics}
    assert figures["replies"] == replies
    assert figures["reply_rate"] == replies / seconds
    assert figures["reply_time"] == pytest.approx(reply_s)
    assert figures["client_cpu_per_reply"] == pytest.approx(cpu_s / replies)
    assert figures["errors"] == 0


def test_times_below_its_resolution_are_left_out() -> None:
    text = text_of().replace("response 3.7", "response 0.0").replace("connect 0.2", "connect 0.0")
    outputs = printing(sample("httperf", "sessions"), "client", text)
    HTTPERF.check(parameters_of("sessions"), outputs)
    figures = HTTPERF.parse(parameters_of("sessions"), outputs)
    assert not {"reply_time", "connect_time"} & set(figures)
    assert "connection_time" in figures


def test_bad_answers_and_refusals_give_no_figure_though_the_status_is_0() -> None:
    three = parameters_of("sessions", sessions=3, calls=4, think_s=0.01)
    assert "bad or no replies" in refused(text_of("status-404"), three)
    twenty = parameters_of("rate", rate=100, connections=20)
    assert "connrefused 20" in refused(text_of("refused"), twenty)


def test_a_share_of_errors_may_be_allowed_and_is_told() -> None:
    text = text_of().replace("Errors: total 0 client-timo 0", "Errors: total 1 client-timo 1")
    assert "client-timo 1" in refused(text)
    allowed = parameters_of("sessions", errors_allowed=0.05)
    outputs = printing(sample("httperf", "sessions"), "client", text)
    HTTPERF.check(allowed, outputs)
    assert HTTPERF.parse(allowed, outputs)["errors"] == 1
    assert HTTPERF.facts(allowed, outputs)["errors"] == "client-timo 1"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"sessions": 9}, "asked for 9"),
        ({"calls": 6}, "asked for 10 with 60"),
        ({"document": 1025}, "1025 bytes in the mean"),
        ({"think_s": 0.5}, "it took 2.127 s"),
    ],
)
def test_another_run_is_not_what_was_asked(fields: dict[str, Any], why: str) -> None:
    assert why in refused(text_of(), parameters_of("sessions", **fields))


def test_a_report_of_another_mode() -> None:
    assert "ends before" in refused(text_of("rate"))
    assert "one too many" in refused(text_of(), parameters_of("rate"))


def test_figures_that_contradict_each_other() -> None:
    assert "not their sum" in refused(text_of().replace("total 0 client", "total 2 client"))
    assert "contradict" in refused(text_of().replace("replies 50", "replies 51"))
    assert "contradict" in refused(text_of().replace("2xx=50", "2xx=49"))


def test_every_line_is_needed() -> None:
    for text in without_a_line(text_of()):
        assert refused(text)


def test_another_locale_or_version_is_not_guessed_at() -> None:
    assert refused(text_of().replace("2.127 s", "2,127 s"))
    assert refused(text_of().replace("Total: connections", "Gesamt: Verbindungen"))
    assert refused(text_of().replace("response 3.7", "response nan"))
    assert refused(text_of().replace("response 3.7", "response -3.7"))


@settings(max_examples=250, deadline=None)
@given(text=bent(text_of()) | st.text())
def test_whatever_it_prints_is_invalid_or_gives_figures(text: str) -> None:
    outputs = printing(sample("httperf", "sessions"), "client", text)
    try:
        HTTPERF.check(parameters_of("sessions"), outputs)
    except InvalidTrialError:
        return
    for name, value in HTTPERF.parse(parameters_of("sessions"), outputs).items():
        assert isinstance(value, float) and 0 <= value < 1e15
        assert value > 0 or name == "errors"


def test_a_script_becomes_httperfs_file() -> None:
    parameters = parameters_of("script")
    assert parameters.session_log() == (
        "/4096 think=0.100000\n /1024\n /2048\n /65536\n/1024 think=0.000000\n\n"
        "/10240 think=0.000000\n"
    )
    assert parameters.requests == 18 and parameters.bytes == 3 * (71 * 1024 + 1024 + 10 * 1024)
    assert sorted(set(HTTPERF.documents(parameters))) == [1024, 2048, 4096, 10240, 65536]


def test_the_published_setting_is_one_connection_at_a_time() -> None:
    published = parameters_of("sessions", sessions=4, calls=15, think_s=10)
    assert published.nominal_s() == 560
    assert published.open_at_once() == 1


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"mode": "rate", "rate": 1000, "connections": 5000}, "up to 5000 connections could be"),
        ({"mode": "rate", "rate": 10}, "needs rate and connections"),
        ({"mode": "rate", "rate": 10, "connections": 10, "think_s": 1}, "has no think_s"),
        ({"mode": "sessions", "script": SCRIPT}, "has no script"),
        ({"mode": "sessions", "connections": 3}, "has no connections"),
        ({"mode": "sessions", "sessions": 2000, "rate": 1000}, "httperf can have 1000"),
        ({"mode": "sessions", "sessions": 14001}, "ports"),
        ({"mode": "script"}, "needs script"),
        ({"mode": "script", "script": SCRIPT, "calls": 3}, "has no calls"),
        ({"mode": "script", "script": [[]]}, "at least 1 item"),
        ({"mode": "script", "script": [[{"document": "1KiB", "uri": "/x"}]]}, "not permitted"),
        ({"mode": "script", "script": [[{"document": 1}] * 1000] * 4}, "characters as a file"),
    ],
)
def test_plans_that_httperf_cannot_do_are_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        HttperfParameters.model_validate(fields)


def test_the_kernel_chooses_the_ports() -> None:
    """httperf's own choice looks for ever where trials before have taken all ports."""
    for mode in ("sessions", "rate", "script"):
        parameters = parameters_of(mode)
        addresses = {"server": "10.0.0.2", "client": "10.0.0.3"}
        task = HTTPERF.client(parameters, Context(addresses, 1, 1 << 30, seed=1))
        assert "httperf" in task.argv and "--hog" not in task.argv


def test_too_few_ports_are_an_error() -> None:
    """Recorded with six ports for ten connections."""
    parameters = parameters_of("rate", rate=20, connections=10, timeout_s=1)
    with pytest.raises(InvalidTrialError, match=r"errors: other 4$"):
        HTTPERF.check(parameters, sample("httperf", "no-ports", "rate"))


def test_a_run_of_debian_13_in_german_gives_its_figures() -> None:
    parameters, outputs = parameters_of("sessions"), sample("httperf", "debian13-de")
    HTTPERF.check(parameters, outputs)
    figures = HTTPERF.parse(parameters, outputs)
    assert figures["reply_rate"] == 50 / 3.002
    assert figures["reply_time"] == pytest.approx(17.6e-3)
