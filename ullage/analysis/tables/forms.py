"""Results that other tools wrote as JSON: hyperfine, pytest-benchmark, Google Benchmark, ReFrame.

Each is known by what stands in it, and becomes rows as a table has them. A measurement that failed
is a row without a value. None of them ran in blocks, so their sides are compared as independent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import pyarrow as pa
from pydantic import BaseModel, BeforeValidator, FailFast, Field, TypeAdapter, ValidationError

from ullage.common.errors import TABLE_NOT_READABLE, UllageError
from ullage.common.regular import read_document
from ullage.runs.records import Better

MOST_BYTES: Final = 16 << 20
"""Of a file: JSON takes a hundred bytes of memory for some of its characters."""
_MOST_VALUES: Final = 2_000_000
ToolNumber = Annotated[float, Field(allow_inf_nan=False, ge=-1e300, le=1e300)]
ToolName = Annotated[str, Field(max_length=10_000)]
T = TypeVar("T")
Several = Annotated[list[T], FailFast()]
"""The first fault is enough: a note of each would take all the memory."""
NO_VARIABLE: Final = "performance"
"""Of a test of ReFrame that failed each time: what it would have measured stands nowhere."""
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class FormRow:
    """One measurement; None: it failed."""

    environment: str
    workload: str
    metric: str
    value: float | None
    unit: str
    better: Better | None


class Form(BaseModel):
    """A document of one tool."""

    @abstractmethod
    def rows(self) -> Iterable[FormRow]:
        """Its measurements; ValueError where two lists of them do not match."""


class _Failure(BaseModel):
    """What an export of a run adds where the tool itself has no place for it."""

    name: ToolName


class _HyperfineResult(BaseModel):
    command: ToolName
    times: Several[ToolNumber]
    exit_codes: Several[int | None] = []


class Hyperfine(Form):
    """`hyperfine --export-json`: each command is an environment."""

    results: Several[_HyperfineResult] = Field(min_length=1)
    failed: Several[_Failure] = []

    def rows(self) -> Iterable[FormRow]:
        for result in self.results:
            codes = result.exit_codes or [0] * len(result.times)
            for seconds, code in zip(result.times, codes, strict=True):
                value = seconds if code == 0 else None
                yield FormRow(result.command, "command", "time", value, "s", "lower")
        for failure in self.failed:
            yield FormRow(failure.name, "command", "time", None, "s", "lower")


class _PytestStats(BaseModel):
    data: Several[ToolNumber] = Field(min_length=1)


class _PytestBenchmark(BaseModel):
    fullname: ToolName
    group: ToolName | None = None
    stats: _PytestStats


class _PytestFailure(_Failure):
    group: ToolName | None = None


class PytestBenchmark(Form):
    """`pytest --benchmark-json`: each benchmark is an environment, a group is a workload."""

    machine_info: dict[str, Any]
    benchmarks: Several[_PytestBenchmark] = Field(min_length=1)
    failed: Several[_PytestFailure] = []

    def rows(self) -> Iterable[FormRow]:
        for benchmark in self.benchmarks:
            for seconds in benchmark.stats.data:
                group = benchmark.group or "benchmark"
                yield FormRow(benchmark.fullname, group, "time", seconds, "s", "lower")
        for failure in self.failed:
            group = failure.group or "benchmark"
            yield FormRow(failure.name, group, "time", None, "s", "lower")


class _GoogleResult(BaseModel):
    name: ToolName
    run_name: ToolName | None = None
    run_type: str = "iteration"
    real_time: ToolNumber | None = None
    time_unit: Literal["ns", "us", "ms", "s"] = "ns"
    error_occurred: bool = False


class GoogleBenchmark(Form):
    """`--benchmark_format=json`: each benchmark is an environment; aggregates are left out."""

    context: dict[str, Any]
    benchmarks: Several[_GoogleResult] = Field(min_length=1)

    def rows(self) -> Iterable[FormRow]:
        for result in self.benchmarks:
            if result.run_type == "iteration":
                name = result.run_name or result.name
                lost = result.error_occurred or result.real_time is None
                value = None if lost else (result.real_time or 0.0) * _SECONDS[result.time_unit]
                yield FormRow(name, "benchmark", "time", value, "s", "lower")


class _ReframeVariable(BaseModel):
    name: ToolName
    value: ToolNumber | None
    unit: ToolName | None = None


def _some(variables: object) -> object:
    """ReFrame writes null where there are none."""
    return [] if variables is None else variables


class _ReframeCase(BaseModel):
    name: ToolName
    system: ToolName | None = None
    environ: ToolName | None = None
    result: ToolName = "pass"
    fail_phase: ToolName | None = None
    perfvars: Annotated[Several[_ReframeVariable], BeforeValidator(_some)] = []

    @property
    def lost(self) -> bool:
        """It failed; but one that is only off its reference was measured."""
        return self.result not in ("pass", "skip") and self.fail_phase != "performance"


class _ReframeRun(BaseModel):
    testcases: Several[_ReframeCase]


class Reframe(Form):
    """`reframe --report-file`: a system with its environment is one here, a test is a workload.

    A case that failed has no value of any variable that the others of its test have.
    """

    session_info: dict[str, Any]
    runs: Several[_ReframeRun] = Field(min_length=1)

    def rows(self) -> Iterable[FormRow]:
        cases = [case for run in self.runs for case in run.testcases]
        units: dict[str, dict[str, str]] = {case.name: {} for case in cases}
        for case in cases:
            units[case.name] |= {v.name: v.unit or "" for v in case.perfvars}
        for case in cases:
            environment = f"{case.system or ''}:{case.environ or ''}".strip(":")
            values = {v.name: v.value for v in case.perfvars}
            if case.lost:
                values = dict.fromkeys(units[case.name] or (NO_VARIABLE,))
            for name, value in values.items():
                unit = units[case.name].get(name, "")
                yield FormRow(environment, case.name, name, value, unit, None)


FORMS: Final[Mapping[str, type[Form]]] = {
    "hyperfine": Hyperfine,
    "pytest-benchmark": PytestBenchmark,
    "Google Benchmark": GoogleBenchmark,
    "ReFrame": Reframe,
}
"""By the fields that each must have; none has those of another."""


def read(file: Path) -> list[FormRow]:
    """The rows of a file of one of these tools. TABLE_NOT_READABLE for any other JSON."""
    try:
        data = read_document(file, MOST_BYTES, values=_MOST_VALUES)
        document = TypeAdapter(dict[str, Any]).validate_json(data)
    except (OSError, ValueError) as error:
        most = f"{MOST_BYTES:,} bytes and {_MOST_VALUES:,} values"
        raise _unreadable(file, f"it is no JSON document of up to {most}") from error
    for model in FORMS.values():
        needed = {name for name, field in model.model_fields.items() if field.is_required()}
        if needed <= document.keys():
            return _rows(file, model, document)
    raise _unreadable(file, f"it is JSON of none of {', '.join(FORMS)}")


def columns(file: Path) -> dict[str, Any]:
    """Role → column, as `file.load` gives them."""
    rows = read(file)
    texts: dict[str, list[str] | list[Better | None]] = {
        "environment": [row.environment for row in rows],
        "workload": [row.workload for row in rows],
        "metric": [row.metric for row in rows],
        "unit": [row.unit for row in rows],
        "better": [row.better for row in rows],
    }
    if not any(texts["better"]):
        del texts["better"]
    value = pa.chunked_array([[row.value for row in rows]], type=pa.float64())
    return {"value": value, **{role: _coded(column) for role, column in texts.items()}}


def _coded(column: Sequence[str | None]) -> Any:
    """As a dictionary: a name of some kilobytes may stand in a million rows."""
    numbers: dict[str, int] = {}
    codes = [None if text is None else numbers.setdefault(text, len(numbers)) for text in column]
    words = pa.array(list(numbers), type=pa.string())
    coded = pa.DictionaryArray.from_arrays(pa.array(codes, type=pa.int32()), words)
    return pa.chunked_array([coded])


def _rows(file: Path, model: type[Form], document: dict[str, Any]) -> list[FormRow]:
    try:
        rows = list(model.model_validate(document).rows())
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise _unreadable(file, f"{place}: {fault['msg']}") from error
    except ValueError as error:
        raise _unreadable(file, "it has not one exit code for each time") from error
    if not rows:
        raise _unreadable(file, "it holds no measurements of its own")
    return rows


def _unreadable(file: Path, reason: str) -> UllageError:
    advice = (
        "the tool must write single measurements (`--benchmark-save-data`,"
        " `--benchmark_repetitions=20`); of other JSON DuckDB makes a CSV file:"
        " `copy (select … from read_json('FILE')) to 'table.csv'`"
    )
    return UllageError(TABLE_NOT_READABLE, file=file, reason=reason, suggestion=advice)
