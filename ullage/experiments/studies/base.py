"""What a study is: published figures recomputed, plans that ask the question again, and answers.

A study is a folder here: `README.md`, `published/*.csv`, its plans, and `study.py` with a class,
which the folder's `__init__.py` names. This is the analysis side: nothing here imports the engine.
"""

from __future__ import annotations

import csv
import hashlib
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field

from ullage.common.errors import STUDY_CHANGED, UllageError
from ullage.runs.records import Record

README: Final = "README.md"
PUBLISHED: Final = "published"
SUMS: Final = "SHA256SUMS"
"""Beside the published files, as `sha256sum` writes it."""
_TIE: Final = 1e-9
"""A half stays a half, though binary fractions miss it."""


class StudyFigure(Record):
    """One figure: recomputed from published raw figures, or from a run of our own."""

    value: float | None
    """None: it cannot be said; `why` says why not."""
    low: float | None = None
    """Bounds of its interval; None: it has none (what was measured once has no spread)."""
    high: float | None = None
    printed: str | None = None
    """As the document prints it, digit by digit: `165.7`. None: not that we know of."""
    why: str = ""
    """Of a disagreement or of a missing value: where it comes from."""

    @property
    def agrees(self) -> bool | None:
        """Does the value round to what was printed? None: there is nothing to compare.

        Half a unit of the last printed place is allowed, whichever way the original rounded.
        """
        if self.printed is None or self.value is None:
            return None
        slack = 0.5 * 10.0 ** -decimals(self.printed) * (1 + _TIE)
        return math.isclose(self.value, number(self.printed), rel_tol=1e-15, abs_tol=slack)


DerivedCell = StudyFigure | str
"""Of a table; text where a word is the answer: a verdict, a name."""


class Column(Record):
    title: str
    unit: str = ""
    """As people write it: `W`, `MiB/s`; empty for a ratio."""
    decimals: int = 4
    """With which its figures are shown; a printed one is shown as printed."""


class DerivedRow(Record):
    """A row: what it is about, and a cell for each column."""

    label: str
    cells: tuple[DerivedCell, ...]


class DerivedTable(Record):
    """A derived table: the published one, or the same made of our own runs."""

    key: str
    """Short, for programs and tests: `disk-ratios`."""
    caption: str
    of: str
    """Head of the first column: what a row is about."""
    columns: tuple[Column, ...]
    rows: tuple[DerivedRow, ...]
    notes: tuple[str, ...] = ()
    """What follows from it, and how it was made; whole sentences."""

    def figures(self) -> Iterator[tuple[DerivedRow, Column, StudyFigure]]:
        """Every figure with its place."""
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                if isinstance(cell, StudyFigure):
                    yield row, column, cell

    def value(self, row: str, column: str) -> float | None:
        """The value at a place; KeyError when there is no such figure."""
        for at, of, figure in self.figures():
            if (at.label, of.title) == (row, column):
                return figure.value
        raise KeyError((row, column))


class StudyPlan(Record):
    name: str
    """The `name:` in the file, by which its run folders are known: `cmu-overhead-quick`."""
    file: str
    """`quick.yaml`"""
    minutes: float
    """That it takes on a quiet 2-core machine, the image apart."""
    disk_gib: float = 0
    """That its files take of ullage's data directory, all environments together."""
    disks: bool = False
    """It compares disks that the user names; without them it is left out."""
    elastic: bool = False
    """It is for `ullage elastic run`."""
    clock: bool = False
    """It says what `ullage clock` is to measure (`studies.clockrun`)."""
    cloud: bool = Field(False, exclude_if=lambda flag: not flag)
    """It makes instances of a cloud of the user's; without one it is left out."""
    by_name: bool = Field(False, exclude_if=lambda flag: not flag)
    """It is run where `--plan` names it, and else left out: it needs what few hosts have."""
    room_of: str = Field("", exclude_if=lambda name: not name)
    """It is elastic, and a node's room is what a run of this plan has measured: where `room:` of
    its text names that plan, the path of the run stands when it is run."""


Along = Literal["rows", "columns"]
"""What lines go along. `rows`: places are what stands last in a row's label, `lxc, 4`, and lines
the rest of it and the columns; `columns`: places are the columns' titles, and lines the rows."""


class StudyChart(Record):
    """A published table and our own, drawn beside each other: as bars, or as lines."""

    title: str
    published: str
    """Key of the table; empty: nothing was published that could be drawn."""
    columns: tuple[str, ...]
    fresh: str = ""
    """How the key of a table of ours begins: `streams`; empty: none."""
    fresh_columns: tuple[str, ...] = ()
    """Empty: all that have the last one's unit."""
    along: Along | None = None
    """Of the published table: lines; None: bars."""
    fresh_along: Along | None = None


class Coverage(Record):
    """How many published figures of one kind the full plans have a counterpart of."""

    of: str
    """What they are, in a few words."""
    file: str
    """`published/FILE.csv`, in which they stand."""
    columns: tuple[str, ...]
    """Each cell of these that is not empty is one figure."""
    fresh: int
    """So many have one of the same setting."""
    missing: str = ""
    """What the others want."""


CsvRows = list[dict[str, str]]
Read = Callable[[str], CsvRows]
"""`published/NAME.csv` as rows."""


class Study(ABC):
    """One of the studies.

    `name` is that of its folder, with dashes; all names of its plans begin with it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    """One sentence that ends with a question mark."""
    source: ClassVar[str]
    """What was published, by whom and when, as it is called in a sentence."""
    needs: ClassVar[tuple[str, ...]]
    """What the host must have, each in a few words: `root`, `the image`."""

    charts: ClassVar[tuple[StudyChart, ...]] = ()
    """What its page draws."""

    @abstractmethod
    def tables(self) -> tuple[DerivedTable, ...]:
        """Each published derived table, recomputed from the published raw figures.

        A figure that does not agree with the printed one says why.
        """

    @abstractmethod
    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """What to run, in this order, in the quick form or in the full one."""

    @abstractmethod
    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """The same questions answered by runs of our own, with intervals, beside the published.

        `runs`: name of a plan → run folder, all of one form (quick or full). A plan may be missing:
        then what would rest on it is left out. Raises what opening a run folder raises.
        """

    def coverage(self) -> tuple[Coverage, ...]:
        """What of the published figures a full run here has a counterpart of, a kind each."""
        return ()

    @property
    def folder(self) -> Path:
        return Path(inspect.getfile(type(self))).parent

    def readme(self) -> str:
        """Question, method, what the original got wrong and how we avoid it; Markdown."""
        return (self.folder / README).read_text(encoding="utf-8")

    def published(self, name: str) -> CsvRows:
        """The rows of `published/NAME.csv`, as they were transcribed. STUDY_CHANGED."""
        file = self.folder / PUBLISHED / f"{name}.csv"
        content = file.read_bytes()
        checksum = hashlib.sha256(content).hexdigest()
        sums = file.with_name(SUMS)
        if f"{checksum}  {file.name}" not in sums.read_text(encoding="ascii").splitlines():
            raise UllageError(STUDY_CHANGED, path=file, sums=SUMS)
        return list(csv.DictReader(content.decode().splitlines()))


def number(printed: str) -> float:
    """A printed figure as a number; thousands may be apart by commas."""
    return float(printed.replace(",", ""))


def decimals(printed: str) -> int:
    """How many decimals a printed figure has."""
    return len(printed.partition(".")[2])
