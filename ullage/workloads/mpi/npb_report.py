"""Reading what NAS Parallel Benchmarks print: one block of fixed labels, in all their versions.

The block is that of `print_results.f` and `c_print_results.c` of NPB 3 (NASA Ames; NAS-99-011):
kernels of ours print it, and so do the originals in Fortran and C.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.workloads.base import InvalidTrialError
from ullage.workloads.output import check_length, quoted

_BEGIN: Final = re.compile(r" ([A-Z]{2}) Benchmark Completed\.?")
_END: Final = " Compile options:"
_LABELLED: Final = re.compile(r" ([A-Z][A-Za-z/ ]{2,15}?) *= *(\S.*)")
_OPTION: Final = re.compile(r"    ([A-Z0-9_]{2,10}) *= ?(.*)")
LONGEST_LINE: Final = 400
"""Characters: theirs have up to about a hundred, for compiler flags."""
_COUNT: Final = re.compile(r"[0-9]{1,15}")
_NUMBER: Final = re.compile(r"[0-9]{1,15}\.([0-9]{1,9})")
_NEEDED: Final = (
    "Class",
    "Size",
    "Iterations",
    "Time in seconds",
    "Mop/s total",
    "Operation type",
    "Verification",
)
_ALLOWED: Final = frozenset(
    {
        *_NEEDED,
        "Total processes",
        "Active processes",
        "Compiled procs",
        "Total threads",
        "Avail threads",
        "Mop/s/process",
        "Mop/s/thread",
        "Version",
        "Compile date",
    }
)


@dataclass(frozen=True)
class Rounded:
    """A figure as printed: so many units, rounded to so many decimal places."""

    value: float
    half: float
    """Half a unit of the last place."""


@dataclass(frozen=True)
class Npb:
    """What a kernel printed of a run."""

    kernel: str
    """`CG`."""
    size_class: str
    """`A`."""
    size: str
    """`14000`, `64x64x64`."""
    iterations: int
    seconds: Rounded
    """s."""
    mops: Rounded
    """Millions of operations in a second, of all processes and threads."""
    processes: int | None
    threads: int | None
    operation: str
    """What is counted: `floating point`, `keys ranked`."""
    verified: bool
    options: Mapping[str, str]
    """How it was compiled: `CC`, `CFLAGS`, or what the Fortran version calls them."""

    @property
    def rate(self) -> float:
        """Operations in a second, 1/s."""
        return self.mops.value * 1e6

    def did(self, operations: float) -> bool:
        """Whether rate × time is that number of operations, as far as the rounding lets one see."""
        done = self.rate * self.seconds.value
        slack = 1e6 * (
            self.mops.half * self.seconds.value
            + self.seconds.half * self.mops.value
            + self.mops.half * self.seconds.half
        )
        return abs(done - operations) <= 1.001 * slack + 1e-9 * operations


def read(text: str) -> Npb:
    """The one report in the text. InvalidTrialError when there is none, two, or another form."""
    check_length(text)
    lines = text.split("\n")
    begins = [(i, title) for i, line in enumerate(lines) if (title := _BEGIN.fullmatch(line))]
    if len(begins) != 1:
        raise InvalidTrialError(f"printed {len(begins)} reports, expected 1")
    ((begin, name),) = begins
    try:
        end = lines.index(_END, begin)
    except ValueError:
        raise InvalidTrialError(f"its report ends before the line {_END!r}") from None
    return _report(name[1], dict(_labelled(lines[begin + 1 : end])), _options(lines[end + 1 :]))


def _labelled(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Label and value of each line."""
    labels: set[str] = set()
    for line in lines:
        if not line:
            continue
        match = _LABELLED.fullmatch(line) if len(line) <= LONGEST_LINE else None
        if match is None or match[1] not in _ALLOWED or match[1] in labels:
            raise InvalidTrialError(f"a line that its report cannot have: {quoted(line)}")
        labels.add(match[1])
        yield match[1], match[2].rstrip(" ")
    missing = [label for label in _NEEDED if label not in labels]
    if missing:
        raise InvalidTrialError(f"its report lacks {missing[0]!r}")


def _options(lines: Sequence[str]) -> dict[str, str]:
    """The lines up to the first that is no option."""
    options: dict[str, str] = {}
    for line in lines:
        option = _OPTION.fullmatch(line) if len(line) <= LONGEST_LINE else None
        if option is None:
            break
        options[option[1]] = option[2].strip()[:200]
    return options


def _report(kernel: str, values: Mapping[str, str], options: Mapping[str, str]) -> Npb:
    verification = values["Verification"]
    if verification not in {"SUCCESSFUL", "UNSUCCESSFUL"}:
        raise InvalidTrialError(f"Verification: {quoted(verification)}")
    return Npb(
        kernel=kernel,
        size_class=values["Class"][:10],
        size=values["Size"][:40].replace(" ", ""),
        iterations=_count(values, "Iterations") or 0,
        seconds=_positive(values, "Time in seconds"),
        mops=_positive(values, "Mop/s total"),
        processes=_count(values, "Total processes"),
        threads=_count(values, "Total threads"),
        operation=values["Operation type"][:40],
        verified=verification == "SUCCESSFUL",
        options=options,
    )


def _count(values: Mapping[str, str], label: str) -> int | None:
    text = values.get(label)
    if text is None:
        return None
    if not _COUNT.fullmatch(text):
        raise InvalidTrialError(f"{label} is not a count: {quoted(text)}")
    return int(text)


def _positive(values: Mapping[str, str], label: str) -> Rounded:
    match = _NUMBER.fullmatch(values[label])
    if match is None or float(match[0]) == 0:
        raise InvalidTrialError(f"{label} is not a positive number: {quoted(values[label])}")
    return Rounded(float(match[0]), 0.5 * 10.0 ** -len(match[1]))
