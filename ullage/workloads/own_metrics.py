"""Metrics that a plan defines: where each figure stands in what a program prints.

The program is a stranger: a figure is there once, as a plain number, or the trial has none. Regular
expressions are RE2's, whose time is linear in the text whatever the pattern.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Final, Literal, NoReturn

import re2
from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError
from jsonpath_rfc9535.lex import tokenize
from jsonpath_rfc9535.tokens import TokenType
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ullage.runs.records import LARGEST, Better, Metric
from ullage.workloads import printed
from ullage.workloads.base import Figures, InvalidTrialError, Output
from ullage.workloads.output import quoted
from ullage.workloads.printed import JsonNumber

_SCALES: Final = {
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "1/s": ("1/s", 1.0),
    "B": ("B", 1.0),
    "kB": ("B", 1e3),
    "MB": ("B", 1e6),
    "KiB": ("B", 1024.0),
    "MiB": ("B", 1024.0**2),
    "B/s": ("B/s", 1.0),
    "MB/s": ("B/s", 1e6),
    "MiB/s": ("B/s", 1024.0**2),
    "bit/s": ("bit/s", 1.0),
    "Mbit/s": ("bit/s", 1e6),
    "J": ("J", 1.0),
    "W": ("W", 1.0),
    "1": ("1", 1.0),
    "%": ("1", 1e-2),
}
"""A unit that a program prints → the one that we keep, and how many of it."""

_LONGEST_PATTERN: Final = 1000
_MOST_VALUES: Final = 500_000
"""Of a document: a path may have to go through all of them, some microseconds each."""

_QUIET: Final = re2.Options()
_QUIET.log_errors = False


def _json_paths() -> JSONPathEnvironment:
    environment = JSONPathEnvironment()
    for name in ("match", "search"):  # by an engine whose time has no bound
        del environment.function_extensions[name]
    return environment


def _endless(path: str) -> str | None:
    """What of it would walk through everything again for each value that there is."""
    kinds = [token.type_ for token in tokenize(path)]
    if kinds.count(TokenType.ROOT) > 1:
        return "a filter of it begins at `$`, which takes too long: give it `@`"
    if kinds.count(TokenType.DOUBLE_DOT) > 1:
        return "`..` stands in it more than once, which takes too long: name what lies between"
    return None


_JSON_PATHS: Final = _json_paths()


def _pattern(text: str) -> str:
    try:
        groups = re2.compile(text, _QUIET).groups
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        message = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"not a regular expression of RE2: {message}") from None
    if groups != 1:
        raise ValueError(f"one (group) holds the figure; it has {groups}")
    return text


def _path(text: str) -> str:
    try:
        _JSON_PATHS.compile(text)
    except JSONPathError as error:
        raise ValueError(f"not a JSON path of RFC 9535: {error}") from None
    if reason := _endless(text):
        raise ValueError(reason)
    return text


def _unit(text: str) -> str:
    if text not in _SCALES:
        raise ValueError(f"one of {', '.join(_SCALES)}")
    return text


@dataclass(frozen=True, slots=True)
class PrintedFigure:
    """One figure of one trial, in the unit that we keep."""

    value: float
    step: float | None
    """Of the last digit that was printed; None beyond all figures."""


@dataclass(frozen=True)
class Printout:
    """What a program has printed; its JSON is read once for all metrics."""

    text: str

    @property
    def last(self) -> str:
        """The last line that is not blank."""
        return self.text.rstrip().rsplit("\n", 1)[-1]

    @cached_property
    def document(self) -> Any:
        """The JSON that it is, or its last line. InvalidTrialError."""
        for part in (self.text, self.last):
            try:
                document = json.loads(
                    part,
                    object_pairs_hook=_object,
                    parse_float=JsonNumber,
                    parse_constant=_constant,
                )
            except json.JSONDecodeError:
                continue
            except (ValueError, RecursionError) as error:
                raise InvalidTrialError(f"its JSON cannot be read: {error}") from None
            if sum(map(part.count, "[{,")) > _MOST_VALUES:
                raise InvalidTrialError(f"its JSON holds over {_MOST_VALUES:,} values")
            return document
        raise InvalidTrialError(
            f"neither its output nor the last line of it is JSON; it begins {quoted(self.text, 60)}"
        )


class OwnMetric(BaseModel):
    """One figure: what it is, and where it stands."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    unit: Annotated[str, AfterValidator(_unit)] = Field(
        description="as the program prints it: `s`, `ms`, `1/s`, `MB/s` …"
    )
    better: Better = Field(description="`higher` or `lower`")
    primary: bool = Field(False, description="it gets a verdict")
    json_path: Annotated[str, AfterValidator(_path)] | None = Field(
        None,
        alias="json",
        min_length=1,
        max_length=_LONGEST_PATTERN,
        description="path of the figure, by RFC 9535, in the output or in its last line",
    )
    regex: Annotated[str, AfterValidator(_pattern)] | None = Field(
        None,
        min_length=1,
        max_length=_LONGEST_PATTERN,
        description="its one (group) is the figure; it matches once",
    )
    line: Literal["last"] | None = Field(
        None, description="the last line that is not blank is the figure"
    )
    source: Literal["stdout", "stderr"] = Field(
        "stdout", alias="from", description="where it is printed"
    )
    step: float | None = Field(
        None,
        gt=0,
        lt=1e150,
        allow_inf_nan=False,
        description="where it is coarser than its last digit: its step, in the unit",
    )

    @model_validator(mode="after")
    def _one_place(self) -> OwnMetric:
        places = [self.json_path, self.regex, self.line]
        if sum(place is not None for place in places) != 1:
            raise ValueError("give one of json, regex and line")
        return self

    def metric(self, name: str) -> Metric:
        unit, scale = _SCALES[self.unit]
        place = "standard output" if self.source == "stdout" else "standard error"
        return Metric(
            name=name,
            unit=unit,
            better=self.better,
            primary=self.primary,
            description=f"{self._where()} of its {place}.",
            resolution=None if self.step is None else self.step * scale,
        )

    def read(self, printout: Printout) -> PrintedFigure:
        """InvalidTrialError where there is not just one number."""
        if "\0" in printout.text:  # its digits stand apart, and one of them might be taken for all
            raise InvalidTrialError(
                "NUL stands between what was printed, as UTF-16 has it: have it print UTF-8; "
                f"it begins {quoted(printout.text, 60)}"
            )
        value, step = _number(self._value(printout), self._where())
        scale = _SCALES[self.unit][1]
        if not math.isfinite(value * scale):
            raise InvalidTrialError(f"{self._where()} is not a finite number")
        scaled = None if step is None else step * scale
        return PrintedFigure(value * scale, scaled if scaled and scaled <= LARGEST else None)

    def _where(self) -> str:
        if self.regex is not None:
            return f"regex {quoted(self.regex)}"
        if self.json_path is not None:
            return f"JSON path {quoted(self.json_path)}"
        return "the last line"

    def _value(self, printout: Printout) -> object:
        text = printout.text
        if self.regex is not None:
            matches = re2.compile(self.regex, _QUIET).finditer(text)
            return self._only([match.group(1) for match in islice(matches, 2)], text)
        if self.json_path is None:
            return self._only([printout.last.strip()] if printout.last else [], text)
        try:
            nodes = list(islice(_JSON_PATHS.finditer(self.json_path, printout.document), 2))
        except (JSONPathError, RecursionError) as error:
            reason = "what was printed is nested too deeply for its path"
            raise InvalidTrialError(f"{self._where()}: {reason}") from error
        return self._only([node.value for node in nodes], text)

    def _only(self, values: list[Any], text: str) -> object:
        if len(values) == 1:
            return values[0]
        how = "matches more than once" if values else "matches nothing"
        begins = f"; it begins {quoted(text, 60)}" if text else ": nothing was printed"
        raise InvalidTrialError(f"{self._where()} {how}{begins}")


OwnMetrics = Mapping[str, OwnMetric]


def read(metrics: OwnMetrics, output: Output) -> Figures:
    """All figures. InvalidTrialError names the metric that is not there."""
    return {name: reading.value for name, reading in _readings(metrics, output).items()}


def steps(metrics: OwnMetrics, output: Output) -> dict[str, float]:
    """Metric → the last digit that was printed of it."""
    readings = _readings(metrics, output)
    return {name: r.step for name, r in readings.items() if r.step is not None}


def _readings(metrics: OwnMetrics, output: Output) -> dict[str, PrintedFigure]:
    streams = {"stdout": Printout(output.stdout), "stderr": Printout(output.stderr)}
    readings = {}
    for name, metric in metrics.items():
        try:
            readings[name] = metric.read(streams[metric.source])
        except InvalidTrialError as error:
            raise InvalidTrialError(f"metric {name}: {error}") from None
    return readings


def _number(value: object, where: str) -> tuple[float, float | None]:
    """With the step of its last digit."""
    if isinstance(value, JsonNumber):
        return value, printed.step(value.text)
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value), 1.0
        except OverflowError:
            return math.inf, None
    text = value.strip() if isinstance(value, str) else json.dumps(value)
    number = printed.number(text) if isinstance(value, str) else None
    if number is None:
        raise InvalidTrialError(f"{where} is {quoted(text, 60)}, which is no number")
    return number, printed.step(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field stands twice in an object")
    return fields


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
