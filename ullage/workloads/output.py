"""Reading what tools print, exactly: what is not as expected makes the trial invalid.

What comes out of an instance is untrusted, so nothing is guessed or skipped here, and every
quotation is short and printable.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.runs.records import Coordinate
from ullage.workloads.base import InvalidTrialError, Output, Outputs

LONGEST_REPORT = 1 << 20
"""Characters. No tool that we read line by line prints as much."""


@dataclass(frozen=True)
class ReportLine:
    """One line that a report must have."""

    like: str
    pattern: re.Pattern[str]


def line(*parts: str | tuple[str, int]) -> ReportLine:
    """A line made of literal text and of figures, each given as (name, decimal places).

    A figure is decimal digits with exactly so many places, and may be padded with blanks: no sign,
    exponent, `nan` or `inf` is one.
    """
    like, pattern = "", ""
    for part in parts:
        if isinstance(part, str):
            like += part
            pattern += re.escape(part)
        else:
            name, places = part
            fraction = rf"\.[0-9]{{{places}}}" if places else ""
            like += f"<{name}>"
            pattern += rf" *(?P<{name}>[0-9]{{1,15}}{fraction})"
    return ReportLine(like, re.compile(pattern))


def read_lines(text: str, expected: Sequence[ReportLine]) -> dict[str, float]:
    """The figures of a report with exactly the expected lines, in order, empty ones aside.

    Raises InvalidTrialError with the first line that differs.
    """
    check_length(text)
    figures: dict[str, float] = {}
    lines = [(number, content) for number, content in enumerate(text.split("\n"), 1) if content]
    for numbered, want in zip_longest(lines, expected):
        if numbered is None:
            raise InvalidTrialError(f"its report ends before the line {want.like!r}")
        number, content = numbered
        if want is None:
            raise InvalidTrialError(f"line {number} is one too many: {quoted(content)}")
        match = want.pattern.fullmatch(content)
        if not match:
            raise InvalidTrialError(
                f"line {number}: expected {want.like!r}, found {quoted(content)}"
            )
        figures |= {name: float(figure) for name, figure in match.groupdict().items()}
    return figures


def check_length(text: str, longest: int = LONGEST_REPORT, prefix: str = "") -> None:
    """Raises InvalidTrialError for more characters than any report has."""
    if len(text) > longest:
        raise InvalidTrialError(f"{prefix}printed {len(text)} characters, which is not its report")


Echo = tuple[str, object, object]
"""A setting; the value that was asked for; the value that the program reports."""


def check_echoes(*echoes: Echo) -> None:
    """Raises InvalidTrialError unless each setting is reported as asked for; floats, nearly."""
    for setting, requested, reported in echoes:
        equal = requested == reported
        if isinstance(requested, float) and isinstance(reported, float):
            equal = math.isclose(requested, reported, rel_tol=1e-9, abs_tol=1e-12)
        if not equal:
            raise InvalidTrialError(
                f"{setting}: asked for {requested}, found {quoted(str(reported))}"
            )


def output_of(outputs: Outputs, role: str, status: int = 0) -> Output:
    """The output of a role's program, which must have ended by itself with this status."""
    if role not in outputs:
        raise InvalidTrialError(f"there is no output of {role}")
    output = outputs[role]
    if output.signal is not None:
        raise InvalidTrialError(f"{role} was ended by signal {output.signal}{_complaint(output)}")
    if output.status != status:
        raise InvalidTrialError(
            f"{role} ended with status {output.status}, expected {status}{_complaint(output)}"
        )
    return output


def quoted(text: str, limit: int = 100) -> str:
    """Untrusted text as it may stand in a message: one line, printable, short."""
    return ascii(text) if len(text) <= limit else f"{text[:limit]!a}…"


def _complaint(output: Output) -> str:
    """The program's own complaint: its first line that is marked as one, else of its stderr."""
    lines = [s for s in f"{output.stderr[:4096]}\n{output.stdout[-4096:]}".split("\n") if s.strip()]
    marked = [s for s in lines if re.match(r"(FATAL|ERROR|error|fatal)\b", s.strip())]
    if marked:
        return f": {quoted(marked[0].strip())}"
    return f": {quoted(lines[0].strip())}" if output.stderr.strip() else ""


QUANTILE: Final = Coordinate(name="quantile", unit="1", scale="quantile")
"""What a distribution runs along: the share of the events that took no longer."""

SAMPLES_ABOVE: Final = 5
"""A quantile with fewer events above it would be a single event's tale."""

LONGEST: Final = 1 << 16
"""Characters of a report, unless its workload expects more."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]
"""Of a program that counts in 64 bits."""
DoubleCount = Annotated[int, Field(ge=0, lt=1 << 53)]
"""Of one that counts in doubles."""


Seconds = Annotated[float, Field(ge=0, lt=1e9)]


class ReportPart(BaseModel):
    """A part of a report; fields not named in it do not matter to us."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class ExactReportPart(ReportPart):
    """One of a program of ours: a field not named in it is a fault."""

    model_config = ConfigDict(extra="forbid")


M = TypeVar("M", bound=BaseModel)


def read(model: type[M], text: str, program: str = "", *, longest: int = LONGEST) -> M:
    """The report as that model; raises InvalidTrialError with the first fault.

    program: where there are several, begins the message.
    """
    prefix = f"{program}: " if program else ""
    check_length(text, longest, prefix)
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the whole"
        raise InvalidTrialError(
            f"{prefix}its JSON is not a report: {quoted(where)}: {fault['msg']}; "
            f"begins {quoted(text, 60)}"
        ) from None
