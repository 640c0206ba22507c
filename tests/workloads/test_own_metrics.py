"""Figures that a program of the user's prints: read where they are, refused where they are not."""

import json
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ullage.workloads import own_metrics
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.own_metrics import OwnMetric, read, steps


def metric(**fields: Any) -> OwnMetric:
    return OwnMetric.model_validate({"unit": "1", "better": "higher", **fields})


def figure(own: OwnMetric, stdout: str = "", stderr: str = "") -> float:
    (value,) = read({"x": own}, Output(0, None, stdout, stderr, 1.0)).values()
    assert isinstance(value, float)
    return value


def in_code(text: str, code: str) -> str:
    """As the engine reads what a program prints in another code than UTF-8."""
    return text.encode(code).decode("utf-8", "replace")


def printed(stdout: str) -> Output:
    return Output(0, None, stdout, "", 1.0)


@pytest.mark.parametrize(
    ("fields", "stdout", "expected"),
    [
        ({"regex": "rate ([0-9.]+)"}, "a\nrate 12.5\nb", 12.5),
        ({"regex": "(?m)^rate (.*)$"}, "rate 1e3\n", 1000.0),
        ({"regex": "é=(.*) é"}, "ü é=7 é", 7.0),
        ({"line": "last"}, "warm-up\n -3.25 \n\n", -3.25),
        ({"regex": "(?m)^rate (.*)$"}, "a\r\nrate 12.5\r\n", 12.5),
        ({"line": "last"}, "warm-up\r\n-3.25\r\n\r\n", -3.25),
        ({"json": "$.v"}, 'log line\r\n{"v": 17}\r\n', 17.0),
        ({"json": "$.a.b[1]"}, '{"a": {"b": [1, 2]}}', 2.0),
        ({"json": "$[?@.n == 'y'].v"}, '[{"n": "x", "v": 1}, {"n": "y", "v": 2.5}]', 2.5),
        ({"json": "$.v"}, 'log line\n{"v": "17"}\n', 17.0),
        ({"line": "last", "unit": "ms"}, "250", 0.25),
        ({"line": "last", "unit": "MiB/s"}, "2", 2.0 * (1 << 20)),
    ],
)
def test_where_a_figure_stands(fields: dict[str, Any], stdout: str, expected: float) -> None:
    assert figure(metric(**fields), stdout) == expected


@pytest.mark.parametrize(
    ("fields", "stdout", "expected"),
    [
        ({"regex": "rate ([0-9.]+)"}, "rate 20.35", 0.01),
        ({"line": "last"}, "20", 1.0),
        ({"line": "last", "unit": "ms"}, "250.0", 1e-4),
        ({"line": "last", "unit": "MiB/s"}, "2", float(1 << 20)),
        ({"json": "$.v"}, '{"v": 17.50}', 0.01),
        ({"json": "$.v"}, '{"v": "17.5"}', 0.1),
        ({"json": "$.v"}, '{"v": 17}', 1.0),
        ({"json": "$.v"}, '{"v": 1.25e-3}', 1e-5),
    ],
)
def test_the_last_digit_is_known(fields: dict[str, Any], stdout: str, expected: float) -> None:
    digits = steps({"x": metric(**fields)}, printed(stdout))
    assert digits == {"x": pytest.approx(expected)}


def test_standard_error_has_figures_too() -> None:
    assert figure(metric(line="last", **{"from": "stderr"}), "1", "2") == 2.0


@pytest.mark.parametrize(
    ("fields", "stdout", "reason"),
    [
        ({"regex": "rate (.*)"}, "", "matches nothing: nothing was printed"),
        ({"regex": "rate (.*)"}, "hello", "matches nothing; it begins 'hello'"),
        ({"regex": "rate ([0-9]+)"}, "rate 1, rate 2", "matches more than once"),
        ({"regex": "rate (.*)"}, "rate fast", "is 'fast', which is no number"),
        ({"regex": "a(b)?"}, "a", "which is no number"),
        ({"line": "last"}, "nan", "which is no number"),
        ({"line": "last"}, "1e999", "not a finite number"),
        ({"line": "last"}, "1_000", "which is no number"),
        ({"line": "last"}, "٣", "which is no number"),
        ({"line": "last"}, "9" * 100, "which is no number"),
        ({"line": "last"}, " \n ", "matches nothing"),
        ({"json": "$.a"}, "hello", "neither its output nor the last line of it is JSON"),
        ({"json": "$.a"}, '{"b": 1}', "matches nothing"),
        ({"json": "$..a"}, '[{"a": 1}, {"a": 2}]', "matches more than once"),
        ({"json": "$.a"}, '{"a": true}', "is 'true', which is no number"),
        ({"json": "$.a"}, '{"a": [1]}', "which is no number"),
        ({"json": "$.a"}, '{"a": null}', "is 'null', which is no number"),
        ({"json": "$.a"}, '{"a": 1, "a": 2}', "a field stands twice"),
        ({"json": "$.a"}, '{"a": NaN}', "NaN is no number"),
        ({"json": "$.a"}, '{"a": 1' + "0" * 400 + "}", "not a finite number"),
        ({"json": "$.a"}, "[" * 100_000, "JSON"),
        ({"regex": "([0-9]+)[^0-9]*$"}, in_code("12\r\n", "utf-16"), "as UTF-16 has it"),
        ({"line": "last"}, in_code("7\r\n", "utf-16-le"), "as UTF-16 has it"),
        ({"regex": "Größe ([0-9]+)"}, in_code("Größe 12", "cp850"), "it begins 'Gr\\ufffd"),
    ],
)
def test_what_is_no_figure_is_named(fields: dict[str, Any], stdout: str, reason: str) -> None:
    with pytest.raises(InvalidTrialError) as refused:
        figure(metric(**fields), stdout)
    assert str(refused.value).startswith("metric x: ") or "JSON" in str(refused.value)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({}, "give one of json, regex and line"),
        ({"line": "last", "regex": "(a)"}, "give one of"),
        ({"regex": "rate"}, "one \\(group\\) holds the figure; it has 0"),
        ({"regex": "(a)(b)"}, "it has 2"),
        ({"regex": "(a"}, "not a regular expression of RE2: missing \\)"),
        ({"regex": "(?=a)(b)"}, "not a regular expression of RE2"),
        ({"json": "$.["}, "not a JSON path"),
        ({"json": "$[?search(@.a, '(a*)*b')]"}, "not a JSON path"),
        ({"json": "$[?count($..*)>1].a"}, "begins at `\\$`"),
        ({"json": "$[?@[?$.b]].a"}, "begins at `\\$`"),
        ({"json": "$..*..x"}, "more than once"),
        ({"json": "$..[?count(@..*)>1].a"}, "more than once"),
        ({"line": "last", "unit": "furlong"}, "one of s, ms"),
        ({"line": "last", "step": 0}, "greater than 0"),
        ({"line": "last", "better": "sideways"}, "'higher' or 'lower'"),
    ],
)
def test_metrics_that_are_none(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        metric(**wrong)


@pytest.mark.parametrize("missing", ["unit", "better"])
def test_unit_and_direction_are_required(missing: str) -> None:
    fields = {"unit": "s", "better": "lower", "line": "last"}
    with pytest.raises(ValidationError, match=missing):
        OwnMetric.model_validate({name: v for name, v in fields.items() if name != missing})


def test_what_is_kept_of_its_definition() -> None:
    kept = metric(line="last", unit="ms", better="lower", step=0.1).metric("frame")
    assert (kept.name, kept.unit, kept.better) == ("frame", "s", "lower")
    assert kept.resolution == pytest.approx(1e-4)
    assert not kept.primary


def test_a_pattern_that_would_keep_others_busy_for_years_does_not() -> None:
    with pytest.raises(InvalidTrialError, match="matches nothing"):
        figure(metric(regex="(?:a*)*(b)c"), "a" * 100_000)


@given(st.text())
def test_any_output_is_a_figure_or_refused(stdout: str) -> None:
    for fields in ({"regex": "([0-9]+)"}, {"line": "last"}, {"json": "$..*"}):
        try:
            value = figure(metric(**fields), stdout)
        except InvalidTrialError:
            continue
        assert value == value
        assert all(s > 0 for s in steps({"x": metric(**fields)}, printed(stdout)).values())


def test_a_document_that_is_nested_too_deeply_has_no_figure() -> None:
    with pytest.raises(InvalidTrialError):
        figure(metric(json="$..x"), "[" * 400 + "]" * 400)


@pytest.mark.parametrize("path", ["$..x", "$..[?@.x > 1]", "$.x"])
def test_a_document_of_too_many_values_is_not_walked_through(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight megabytes of empty lists would hold the run for a quarter of a minute a metric."""
    metrics = {f"m{number}": metric(json=path) for number in range(64)}
    walk = Mock(side_effect=AssertionError("it is walked"))
    monkeypatch.setattr(own_metrics, "_JSON_PATHS", Mock(finditer=walk))
    with pytest.raises(InvalidTrialError, match="over 500,000 values"):
        read(metrics, printed("[" + ",".join(["[]"] * 250_001) + "]"))


def test_json_is_read_once_for_all_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def watched(text: str, **_: Any) -> Any:
        texts.append(text)
        return {"x": 1}

    monkeypatch.setattr(json, "loads", watched)
    metrics = {name: metric(json="$.x") for name in "abc"}
    assert read(metrics, Output(0, None, "{}", "", 1.0)) == {"a": 1.0, "b": 1.0, "c": 1.0}
    assert texts == ["{}"]
