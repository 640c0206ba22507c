"""Where the host's CPUs were seen in the trials of a comparison, as counters: a place each.

Only places that both sides could have are compared. Where one side has a kernel of its own, its
programs' own code runs inside of vCPUs, and what its kernel does for them too: there a place of
the host is news only if there is more of it, and code of programs and guests is the work itself.
Unless guests were looked into (`causes: guest`): then programs, and what their kernel does for
them, are compared as they were seen where they ran.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ullage.analysis.causes.counters import OF_A_CPU, Both, Counter, has_guest
from ullage.common import sums
from ullage.common.errors import RUN_BAD_FORMAT, UllageError
from ullage.common.regular import read_document
from ullage.common.text import clean
from ullage.runs.events import Trial
from ullage.runs.pairs import Pair
from ullage.runs.reader import RunFolder
from ullage.runs.records import FORMAT
from ullage.runs.symbols import GUEST_FILE, SymbolRow, Symbols, of_kernel

FILE: Final = "symbols.json"
MOST: Final = 12
"""Places that are looked at: those that were seen most, on both sides together. Each widens the
intervals of all others."""
FLOOR: Final = 0.02
"""Of a CPU: two samples in a second's trial."""
_MOST_BYTES: Final = 1 << 20
WHO: Final[Mapping[str, str]] = {
    "vcpu": "vCPUs",
    "hypervisor": "QEMU beside its vCPUs",
    "vhost": "vhost",
    "programs": "the programs",
    "ksoftirqd": "the host's threads for soft interrupts",
    "kworker": "the host kernel's workers",
    "kernel_threads": "threads of the host's kernel",
}
"""Groups that may be a cause: not ullage itself, nor what else runs on the host."""
_SHARED: Final = frozenset({"ksoftirqd", "kworker", "kernel_threads"})
"""Of these, those that work for both halves of a duet."""

ANY: Final = "*"
"""In place of a function: all of the file."""

CodePlace = tuple[str, str, str]
"""Group, object and function; the names of threads are too many to compare."""
File = tuple[str, str]
"""Group and object."""


@dataclass(frozen=True)
class _Table:
    places: Mapping[CodePlace, float]
    """Shares of a CPU."""
    whole: bool
    """There were no rows too small to keep."""
    functions: bool
    """None of programs' functions stands with its file for want of room."""
    files: Mapping[File, float]
    """Of the programs, whatever the function."""
    inside: bool = False
    """Its guests were looked into: what their programs did is among the places."""

    def share(self, place: CodePlace) -> float | None:
        """None: it may be among what was too small to keep."""
        if place[2] == ANY:
            return self.files.get((place[0], place[1]), 0.0 if self.whole else None)
        if not self.functions and _of_programs(place):
            return self.places.get(place) if place[2] else None
        return self.places.get(place, 0.0 if self.whole else None)


@dataclass
class SymbolTables:
    """The tables of a run's trials, each read once."""

    folder: RunFolder
    _read: dict[str, _Table | None] = field(default_factory=dict)

    def share(self, trial: Trial, place: CodePlace) -> float | None:
        """Of a CPU. RUN_BAD_FORMAT for a table that is none.

        None: there is no table, or the place may be among the rows that were too small to keep.
        """
        table = self._of(trial)
        return table.share(place) if table is not None else None

    def counters(self, pairs: Sequence[Pair]) -> list[Counter]:
        """The places that were seen most in pairs of trials, both sides counted together."""
        totals: dict[CodePlace, float] = defaultdict(float)
        unequal, seen_inside = self._unequal(pairs), False
        for pair in pairs:
            mine, theirs = self._of(pair.environment), self._of(pair.baseline)
            if mine is None or theirs is None:
                continue
            known = _programs_are_known(pair, mine, theirs)
            seen_inside |= known and (mine.inside or theirs.inside)
            for place, share in (*mine.places.items(), *theirs.places.items()):
                if _is_news(place, pair, known):
                    totals[(*place[:2], ANY) if place[:2] in unequal else place] += share
        most = sorted(totals, key=lambda place: (-totals[place], place))[:MOST]
        return [
            Seen(
                _name(place),
                _words(place, inside := seen_inside and place[0] == "programs"),
                OF_A_CPU,
                FLOOR,
                "time",
                self,
                place,
                inside,
            )
            for place in most
        ]

    def _unequal(self, pairs: Sequence[Pair]) -> set[File]:
        """Files of programs whose functions one side tells and the other does not.

        That is how they were looked at, and no difference: they are compared as a whole.
        """
        mine = _Files.of(self._of(pair.environment) for pair in pairs)
        theirs = _Files.of(self._of(pair.baseline) for pair in pairs)
        return (mine.with_functions ^ theirs.with_functions) & mine.files & theirs.files

    def _of(self, trial: Trial) -> _Table | None:
        if trial.trial not in self._read:
            self._read[trial.trial] = self._table(trial)
        return self._read[trial.trial]

    def _table(self, trial: Trial) -> _Table | None:
        table = read(self.folder, trial)
        if table is None:
            return None
        inside = read(self.folder, trial, GUEST_FILE)
        places: dict[CodePlace, float] = defaultdict(float)
        for place, share in _shares(table):
            places[place] += share
        for place, share in _shares(inside) if inside else ():
            if place[0] == "programs":
                places[place] += share
        files: dict[File, float] = defaultdict(float)
        for place, share in places.items():
            if _of_programs(place):
                files[place[:2]] += share
        tables = [table, inside] if inside else [table]
        return _Table(
            places,
            all(one.rest == 0 for one in tables),
            all(one.folded == 0 for one in tables),
            files,
            inside is not None,
        )


@dataclass(frozen=True)
class _Files:
    """Of the programs, in all trials of one side."""

    files: set[File]
    with_functions: set[File]

    @classmethod
    def of(cls, tables: Iterable[_Table | None]) -> _Files:
        places = [
            place for table in tables if table for place in table.places if _of_programs(place)
        ]
        return cls({p[:2] for p in places}, {p[:2] for p in places if p[2]})


@dataclass(frozen=True)
class Seen(Counter):
    """CPU time seen at one place."""

    tables: SymbolTables
    place: CodePlace
    inside: bool = False
    """Of programs, seen where they ran."""

    def both(self, environment: Trial, baseline: Trial) -> Both | None:
        """None without both tables; a place that is not in a table with all rows was not seen."""
        mine = self.tables.share(environment, self.place)
        theirs = self.tables.share(baseline, self.place)
        return None if mine is None or theirs is None else (mine, theirs)

    def only_more(self, environment: Trial, baseline: Trial) -> bool:
        """Where one of the two does its work inside of vCPUs."""
        return has_guest(environment) != has_guest(baseline) and not self.inside


def _programs_are_known(pair: Pair, mine: _Table, theirs: _Table) -> bool:
    """Were the programs of both looked at where they ran?"""
    sides = ((pair.environment, mine), (pair.baseline, theirs))
    return all(table.inside or not has_guest(trial) for trial, table in sides)


def _is_news(place: CodePlace, pair: Pair, programs_are_known: bool) -> bool:
    """Could it be a cause, and be seen on both sides?"""
    group, file, _ = place
    if group not in WHO or (pair.environment.partner is not None and group in _SHARED):
        return False
    if group == "vcpu":
        return of_kernel(file) or file.startswith("qemu-")
    return group != "programs" or of_kernel(file) or programs_are_known


def _of_programs(place: CodePlace) -> bool:
    """Code of a program's own files."""
    return place[0] == "programs" and not of_kernel(place[1])


def has_table(folder: RunFolder, trial: Trial) -> bool:
    """Is there one? It is not read."""
    return folder.raw(_path(trial, FILE)).is_file()


def read(folder: RunFolder, trial: Trial, file: str = FILE) -> Symbols | None:
    """A trial's table; None without one, or without a length. RUN_BAD_FORMAT if unreadable."""
    name = _path(trial, file)
    if not folder.raw(name).is_file():
        return None
    table = _parsed(folder.path, name, folder.raw(name))
    return table if table.end_ns > table.start_ns else None


def _path(trial: Trial, file: str) -> str:
    return f"trials/{trial.trial}/{file}"


def _shares(table: Symbols) -> Iterator[tuple[CodePlace, float]]:
    """Its places, and their shares of a CPU."""
    seconds = (table.end_ns - table.start_ns) / 1e9
    for row in table.rows:
        yield _place(row), row.samples / table.hz / seconds


def _parsed(folder: Path, name: str, file: Path) -> Symbols:
    try:
        return Symbols.model_validate_json(sums.opened(read_document(file, _MOST_BYTES)))
    except (OSError, ValueError) as error:  # Pydantic's own is one, and that of a checksum
        reason = f"{name} is no table of symbols"
        raise UllageError(RUN_BAD_FORMAT, path=folder, format=FORMAT, reason=reason) from error


def _place(row: SymbolRow) -> CodePlace:
    return row.group, row.object, row.symbol


def _name(place: CodePlace) -> str:
    return clean(f"symbols.{'/'.join(part for part in place if part not in ('', ANY))}", 200)


def _words(place: CodePlace, inside: bool = False) -> str:
    """`the hypervisor in the host's kernel, do_sys_poll`."""
    group, file, symbol = place
    symbol = "" if symbol == ANY else symbol
    owner = "their" if inside else "the host's"
    where = clean(f"{owner} {file}" if of_kernel(file) else file, 80)
    return f"{WHO[group]} in {where}{f', {clean(symbol, 100)}' if symbol else ''}"
