"""What `perf script` prints, folded: samples by group, program, object and function, in windows.

Names of threads and files are what the programs gave themselves: a line that is not exactly as
expected is no sample, and what is kept is short and printable. A thread's name is too short to look
like a line. A file's is not, and perf prints it as it is: a program of such a name, with line ends
in it, can have us count samples, forks and losses that never were, and nothing in the text tells
them apart. So a table is no proof against a program that wants to deceive; whatever it says, it is
one table's numbers and harmless words, and no figure of the run rests on it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ullage.meters import crowd
from ullage.meters.crowd import Group
from ullage.printable import clean
from ullage.runs import LEAST_BIN_NS, MOST_BINS, GroupOverTime, SymbolRow

FIELDS: Final = "comm,pid,tid,time,ip,sym,dso"
"""What `perf script -F` is to print, with `--ns`, task events and lost events."""
MOST_ROWS: Final = 100
_MOST_KEYS: Final = 5_000
"""Different rows that a window can have: a program that gives its threads ever new names has no
more."""

_SAMPLE: Final = re.compile(
    r"(?P<comm>.*?)\s+(?P<pid>-?\d{1,10})/-?\d{1,10}\s+(?P<s>\d{1,10})\.(?P<ns>\d{9}):\s+(?P<what>.*)"
)
_PLACE: Final = re.compile(r"(?P<ip>[0-9a-f]{1,16}) (?P<symbol>.*?) \((?P<object>[/\[].*|[^()]+)\)")
_FORK: Final = re.compile(r"PERF_RECORD_FORK\((\d{1,10}):\d{1,10}\):\((\d{1,10}):\d{1,10}\)")
_LOST: Final = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\D*(?:lost )?(\d{1,18})")
_NUMBER: Final = re.compile(r"\d+")
_CLONED: Final = re.compile(r"\.(isra|constprop|part|cold|llvm)(\.\d+)*")
"""What compilers append to the names of copies of a function."""
_WIDE: Final = 16
"""Digits of an address in the kernel's half."""
_MADE: Final = re.compile(r"/tmp/perf-\d+\.map|//anon|/memfd:.*|anon_inode:.*|/dev/zero.*")  # noqa: S108
_UNKNOWN: Final = "[unknown]"
_DEEP: Final = 64

Key = tuple[Group, str, str, str]


@dataclass
class Window:
    """A trial, on the clock of the samples."""

    start_ns: int
    end_ns: int
    roots: Mapping[int, Group]
    """The processes of its instances when it began."""
    count: Counter[Key] = field(default_factory=Counter)
    bin_ns: int = field(init=False)
    """It is counted in equal parts of so long as well; the last one lacks some nanoseconds."""
    _bins: dict[Group, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        length = max(self.end_ns - self.start_ns, 1)
        self.bin_ns = -(-length // self._parts())

    def _parts(self) -> int:
        return min(max((self.end_ns - self.start_ns) // LEAST_BIN_NS, 1), MOST_BINS)

    def take(self, key: Key, at_ns: int) -> None:
        """A sample, which is within the window."""
        if key not in self.count and len(self.count) >= _MOST_KEYS:
            key = (key[0], "others", "", "")
        self.count[key] += 1
        bins = self._bins.get(key[0])
        if bins is None:
            bins = self._bins[key[0]] = [0] * self._parts()
        bins[(at_ns - self.start_ns) // self.bin_ns] += 1

    def over_time(self) -> tuple[GroupOverTime, ...]:
        """The samples of each group that was seen, part by part."""
        return tuple(
            GroupOverTime(group=group, samples=tuple(bins))
            for group, bins in sorted(self._bins.items())
        )

    def rows(self) -> tuple[tuple[SymbolRow, ...], int]:
        """The largest rows, and how many samples are in no row."""
        most = sorted(self.count.items(), key=lambda each: (-each[1], each[0]))[:MOST_ROWS]
        rows = tuple(
            SymbolRow(group=group, program=program, object=file, symbol=symbol, samples=samples)
            for (group, program, file, symbol), samples in most
        )
        return rows, self.count.total() - sum(row.samples for row in rows)


@dataclass
class Folder:
    """Takes the lines one by one, in the order of their time, and fills the windows."""

    windows: Sequence[Window]
    controller: int
    """Our own process."""
    lost: int = 0
    unread: int = 0
    """Lines that could not be understood."""
    latest_ns: int = 0
    """Of the last record, on the clock of the samples."""
    _parents: dict[int, int] = field(default_factory=dict)

    def take(self, line: str) -> None:
        """One line of output."""
        found = _SAMPLE.match(line.strip())
        if found is None:
            self.unread += bool(line.strip())
            return
        what = found["what"]
        at_ns = int(found["s"]) * 10**9 + int(found["ns"])
        if (place := _PLACE.fullmatch(what)) is not None:
            for window in self.windows:
                if window.start_ns <= at_ns < window.end_ns:
                    self._count(window, int(found["pid"]), found["comm"], place, at_ns)
        elif (fork := _FORK.fullmatch(what)) is not None:
            child, parent = int(fork[1]), int(fork[2])
            if child != parent:  # else it is a thread
                self._parents[child] = parent
        elif (lost := _LOST.match(what)) is not None:
            self.lost += int(lost[1])
        elif not what.startswith("PERF_RECORD_"):
            self.unread += 1
            return
        self.latest_ns = max(self.latest_ns, at_ns)

    def _count(self, window: Window, pid: int, comm: str, place: re.Match[str], at_ns: int) -> None:
        if pid == 0:
            return  # an idle CPU
        group = self._group(window, pid, comm)
        symbol = "" if place["symbol"] == _UNKNOWN else _function(place["symbol"])
        in_kernel = len(place["ip"]) == _WIDE and place["ip"].startswith("ffff")
        key: Key = (group, _program(comm, group), _object(place["object"], in_kernel), symbol)
        if group == "others":  # whoever else works on the host is no concern of the run
            key = (group, key[1], "kernel" if in_kernel else "", "")
        window.take(key, at_ns)

    def _group(self, window: Window, pid: int, comm: str) -> Group:
        """By the nearest process above it that is known; what an agent started is a program."""
        above = pid
        for _ in range(_DEEP):
            if (root := window.roots.get(above)) is not None:
                own = above == pid
                return crowd.of_thread(root, comm) if own or root == "hypervisor" else "programs"
            if above == crowd.KTHREADD:
                return crowd.of_kernel(comm)
            if above not in self._parents:
                break
            above = self._parents[above]
        return "controller" if pid == self.controller else "others"


def _program(comm: str, group: Group) -> str:
    if group in ("kworker", "ksoftirqd"):
        return group
    return clean(_NUMBER.sub("N", comm), 40)


def _object(file: str, in_kernel: bool) -> str:
    """The kernel, a module of it, or a file by its name."""
    if in_kernel:
        module = file.strip("[]")
        return (
            "kernel"
            if module in ("kernel.kallsyms", "unknown")
            else clean(f"kernel ({module})", 60)
        )
    if file == _UNKNOWN:
        return "unknown"
    if _MADE.fullmatch(file):
        return "generated code"
    return clean(file.removesuffix(" (deleted)").rpartition("/")[2], 60)


def _function(symbol: str) -> str:
    return clean(_CLONED.sub("", symbol), 80)
