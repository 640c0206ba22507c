"""`web-latency`: what `ullage-load http` printed, and what is no result of it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.web_samples import bent, printing, sample
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.web.web_latency import WebLatency, WebLatencyParameters

LATENCY = WebLatency()
PARAMETERS = WebLatencyParameters(time_s=1.0)


def outputs(text: str | None = None) -> dict[str, Output]:
    printed = sample("web_latency", "nginx")
    return printed if text is None else printing(printed, "client", text)


def changed(path: str = "", value: Any = None) -> dict[str, Output]:
    result = json.loads(outputs()["client"].stdout)
    *parents, last = path.split(".")
    inner = result
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    return outputs(json.dumps(result))


def refused(printed: dict[str, Output], parameters: WebLatencyParameters = PARAMETERS) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        LATENCY.check(parameters, printed)
    return str(caught.value)


def test_a_recorded_run() -> None:
    LATENCY.check(PARAMETERS, outputs())
    figures = LATENCY.parse(PARAMETERS, outputs())
    result = json.loads(outputs()["client"].stdout)
    assert figures["latency_p50"] == result["quantiles"][0][1]
    assert figures["exchange_p50"] == result["exchange"]["quantiles"][0][1]
    assert figures["replies_per_second"] == result["answered"] / result["seconds"]
    # 500 are due in the mean, 388 at least: no trial is to tell more than the others can.
    assert figures["latency"] == [tuple(point) for point in result["quantiles"][:2]]
    assert "latency_p99" not in figures


def test_an_overloaded_generator_is_told_by_itself() -> None:
    reason = "the generator was 0.02 s late in 1 % of its events, over 0.01 s"
    result = json.loads(outputs()["client"].stdout) | {"valid": False, "reason": reason}
    assert reason in refused(outputs(json.dumps(result)))


def test_no_answer_at_all() -> None:
    printed = sample("web_latency", "refused", "nginx")
    assert "requests had an answer: 'refused'" in refused(printed)


def test_errors_are_invalid_unless_a_share_is_allowed() -> None:
    result = json.loads(outputs()["client"].stdout)
    result |= {"due": 540, "errors": {**result["errors"], "timed-out": 10}}
    printed = outputs(json.dumps(result))
    assert "10 of 540 had no answer: 'timed-out' 10" in refused(printed)
    allowed = WebLatencyParameters(time_s=1.0, errors_allowed=0.02)
    LATENCY.check(allowed, printed)
    assert LATENCY.replies(allowed, printed) == 530


def test_another_status_is_told() -> None:
    result = json.loads(outputs()["client"].stdout)
    kinds = {**result["errors"], "status": 10}
    result |= {"due": 540, "errors": kinds, "other_status": 503}
    complaint = "10 of 540 had no answer: 'status' 10 (answered 503, not 200)"
    assert complaint in refused(outputs(json.dumps(result)))
    result["other_status"] = 1000
    assert "other_status" in refused(outputs(json.dumps(result)))


def test_requests_that_nobody_accounts_for() -> None:
    assert "were answered" in refused(changed("due", 531))
    assert "were answered" in refused(changed("answered", 529))
    assert "were answered" in refused(changed("errors.status", 1))
    assert "were answered" in refused(changed("latency.count", 1))


@pytest.mark.parametrize(
    "fields",
    [
        {"rate": 400.0},
        {"spacing": "constant"},
        {"time_s": 2.0},
        {"connections": 8},
        {"keep_alive": False},
        {"think_s": 0.001},
        {"deadline_s": 1.0},
        {"late_limit_s": 0.02},
        {"document": 1025},
    ],
)
def test_another_run_is_not_what_was_asked(fields: dict[str, Any]) -> None:
    requested = WebLatencyParameters(**{"time_s": 1.0, **fields})
    assert "asked for" in refused(outputs(), requested)


def test_far_too_few_requests() -> None:
    result = json.loads(outputs()["client"].stdout)
    result |= {"due": 300, "answered": 300}
    result["latency"]["count"] = 300
    assert "500 requests were asked for, 300 were due" in refused(outputs(json.dumps(result)))


@pytest.mark.parametrize(
    "quantiles",
    [[], [[0.5, 1.0]], [[0.5, 2.0], [0.9, 1.0]], [[0.5, -1.0], [0.9, 1.0]], [[0.5, 0], [0.9, 1]]],
)
def test_a_distribution_that_is_none(quantiles: list[Any]) -> None:
    assert refused(changed("quantiles", quantiles))


@settings(max_examples=250, deadline=None)
@given(text=bent(outputs()["client"].stdout) | st.text())
def test_whatever_it_prints_is_invalid_or_gives_figures(text: str) -> None:
    printed = outputs(text)
    try:
        LATENCY.check(PARAMETERS, printed)
    except InvalidTrialError:
        return
    for value in LATENCY.parse(PARAMETERS, printed).values():
        numbers = [value] if isinstance(value, float) else [time for _, time in value]
        assert all(0 < number < 1e15 for number in numbers)


def test_plans_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValidationError, match="not enough for a median"):
        WebLatencyParameters(rate=4, time_s=2)
    with pytest.raises(ValidationError, match="cannot make 500 requests a second"):
        WebLatencyParameters(rate=500, think_s=0.1, connections=16)
