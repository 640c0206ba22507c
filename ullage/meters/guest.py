"""Meter `guest`."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ullage.common.errors import UllageError
from ullage.environments.agent.channel import AgentError
from ullage.host import clock
from ullage.meters.base import Fetch, Inside, rate, share
from ullage.meters.kernel import EVENTS, WAITING, KernelReading
from ullage.runs.records import Quantity

_FILES: Final = ("stat", "vmstat", "diskstats", "net/dev", "pressure/io", "pressure/memory")
_LONGEST: Final = 256 << 10
"""Bytes of one of them."""
_PATIENCE_S: Final = 10.0
_HZ: Final = 100
"""Ticks a second that Linux tells programs of (USER_HZ), on all machines that run our agent."""
_NO_NUMBER: Final = re.compile("[0-9]{20}")
"""Longer than any counter of 64 bits."""
_MOST: Final = {"1/s": 1e10, "B/s": 1e12, "1": 1e6}
"""No machine does more in a second: a guest that says so has no figure."""
_CPU: Final = {
    "cpu_user": ("user", "nice"),
    "cpu_kernel": ("system",),
    "cpu_interrupts": ("irq", "softirq"),
    "steal": ("steal",),
}
_SHARES: Final = frozenset({"psi_io_full", "psi_memory_full"})
_LARGEST: Final = _SHARES | {"window"}
"""Of several guests the largest; all else is their sum."""


_NONSENSE: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""What reckoning with a stranger's words may come to: then the trial has no figures of guests."""


class _WholeDisks:
    """By their names: what else there is of a guest is its own word too."""

    _NAME: Final = re.compile(r"(vd|sd|xvd|hd)[a-z]{1,3}|nvme\d{1,3}n\d{1,3}")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._NAME.fullmatch(name) is not None


@dataclass(frozen=True)
class _GuestReading:
    """What one guest answered."""

    reading: KernelReading
    refused: int
    """Files that were there, and held what no kernel writes."""


class Guest(Inside):
    """What the kernel of a guest was busy with, as it counted itself.

    For instances with a kernel of their own: their `/proc/stat`, `vmstat`, `diskstats`, `net/dev`
    and `pressure`, read through the agent right before and right after the programs of the trial;
    the meters of the host see nothing of it. Of several guests it is the sum, of `psi_*` the most.
    CPU time is in CPUs that were kept busy. The window is of the run's clock, from the middle of
    one question and its answer to the middle of the other. Absent where the programs ran on the
    host's own kernel, whose counters are those of `kernel`. A guest's word is not trusted: a file
    that holds what no kernel writes is left out (`refused`), and so is a counter that went back or
    has grown by what no machine does. `asked` is what it all took, before and after the programs:
    77 to 138 ms in emulated guests on a busy host; of an agent on the host itself 1.6 ms each.
    """

    name = "guest"
    quantities = (
        Quantity(name="window", unit="s", description="Between the two readings."),
        Quantity(name="asked", unit="s", description="The time of asking, before and after."),
        Quantity(name="guests", unit="1", description="How many were asked."),
        Quantity(name="refused", unit="1", description="Their files that cannot be believed."),
        rate("interrupts", "Interrupts of the guest's devices, timers and CPUs."),
        rate("softirqs", "Work put off by them (soft interrupts), of all kinds."),
        *EVENTS,
        share("cpu_user", "CPUs that programs kept busy."),
        share("cpu_kernel", "CPUs that the kernel kept busy for them."),
        share("cpu_interrupts", "CPUs that interrupts kept busy, hard and soft."),
        share("steal", "CPUs that the guest was told it could have used, and had not."),
        *WAITING,
        rate("disk_reads", "Requests to read, of the guest's disks."),
        rate("disk_writes", "Requests to write."),
        rate("disk_flushes", "Requests to flush a disk's cache."),
        rate("disk_read", "Bytes read from its disks.", "B/s"),
        rate("disk_written", "Bytes written to them.", "B/s"),
        share("disk_queue", "Requests that were being served or waited, on average."),
        rate("net_received", "Bytes received by its network devices, but for loopback.", "B/s"),
        rate("net_sent", "Bytes sent by them.", "B/s"),
        rate("net_packets", "Packets, received and sent."),
        rate("net_drops", "Packets dropped, and errors."),
    )

    def __init__(self) -> None:
        self._asked_s = 0.0
        self._latest: dict[Fetch, _GuestReading] = {}
        self._before: dict[Fetch, _GuestReading] = {}

    async def ask(self, instances: Sequence[Fetch]) -> None:
        """Read all guests at once; one that does not tell leaves out all figures of the trial.

        A guest is known again by how it is read: its agent's own `get`, before and after.
        """
        began = clock.ordered_ns()
        self._latest = {}
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answers = await asyncio.gather(*(_ask(fetch) for fetch in instances))
            self._latest = dict(zip(instances, answers, strict=True))
        except (TimeoutError, UllageError, *_NONSENSE):
            pass
        self._asked_s += (clock.ordered_ns() - began) / 1e9

    def begin(self) -> None:
        """What was asked is the first reading."""
        self._before, self._latest = self._latest, {}

    def end(self) -> dict[str, float]:
        """What was asked since is the second; what went by between.

        Nothing unless the same guests told both times: a sum would be of fewer.
        """
        if not self._before or self._before.keys() != self._latest.keys():
            return {}
        both = [(then, self._latest[fetch]) for fetch, then in self._before.items()]
        try:
            of_each = [_rates_between(then.reading, now.reading) for then, now in both]
        except _NONSENSE:
            return {}
        return {
            "asked": self._asked_s,
            "guests": float(len(both)),
            "refused": float(sum(then.refused + now.refused for then, now in both)),
            **_summed(of_each),
        }


_UNITS: Final = {quantity.name: quantity.unit for quantity in Guest.quantities}


async def _ask(fetch: Fetch) -> _GuestReading:
    """A file that is not there is left out; UllageError when the guest is gone."""
    asked_ns = clock.ordered_ns()
    texts_read = await asyncio.gather(*(_file(fetch, f"/proc/{name}") for name in _FILES))
    middle_ns = (asked_ns + clock.ordered_ns()) // 2
    files = dict(zip(_FILES, texts_read, strict=True))
    texts = {name: text for name, text in files.items() if text is not None}
    good = {name: text for name, text in texts.items() if _plausible(text)}
    reading = KernelReading.of(lambda name: good.get(name, ""), _WholeDisks())
    return _GuestReading(replace(reading, instant_ns=middle_ns), len(texts) - len(good))


def _plausible(text: str) -> bool:
    """Has a kernel written it?"""
    return text.isascii() and _NO_NUMBER.search(text) is None


async def _file(fetch: Fetch, path: str) -> str | None:
    try:
        return (await fetch(path, _LONGEST)).decode("utf-8", "replace")
    except AgentError:
        return None


def _rates_between(before: KernelReading, later: KernelReading) -> dict[str, float]:
    """Of one guest, without what cannot be."""
    seconds = (later.instant_ns - before.instant_ns) / 1e9
    cpu = {
        name: sum(later.ticks[kind] - before.ticks[kind] for kind in kinds) / _HZ / seconds
        for name, kinds in _CPU.items()
        if all(kind in before.ticks and kind in later.ticks for kind in kinds)
    }
    figures = {**before.until(later), **cpu}
    return {name: x for name, x in figures.items() if name in _UNITS and _possible(name, x)}


def _possible(name: str, value: float) -> bool:
    most = 1.0 if name in _SHARES else _MOST.get(_UNITS[name], math.inf)
    return 0 <= value <= most


def _summed(of_each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What all of them told."""
    names = set.intersection(*(set(figures) for figures in of_each))
    return {
        name: (max if name in _LARGEST else math.fsum)([figures[name] for figures in of_each])
        for name in sorted(names)
    }
