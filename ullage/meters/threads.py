"""Meter `threads`."""

from __future__ import annotations

import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

from ullage.host import clock
from ullage.meters import process_groups, procfs
from ullage.meters.base import Meter, Scene, share
from ullage.meters.kernel_threads import kernel_threads
from ullage.meters.process_groups import ProcessGroup
from ullage.runs.records import Quantity

_PROC: Final = Path("/proc")
_INSTANCES: Final[tuple[ProcessGroup, ...]] = ("vcpu", "hypervisor", "vhost", "programs", "agent")
_KERNEL: Final[tuple[ProcessGroup, ...]] = ("ksoftirqd", "kworker", "kernel_threads")
_WAITING: Final[tuple[ProcessGroup, ...]] = ("vcpu", "hypervisor")
_MOST: Final = 20_000
"""Threads: more are not looked at, and their time stays with `others`."""
_KEPT: Final = 1024


class ThreadTimes(NamedTuple):
    """A thread, at one reading."""

    group: ProcessGroup
    ran_ns: int
    waited_ns: int
    """It could have run, and had no CPU."""


class ProcessTimes(NamedTuple):
    """A process of an instance, at one reading: what of it outlives its threads."""

    group: ProcessGroup
    ran_s: float
    """Of all its threads, also of those that have ended."""
    children_s: float
    """Of its children that have ended, with theirs."""


@dataclass(frozen=True)
class ThreadsReading:
    """CPU time since each thread began, at one instant of the run's clock."""

    instant_ns: int
    busy_s: float
    """Of the host: programs, and the kernel for them."""
    controller_s: float
    tasks: Mapping[tuple[int, int], ThreadTimes]
    """By process and thread."""
    processes: Mapping[int, ProcessTimes]

    @classmethod
    def now(cls, scene: Scene, proc: Path = _PROC) -> ThreadsReading:
        """Read what there is; what ends meanwhile is as if it had ended before."""
        groups = process_groups.members(scene, proc)
        tasks = dict(islice(chain(_of_instances(groups, proc), _of_kernel(groups, proc)), _MOST))
        own = resource.getrusage(resource.RUSAGE_SELF)
        return cls(
            instant_ns=clock.ordered_ns(),
            busy_s=_busy_s(procfs.read(f"{proc}/stat") or ""),
            controller_s=own.ru_utime + own.ru_stime,
            tasks=tasks,
            processes={
                pid: process
                for pid, group in groups.items()
                if (process := _process(group, f"{proc}/{pid}/stat")) is not None
            },
        )

    def until(self, later: ThreadsReading) -> dict[str, float]:
        """CPUs that each group kept busy between two readings; empty when no time went by."""
        seconds = (later.instant_ns - self.instant_ns) / 1e9
        if seconds <= 0:
            return {}
        ran, waited = self._threads(later)
        for group, more_s in self._ended(later):
            ran[group] += more_s
        ran["controller"] = max(0.0, later.controller_s - self.controller_s)
        busy_s = max(0.0, later.busy_s - self.busy_s)
        ran["others"] = max(0.0, busy_s - sum(ran.values()))
        gone = self.tasks.keys() - later.tasks.keys()
        figures: dict[str, float] = {
            "lost": float(sum(pid not in self.processes for pid, _ in gone))
        }
        figures |= {name: ran[name] / seconds for name in _visible_groups(self, later)}
        if "vcpu" in figures:
            figures |= {f"{name}_waited": waited[name] / seconds for name in _WAITING}
        return {"window": seconds, **figures}

    def _threads(
        self, later: ThreadsReading
    ) -> tuple[dict[ProcessGroup, float], dict[ProcessGroup, float]]:
        """Seconds that the threads ran, and waited, which are there at the end."""
        ran: dict[ProcessGroup, float] = defaultdict(float)
        waited: dict[ProcessGroup, float] = defaultdict(float)
        for key, now in later.tasks.items():
            then = self.tasks.get(key)
            if then is now:  # it has not run
                continue
            if then is None or then.ran_ns > now.ran_ns:  # a new one, or one with an old number
                then = ThreadTimes(now.group, 0, 0)
            ran[now.group] += (now.ran_ns - then.ran_ns) / 1e9
            waited[now.group] += max(0, now.waited_ns - then.waited_ns) / 1e9
        return ran, waited

    def _ended(self, later: ThreadsReading) -> Iterator[tuple[ProcessGroup, float]]:
        """Seconds of threads that have ended, from their processes; of those, from their parents.

        A process is told to its parent when that waits for it, with all that it ever ran: what it
        had run before the first reading is taken off again.
        """
        living: dict[int, float] = defaultdict(float)
        for (pid, tid), now in later.tasks.items():
            if pid not in later.processes:  # a thread of the kernel has none that it could tell
                continue
            then = self.tasks.get((pid, tid))
            living[pid] += (now.ran_ns - (then.ran_ns if then else 0)) / 1e9
        ended = {pid for pid, tid in self.tasks.keys() - later.tasks.keys()}
        waited_for = 0.0
        for pid, process in later.processes.items():
            first = self.processes.get(pid, ProcessTimes(process.group, 0.0, 0.0))
            waited_for += max(0.0, process.children_s - first.children_s)
            if pid in ended or pid not in self.processes:
                yield process.group, max(0.0, process.ran_s - first.ran_s - living[pid])
        before = sum(
            process.ran_s + process.children_s
            for pid, process in self.processes.items()
            if pid not in later.processes
        )
        yield "programs", max(0.0, waited_for - before)


class Threads(Meter):
    """Who used the host's CPUs: the trial's vCPUs, hypervisor and programs, the kernel, others.

    Each figure is CPU time over the time of the run's clock between two readings: CPUs that were
    kept busy, 0.12 for 12 % of one. Read from `/proc/PID/task/*/schedstat` before and after the
    programs of the trial, for the processes in the control groups of its instances and for the
    threads of the kernel; who is who is told by QEMU's names of its threads. The programs of a
    guest run in `vcpu`. Threads that ended in between are counted with their process, and processes
    with the parent that waited for them, by the clock tick (10 ms); a thread of the kernel that
    ended is in `lost`, and what it ran is left with `others`. Without root there are no control
    groups, and nothing is told of the instances, nor of `others`. `collection` says what the two
    readings cost; with 2 CPUs about 1 ms of CPU time; it grows with the kernel's threads.
    """

    name = "threads"
    quantities = (
        Quantity(name="window", unit="s", description="Between the two readings."),
        Quantity(name="collection", unit="s", description="CPU time of the two readings."),
        share("vcpu", "Threads of QEMU that are a guest's CPUs."),
        share("hypervisor", "All other threads of QEMU: its main loop, disks, displays."),
        share("vhost", "Threads of the kernel that move a guest's packets (vhost)."),
        share("programs", "Programs in the instances, but for QEMU and the agent."),
        share("agent", "ullage's agent in the instances."),
        share("controller", "ullage itself."),
        share("ksoftirqd", "The kernel's threads for soft interrupts, such as packets."),
        share("kworker", "The kernel's workers, such as for writing to disks."),
        share("kernel_threads", "All other threads of the kernel."),
        share("others", "Everything else that ran, by the clock tick."),
        share("vcpu_waited", "Threads in `vcpu` that could have run, and had no CPU."),
        share("hypervisor_waited", "The same of those in `hypervisor`."),
        Quantity(
            name="lost", unit="1", description="Threads that ended with nobody to tell their time."
        ),
    )

    _scene = Scene()

    def watch(self, scene: Scene) -> None:
        """The instances whose threads count."""
        self._scene = scene

    def begin(self) -> None:
        began_s = time.thread_time()
        self._before = ThreadsReading.now(self._scene)
        self._cost_s = time.thread_time() - began_s

    def end(self) -> dict[str, float]:
        began_s = time.thread_time()
        figures = self._before.until(ThreadsReading.now(self._scene))
        return {**figures, "collection": self._cost_s + time.thread_time() - began_s}


def _visible_groups(before: ThreadsReading, later: ThreadsReading) -> list[ProcessGroup]:
    """Groups of which this host tells anything: what cannot be seen is no zero."""
    groups: list[ProcessGroup] = ["controller"]
    if before.processes and later.processes:
        groups += [*_INSTANCES, "others"]
    if any(pid == tid and pid not in before.processes for pid, tid in before.tasks):
        groups += _KERNEL
    return groups


def _of_instances(
    groups: Mapping[int, ProcessGroup], proc: Path
) -> Iterator[tuple[tuple[int, int], ThreadTimes]]:
    for pid, group in groups.items():
        try:
            with os.scandir(f"{proc}/{pid}/task") as tasks:
                threads = [task.name for task in tasks]
        except OSError:
            continue
        for thread in threads:
            path = f"{proc}/{pid}/task/{thread}"
            name = process_groups.comm(path) if group == "hypervisor" else ""
            if (task := _task(process_groups.of_thread(group, name), path)) is not None:
                yield (pid, int(thread)), task


def _of_kernel(
    groups: Mapping[int, ProcessGroup], proc: Path
) -> Iterator[tuple[tuple[int, int], ThreadTimes]]:
    """Those that are in no instance's group; none where the kernel does not list them."""
    for pid, group, schedstat in kernel_threads(proc).times(groups):
        if (task := _times(group, schedstat)) is not None:
            yield (pid, pid), task


def _task(group: ProcessGroup, path: str) -> ThreadTimes | None:
    return _times(group, procfs.read_bytes(f"{path}/schedstat") or b"")


@lru_cache(_KEPT)
def _times(group: ProcessGroup, schedstat: bytes) -> ThreadTimes | None:
    """Most threads have not run since the last reading: what they say is known then."""
    times = schedstat.split()
    if len(times) < 2 or not (times[0].isdigit() and times[1].isdigit()):
        return None
    return ThreadTimes(group, int(times[0]), int(times[1]))


def _process(group: ProcessGroup, path: str) -> ProcessTimes | None:
    """From the fields after the name, which may itself hold blanks and parentheses."""
    fields = (procfs.read(path) or "").rpartition(")")[2].split()
    if len(fields) < 15:
        return None
    user, system, children_user, children_system = (
        int(field) * procfs.TICK_S for field in fields[11:15]
    )
    return ProcessTimes(group, user + system, children_user + children_system)


def _busy_s(stat: str) -> float:
    ticks = [int(word) for word in stat.partition("\n")[0].split()[1:4] if word.isdecimal()]
    return sum(ticks) * procfs.TICK_S
