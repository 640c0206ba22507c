"""What `perf script` prints, folded: samples by group, program, object and function, in windows.

Names of threads and files are what the programs gave themselves: a line that is not exactly as
expected is no sample, and what is kept is short and printable. A thread's name is too short to look
like a line. A file's is not, and perf prints it as it is: a program of such a name, with line ends
in it, can have us count samples, forks and losses that never were, and nothing in the text tells
them apart. So a table is no proof against a program that wants to deceive; whatever it says, it is
one table's numbers and harmless words, and no figure of the run rests on it.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Final

from ullage.common.text import clean
from ullage.meters import process_groups
from ullage.meters.perf.mappings import Mapped, OwnFiles
from ullage.meters.process_groups import ProcessGroup
from ullage.runs.symbols import (
    KERNEL,
    LEAST_BIN_NS,
    MOST_BINS,
    MOST_CORES,
    MOST_COURSES,
    OTHER_END,
    CoreOverTime,
    GroupByCore,
    GroupOverTime,
    SymbolRow,
    of_kernel,
)

FIELDS: Final = "comm,pid,tid,cpu,time,ip,sym,dso"
"""What `perf script -F` is to print, with `--ns`, and events of tasks, mappings and losses."""
MOST_ROWS: Final = 250
_MOST_KEYS: Final = 5_000
"""Different rows that a window can have: a program that gives its threads ever new names has no
more."""

_SAMPLE: Final = re.compile(
    r"(?P<comm>.*?)\s+(?P<pid>-?\d{1,10})/-?\d{1,10}\s+\[(?P<cpu>\d{1,6})\]"
    r"\s+(?P<s>\d{1,10})\.(?P<ns>\d{9}):\s+(?P<what>.*)"
)
_PLACE: Final = re.compile(r"(?P<ip>[0-9a-f]{1,16}) (?P<symbol>.*?) \((?P<object>[/\[].*|[^()]+)\)")
_FORK: Final = re.compile(r"PERF_RECORD_FORK\((\d{1,10}):\d{1,10}\):\((\d{1,10}):\d{1,10}\)")
_EXEC: Final = "PERF_RECORD_COMM exec"
_MAPS: Final = " PERF_RECORD_MMAP2 "
"""Longer than a thread's name, so no such name has it."""
_MAPPED: Final = re.compile(
    r" PERF_RECORD_MMAP2 (?P<pid>\d{1,10})/\d{1,10}:"
    r" \[0x(?P<start>[0-9a-f]{1,16})\(0x(?P<length>[0-9a-f]{1,16})\)"
    r" @ (?P<offset>0x[0-9a-f]{1,16}|0)"
    r" (?P<major>[0-9a-f]{2,3}):(?P<minor>[0-9a-f]{2,5}) (?P<inode>\d{1,20}) \d{1,20}\]:"
    r" \S{4} (?P<path>/.+)"
)
_LOST: Final = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\D*(?:lost )?(\d{1,18})")
_NUMBER: Final = re.compile(r"\d+")
_CLONED: Final = re.compile(r"\.(isra|constprop|part|cold|llvm)(\.\d+)*")
"""What compilers append to the names of copies of a function."""
_WIDE: Final = 16
"""Digits of an address in the kernel's half."""
_GENERATED: Final = re.compile(r"/tmp/perf-\d+\.map|//anon|/memfd:.*|anon_inode:.*|/dev/zero.*")  # noqa: S108
_UNKNOWN: Final = "[unknown]"
_DEEP: Final = 64

SampleKey = tuple[ProcessGroup, str, str, str]


@dataclass
class TrialWindow:
    """A trial, on the clock of the samples."""

    start_ns: int
    end_ns: int
    roots: Mapping[int, ProcessGroup]
    """The processes of its instances when it began."""
    ends: frozenset[int] = frozenset()
    """Of these, those in instances at the other end."""
    count: Counter[SampleKey] = field(default_factory=Counter)
    bin_ns: int = field(init=False)
    """It is counted in equal parts of so long as well; the last one lacks some nanoseconds."""
    _bins: dict[tuple[ProcessGroup, bool, int], list[int]] = field(default_factory=dict)
    """Group, at the other end, core → its samples part by part."""

    def __post_init__(self) -> None:
        length = max(self.end_ns - self.start_ns, 1)
        self.bin_ns = -(-length // self._parts())

    def _parts(self) -> int:
        return min(max((self.end_ns - self.start_ns) // LEAST_BIN_NS, 1), MOST_BINS)

    def take(self, key: SampleKey, at_ns: int, core: int, *, far: bool = False) -> None:
        """A sample, which is within the window; far: of an instance at the other end."""
        if key not in self.count and len(self.count) >= _MOST_KEYS:
            key = (key[0], "others", "", "")
        self.count[key] += 1
        place = (key[0], far, min(core, MOST_CORES))
        bins = self._bins.get(place)
        if bins is None:
            bins = self._bins[place] = [0] * self._parts()
        bins[(at_ns - self.start_ns) // self.bin_ns] += 1

    def over_time(self) -> tuple[GroupOverTime, ...]:
        """The samples of each group that was seen, part by part."""
        bins_by_group: dict[ProcessGroup, list[int]] = {}
        for (group, _, _), bins in self._bins.items():
            _add(bins_by_group, group, bins)
        return tuple(
            GroupOverTime(group=group, samples=tuple(bins))
            for group, bins in sorted(bins_by_group.items())
        )

    def by_core(self) -> tuple[GroupByCore, ...]:
        """The samples of each group that was seen, core by core."""
        cores_by_group: dict[ProcessGroup, Counter[int]] = defaultdict(Counter)
        for (group, _, core), bins in self._bins.items():
            if core < MOST_CORES:
                cores_by_group[group][core] += sum(bins)
        return tuple(
            GroupByCore(group=group, samples=tuple(cores[core] for core in range(max(cores) + 1)))
            for group, cores in sorted(cores_by_group.items())
        )

    def cores_over_time(self) -> tuple[CoreOverTime, ...]:
        """The samples of the busiest cores, part by part, by whose they were.

        A host has many cores, and on each of them many have been for a moment: the largest courses
        are kept, and what they leave of a core is one more, which does not say whose it was.
        """
        samples: dict[tuple[int, str], list[int]] = {}
        busy: Counter[int] = Counter()
        for (group, far, core), bins in self._bins.items():
            if core < MOST_CORES:
                _add(samples, (core, OTHER_END if far else group), bins)
                busy[core] += sum(bins)
        busiest = sorted(busy, key=lambda core: (-busy[core], core))[:MOST_COURSES]
        courses = [key for key in samples if key[0] in {*busiest}]
        courses.sort(key=lambda key: (-sum(samples[key]), key))
        largest = {key: samples[key] for key in courses[:MOST_COURSES]}
        for small in courses[MOST_COURSES:]:
            _add(largest, (small[0], ""), samples[small])
        return tuple(
            CoreOverTime(core=core, group=owner, samples=tuple(bins))
            for (core, owner), bins in sorted(largest.items())
        )

    def table(self) -> SampleTable:
        """The largest rows. Functions of programs' files take the place of no other row."""
        count, folded = self._folded()
        most = sorted(count.items(), key=lambda row: (-row[1], row[0]))[:MOST_ROWS]
        rows = tuple(
            SymbolRow(group=group, program=program, object=file, symbol=symbol, samples=samples)
            for (group, program, file, symbol), samples in most
        )
        return SampleTable(rows, count.total() - sum(row.samples for row in rows), folded)

    def _folded(self) -> tuple[Counter[SampleKey], int]:
        """With as few of them counted for their file alone as makes the rows no too many.

        A function is so in all threads, or in none: the sum of its rows is all that was seen of it.
        """
        count, folded = self.count.copy(), 0
        mine: dict[tuple[str, str], list[SampleKey]] = {}
        for key in sorted(count):
            if key[0] == "programs" and key[3] and not of_kernel(key[2]):
                mine.setdefault(key[2:], []).append(key)
        for keys in sorted(mine.values(), key=lambda keys: sum(count[key] for key in keys)):
            if len(count) <= MOST_ROWS:
                break
            for key in keys:
                samples = count.pop(key)
                count[(*key[:3], "")] += samples
                folded += samples
        return count, folded


def _add(sums: dict[Any, list[int]], key: Any, bins: Sequence[int]) -> None:
    sums[key] = [a + b for a, b in zip(sums[key], bins, strict=True)] if key in sums else [*bins]


@dataclass(frozen=True)
class SampleTable:
    """Of a window, as it is kept."""

    rows: tuple[SymbolRow, ...]
    unlisted: int
    """Samples in no row."""
    folded: int
    """Samples of functions that stand with their file."""


@dataclass
class ScriptReader:
    """Takes the lines one by one, in the order of their time, and fills the windows."""

    windows: Sequence[TrialWindow]
    controller: int
    """Our own process."""
    files: InitVar[OwnFiles]
    """Those whose functions can be told."""
    lost: int = 0
    unread: int = 0
    """Lines that could not be understood."""
    latest_ns: int = 0
    """Of the last record, on the clock of the samples."""
    _parents: dict[int, int] = field(default_factory=dict)
    _mapped: Mapped = field(init=False)
    _foreign: set[str] = field(default_factory=set)
    """Files that are not to be told, as their mappings end: most are, and come again and again."""

    def __post_init__(self, files: OwnFiles) -> None:
        self._mapped = Mapped(files)

    def take(self, line: str) -> None:
        """One line of output."""
        if (at := line.find(_MAPS)) >= 0:
            self._map(line[at:].rstrip())
            return
        record = _SAMPLE.match(line.strip())
        if record is None:
            self.unread += bool(line.strip())
            return
        event = record["what"]
        at_ns = int(record["s"]) * 10**9 + int(record["ns"])
        if (place := _PLACE.fullmatch(event)) is not None:
            for window in self.windows:
                if window.start_ns <= at_ns < window.end_ns:
                    self._count(window, record, place, at_ns)
        elif (fork := _FORK.fullmatch(event)) is not None:
            child, parent = int(fork[1]), int(fork[2])
            if child != parent:  # else it is a thread
                self._parents[child] = parent
                self._mapped.forked(child, parent)
        elif event.startswith(_EXEC):
            self._mapped.replaced(int(record["pid"]))
        elif (lost := _LOST.match(event)) is not None:
            self.lost += int(lost[1])
        elif not event.startswith("PERF_RECORD_"):
            self.unread += 1
            return
        self.latest_ns = max(self.latest_ns, at_ns)

    def _map(self, event: str) -> None:
        file = event[event.find(" @ ") :]
        if file in self._foreign:
            return
        mapping = _MAPPED.fullmatch(event)
        own = mapping is not None and self._mapped.mapped(
            int(mapping["pid"]),
            (int(mapping["start"], 16), int(mapping["length"], 16)),
            int(mapping["offset"], 16),
            (
                os.makedev(int(mapping["major"], 16), int(mapping["minor"], 16)),
                int(mapping["inode"]),
            ),
            mapping["path"],
        )
        if not own and len(self._foreign) < _MOST_KEYS:
            self._foreign.add(file)

    def _count(
        self, window: TrialWindow, record: re.Match[str], place: re.Match[str], at_ns: int
    ) -> None:
        pid, comm = int(record["pid"]), record["comm"]
        if pid == 0:
            return  # an idle CPU
        group, root = self._group(window, pid, comm)
        in_kernel = len(place["ip"]) == _WIDE and place["ip"].startswith("ffff")
        symbol = "" if place["symbol"] == _UNKNOWN else place["symbol"]
        if group == "programs" and not in_kernel and not symbol:
            symbol = self._mapped.function(pid, int(place["ip"], 16), place["object"])
        file = _object(place["object"], in_kernel)
        key: SampleKey = (group, _program(comm, group), file, _function(symbol))
        if group == "others":  # whoever else works on the host is no concern of the run
            key = (group, key[1], KERNEL if in_kernel else "", "")
        far = root in window.ends and group != "agent"
        window.take(key, at_ns, int(record["cpu"]), far=far)

    def _group(self, window: TrialWindow, pid: int, comm: str) -> tuple[ProcessGroup, int]:
        """By the nearest process above it that is known, and that; what an agent started is a
        program.
        """
        above = pid
        for _ in range(_DEEP):
            if (root := window.roots.get(above)) is not None:
                own = above == pid
                by_thread = own or root == "hypervisor"
                return process_groups.of_thread(root, comm) if by_thread else "programs", above
            if above == process_groups.KTHREADD:
                return process_groups.of_kernel(comm), above
            if above not in self._parents:
                break
            above = self._parents[above]
        return "controller" if pid == self.controller else "others", above


def _program(comm: str, group: ProcessGroup) -> str:
    if group in ("kworker", "ksoftirqd"):
        return group
    return clean(_NUMBER.sub("N", comm), 40)


def _object(file: str, in_kernel: bool) -> str:
    """The kernel, a module of it, or a file by its name."""
    if in_kernel:
        module = file.strip("[]")
        return (
            KERNEL
            if module in ("kernel.kallsyms", "unknown")
            else clean(f"{KERNEL} ({module})", 60)
        )
    if file == _UNKNOWN:
        return "unknown"
    if _GENERATED.fullmatch(file):
        return "generated code"
    return clean(file.removesuffix(" (deleted)").rpartition("/")[2], 60)


def _function(symbol: str) -> str:
    return clean(_CLONED.sub("", symbol), 80)
