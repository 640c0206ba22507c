"""`wrk`: its recorded output, and what is no result of it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.web_samples import bent, printing, sample
from tests.workloads.workload_runs import without_a_line
from ullage.workloads.base import InvalidTrialError
from ullage.workloads.web.wrk import Wrk, WrkParameters

WRK = Wrk()
NGINX = WrkParameters(time_s=1)
APACHE = WrkParameters(time_s=1, server="apache2")


def refused(parameters: WrkParameters, text: str) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        WRK.check(parameters, printing(sample("wrk", "nginx"), "client", text))
    return str(caught.value)


def text_of(name: str = "nginx") -> str:
    return sample("wrk", name, "nginx")["client"].stdout


def changed(**fields: Any) -> str:
    head, _, last = text_of().rstrip("\n").rpartition("\n")
    return f"{head}\n{json.dumps({**json.loads(last), **fields})}\n"


@pytest.mark.parametrize(("parameters", "requests"), [(NGINX, 4723), (APACHE, 1758)])
def test_recorded_runs(parameters: WrkParameters, requests: int) -> None:
    outputs = sample("wrk", parameters.server)
    WRK.check(parameters, outputs)
    figures = WRK.parse(parameters, outputs)
    assert set(figures) == {metric.name for metric in WRK.metrics}
    result = json.loads(outputs["client"].stdout.rstrip("\n").split("\n")[-1])
    assert figures["requests_per_second"] == requests / (result["duration_us"] / 1e6)
    # 250 replies a second for a second support 0.9, and not 0.99.
    times = {int(percent): time / 1e6 for percent, time in result["points"]}
    assert figures["latency"] == [(0.5, times[50]), (0.9, times[90])]


def test_longer_trials_support_more_of_the_distribution() -> None:
    longer = WrkParameters(time_s=2)
    text = changed(duration_us=2_000_000)
    outputs = printing(sample("wrk", "nginx"), "client", text)
    WRK.check(longer, outputs)
    curve = WRK.parse(longer, outputs)["latency"]
    assert isinstance(curve, list) and [q for q, _ in curve] == [0.5, 0.9, 0.99]


def test_a_server_that_answers_with_errors_gives_no_figure() -> None:
    requested = WrkParameters(time_s=1, connections=4, threads=2)
    assert "all 25270 replies have an error's status" in refused(requested, text_of("status-404"))


@pytest.mark.parametrize("kind", ["connect", "read", "write", "status", "timeout"])
def test_an_error_is_invalid_unless_a_share_is_allowed(kind: str) -> None:
    text = changed(**{kind: 40})
    assert f"{kind} 40" in refused(NGINX, text)
    allowed = WrkParameters(time_s=1, errors_allowed=0.01)
    outputs = printing(sample("wrk", "nginx"), "client", text)
    WRK.check(allowed, outputs)
    replies = 4723 - 40 * (kind == "status")
    assert WRK.replies(allowed, outputs) == replies
    assert refused(WrkParameters(time_s=1, errors_allowed=0.001), text)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"connections": 8}, "does not say '1 threads and 8"),
        ({"connections": 16, "threads": 2}, "does not say '2 threads"),
        ({"time_s": 3}, "3 s were asked for"),
        ({"document": 2048}, "are not 6035994 bytes"),
        ({"document": 100}, "are not 6035994 bytes"),
    ],
)
def test_another_run_is_not_what_was_asked(fields: dict[str, Any], why: str) -> None:
    assert why in refused(WrkParameters(**{"time_s": 1, **fields}), text_of())


@pytest.mark.parametrize(
    "fields",
    [
        {"requests": 0},
        {"requests": -1},
        {"requests": 1e400},
        {"duration_us": 0},
        {"mean_us": float("nan")},
        {"mean_us": 1e9},
        {"min_us": 10**9},
        {"bytes": None},
        {"points": []},
        {"points": [[50, 1]]},
        {"points": [[50, 9], [90, 8], [99, 8], [99.9, 8], [99.99, 8], [99.999, 8]]},
    ],
)
def test_figures_must_be_figures(fields: dict[str, Any]) -> None:
    assert refused(NGINX, changed(**fields))


def test_no_line_that_is_needed_may_lack() -> None:
    lines = list(without_a_line(text_of()))
    assert refused(NGINX, lines[-1])
    assert "does not say" in refused(NGINX, lines[1])


@settings(max_examples=200, deadline=None)
@given(text=bent(text_of()) | st.text())
def test_whatever_it_prints_is_invalid_or_gives_figures(text: str) -> None:
    outputs = printing(sample("wrk", "nginx"), "client", text)
    try:
        WRK.check(NGINX, outputs)
    except InvalidTrialError:
        return
    for value in WRK.parse(NGINX, outputs).values():
        numbers = [value] if isinstance(value, float) else [time for _, time in value]
        assert all(0 < number < 1e12 for number in numbers)


def test_plans_that_wrk_would_not_do_as_asked_are_refused() -> None:
    with pytest.raises(ValidationError, match="would open 15 of 16"):
        WrkParameters(connections=16, threads=5)


def test_a_run_of_debian_13_in_german_gives_its_figures() -> None:
    outputs = sample("wrk", "debian13-de")
    WRK.check(NGINX, outputs)
    assert WRK.parse(NGINX, outputs)["requests_per_second"] == 15630 / 1.174016
