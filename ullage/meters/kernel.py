"""Meter `kernel`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Final

from ullage.host import clock
from ullage.meters import procfs
from ullage.meters.base import Meter, rate, share
from ullage.runs.records import Quantity

Counters = tuple[int, ...]

_SECTOR: Final = 512
_OF_A_DISK: Final = 11
_COUNTER: Final = re.compile(r"[0-9]{1,20}")
"""Counters that every kernel gives of a disk."""
_WRAP: Final = 1 << 32
"""The kernel keeps the milliseconds of a disk in 32 bits."""
_KINDS: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest")
_SOFTIRQS: Final = ("all", "hi", "timer", "net_tx", "net_rx", "block")
_EVENTS: Final = {
    "ctxt": "context_switches",
    "processes": "forks",
    "intr": "interrupts",
    "pgfault": "page_faults",
    "pgmajfault": "major_faults",
    "pswpin": "swapped_in",
    "pswpout": "swapped_out",
}
"""Lines of /proc/stat and /proc/vmstat that count events."""
_USED: Final = (*_EVENTS, "cpu", "softirq")
"""What of these files is looked at, among hundreds of lines."""
_STALLS: Final = ("io", "memory", "irq")


@dataclass(frozen=True)
class KernelReading:
    """Counters of the host since it booted, at one instant of the run's clock."""

    instant_ns: int
    events: Mapping[str, int]
    ticks: Mapping[str, int]
    """CPU time by kind, over all CPUs."""
    stalled_us: Mapping[str, int]
    """Time in which every task waited for the resource (PSI `full`)."""
    disks: Mapping[str, Counters]
    links: Mapping[str, Counters]

    @classmethod
    def now(cls, proc: Path = Path("/proc"), block: Path = Path("/sys/block")) -> KernelReading:
        """Read the counters; what this kernel does not tell is left out."""
        return cls.of(lambda file: procfs.whole(f"{proc}/{file}"), _whole_disks(block))

    @classmethod
    def of(cls, read: Callable[[str], str], disks: Container[str]) -> KernelReading:
        """From what its files under /proc hold, empty for one that is not there.

        disks: those that count.
        """
        counters = dict(_lines(read("stat")))
        events = {**counters, **dict(_lines(read("vmstat")))}
        softirqs = dict(zip(_SOFTIRQS, counters.get("softirq", ()), strict=False))
        stalled = {name: procfs.stalled_us(read(f"pressure/{name}"), "full") for name in _STALLS}
        return cls(
            instant_ns=clock.ordered_ns(),
            events={
                **{name: events[line][0] for line, name in _EVENTS.items() if events.get(line)},
                **_kinds_of_softirqs(softirqs),
            },
            ticks=dict(zip(_KINDS, counters.get("cpu", ()), strict=False)),
            stalled_us={name: total for name, total in stalled.items() if total is not None},
            disks=_disks(read("diskstats"), disks),
            links=_links(read("net/dev")),
        )

    def until(self, later: KernelReading) -> dict[str, float]:
        """Events a second, and shares of the time, between two readings.

        A counter that has gone down was set back, and tells nothing. Empty when no time went by.
        """
        seconds = (later.instant_ns - self.instant_ns) / 1e9
        if seconds <= 0:
            return {}
        rates = {
            name: (later.events[name] - count) / seconds
            for name, count in self.events.items()
            if later.events.get(name, -1) >= count
        }
        shares = {
            f"psi_{name}_full": min((later.stalled_us[name] - before) / 1e6 / seconds, 1.0)
            for name, before in self.stalled_us.items()
            if later.stalled_us.get(name, -1) >= before
        }
        return {
            "window": seconds,
            **rates,
            **_shares(self.ticks, later.ticks),
            **shares,
            **_of_disks(self.disks, later.disks, seconds),
            **_of_links(self.links, later.links, seconds),
        }


EVENTS: Final = (
    rate("softirqs_network", "Of these: sending and receiving packets."),
    rate("softirqs_disk", "Of these: requests of disks that ended."),
    rate("softirqs_timer", "Of these: timers."),
    rate("context_switches", "From one task to another."),
    rate("forks", "Processes and threads made."),
    rate("page_faults", "Pages that were not mapped yet, minor and major."),
    rate("major_faults", "Pages that had to be read from a disk."),
    rate("swapped_in", "Pages read from swap."),
    rate("swapped_out", "Pages written to swap."),
)
"""What any kernel counts, of a host as of a guest."""
WAITING: Final = (
    share("psi_io_full", "Of the trial: every task that had work waited for a disk."),
    share("psi_memory_full", "Of the trial: every task with work waited for memory."),
)
"""What any kernel says of tasks that waited."""


class Kernel(Meter):
    """What the host's kernel was busy with: where the cause of a slow trial may show.

    Read from `/proc/stat`, `vmstat`, `diskstats`, `net/dev` and `pressure` before and after the
    programs of the trial; nothing is sampled meanwhile, so nothing is disturbed. The window
    between the two readings is of the run's clock. All of it is about the whole host, with
    everything that ran on it; what a guest's kernel counts by itself is not in it. A counter that
    this host does not have, or that was set back, is left out. Steal and the pressure of some
    tasks are in `host`. `collection` says what the two readings cost: with 2 CPUs and a few devices
    about 0.4 ms of CPU time; it grows with CPUs, interrupts and devices.
    """

    name = "kernel"
    quantities = (
        Quantity(name="window", unit="s", description="Between the two readings."),
        Quantity(name="collection", unit="s", description="CPU time of the two readings."),
        rate("interrupts", "Interrupts of devices, timers and other CPUs."),
        rate("softirqs", "Work put off by interrupts (soft interrupts), of all kinds."),
        *EVENTS,
        share("cpu_user", "Of all CPU time: programs, and guests."),
        share("cpu_kernel", "Of all CPU time: the kernel for programs."),
        share("cpu_interrupts", "Of all CPU time: interrupts, hard and soft."),
        share("cpu_guests", "Of all CPU time: vCPUs of guests, by KVM."),
        *WAITING,
        share("psi_irq_full", "Of the trial: interrupts kept tasks from running."),
        rate("disk_reads", "Requests to read, of all disks."),
        rate("disk_writes", "Requests to write."),
        rate("disk_flushes", "Requests to flush a disk's cache."),
        rate("disk_read", "Bytes read from disks.", "B/s"),
        rate("disk_written", "Bytes written to disks.", "B/s"),
        share("disk_queue", "Requests that were being served or waited, on average."),
        rate("net_received", "Bytes received by network devices, but for loopback.", "B/s"),
        rate("net_sent", "Bytes sent by them; a packet that passes several counts at each.", "B/s"),
        rate("net_packets", "Packets, received and sent."),
        rate("net_drops", "Packets dropped, and errors."),
    )

    def begin(self) -> None:
        began_s = time.thread_time()
        self._before = KernelReading.now()
        self._cost_s = time.thread_time() - began_s

    def end(self) -> dict[str, float]:
        began_s = time.thread_time()
        figures = self._before.until(KernelReading.now())
        return {**figures, "collection": self._cost_s + time.thread_time() - began_s}


def _lines(text: str) -> Iterator[tuple[str, Counters]]:
    """The lines that are used: their name, and the numbers behind it. Of `intr` the sum alone."""
    text = f"\n{text}\n"
    for name in _USED:
        start = text.find(f"\n{name} ")
        if start >= 0:
            numbers = text[start + len(name) + 2 : text.index("\n", start + 1)]
            yield name, _numbers(numbers.split(None, 1)[:1] if name in _EVENTS else numbers.split())


def _numbers(words: Iterable[str]) -> Counters:
    """Up to the first word that is no number: what follows belongs to no column."""
    return tuple(map(int, takewhile(_COUNTER.fullmatch, words)))


def _kinds_of_softirqs(counts: Mapping[str, int]) -> dict[str, int]:
    if len(counts) < len(_SOFTIRQS):
        return {}
    return {
        "softirqs": counts["all"],
        "softirqs_network": counts["net_tx"] + counts["net_rx"],
        "softirqs_disk": counts["block"],
        "softirqs_timer": counts["timer"],
    }


def _shares(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, float]:
    """CPU time by kind, as shares of all; nothing in less than a tick."""
    went = {kind: max(0, after.get(kind, 0) - ticks) for kind, ticks in before.items()}
    guests = went.pop("guest", 0)  # counted in `user` too
    total = sum(went.values())
    if total == 0 or len(before) < len(_KINDS):
        return {}
    return {
        "cpu_user": (went["user"] + went["nice"]) / total,
        "cpu_kernel": went["system"] / total,
        "cpu_interrupts": (went["irq"] + went["softirq"]) / total,
        "cpu_guests": guests / total,
    }


@cache
def _whole_disks(block: Path) -> frozenset[str]:
    """Real disks: no partitions, and nothing that stands on others (loop, dm, md, zram)."""
    return frozenset(disk.name for disk in block.glob("*") if (disk / "device").exists())


def _disks(text: str, counted: Container[str]) -> dict[str, Counters]:
    """Disk → its counters, as `Documentation/admin-guide/iostats.rst` numbers them."""
    lines = (line.split() for line in text.splitlines())
    named = {words[2]: words[3:] for words in lines if len(words) > 2 and words[2] in counted}
    rows = {name: _numbers(words) for name, words in named.items()}
    return {name: row for name, row in rows.items() if len(row) >= _OF_A_DISK}


def _of_disks(
    before: Mapping[str, Counters], after: Mapping[str, Counters], seconds: float
) -> dict[str, float]:
    went = [_difference(before[name], after[name]) for name in before if name in after]
    if not went:
        return {}
    reads, read, writes, written = (sum(row[i] for row in went) for i in (0, 2, 4, 6))
    rates = {
        "disk_reads": reads / seconds,
        "disk_read": read * _SECTOR / seconds,
        "disk_writes": writes / seconds,
        "disk_written": written * _SECTOR / seconds,
        "disk_queue": sum(row[10] % _WRAP for row in went) / 1e3 / seconds,
    }
    if all(len(row) > 15 for row in went):
        rates["disk_flushes"] = sum(row[15] for row in went) / seconds
    return {name: value for name, value in rates.items() if value >= 0}


def _links(text: str) -> dict[str, Counters]:
    """Network device → its counters: eight received, eight sent."""
    rows = (line.partition(":") for line in text.splitlines()[2:])
    counters = {name.strip(): _numbers(counts.split()) for name, _, counts in rows}
    return {name: row for name, row in counters.items() if name != "lo" and len(row) >= 16}


def _of_links(
    before: Mapping[str, Counters], after: Mapping[str, Counters], seconds: float
) -> dict[str, float]:
    both = [_difference(before[name], after[name]) for name in before if name in after]
    went = [row for row in both if min(row) >= 0]

    def a_second(*columns: int) -> float:
        return sum(row[column] for row in went for column in columns) / seconds

    return {
        "net_received": a_second(0),
        "net_sent": a_second(8),
        "net_packets": a_second(1, 9),
        "net_drops": a_second(2, 3, 10, 11),
    }


def _difference(before: Counters, after: Counters) -> Counters:
    return tuple(now - then for then, now in zip(before, after, strict=False))
