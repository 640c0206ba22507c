"""The counters in which a cause may show: what each is called, and how it is read off a trial.

Those of the host are the meters'; those of the trial's programs are what the kernel that they ran
on, a guest's own, counted for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ullage.runs import Trial

NEIGHBOUR: Final = "neighbour-"
"""How the role of a neighbour begins in the journal."""

Scaling = Literal["work", "time"]
"""Whether a counter goes along with the work done, or is a share or a level that need not."""


@dataclass(frozen=True)
class Counter:
    """One counter."""

    name: str
    """`kernel.interrupts`: meter and quantity; `programs.…` for what the programs used."""
    words: str
    """`interrupts of the host`."""
    unit: str
    floor: float
    """Less than this is nothing: no smaller difference is told, and it is added to both sides
    before the ratio is tested."""
    scaling: Scaling

    @property
    def of_host(self) -> bool:
        """Seen on the host, by a meter."""
        return not self.name.startswith("programs.")

    def read(self, trial: Trial) -> float | None:
        """Its value in a trial; None: it was not seen there."""
        meter, _, quantity = self.name.partition(".")
        if self.of_host:
            return trial.meters.get(meter, {}).get(quantity)
        return _used(trial, quantity)


def _events(name: str, words: str, floor: float, unit: str = "1/s") -> Counter:
    return Counter(name, words, unit, floor, "work")


def _share(name: str, words: str, floor: float = 0.01) -> Counter:
    return Counter(name, words, "1", floor, "time")


COUNTERS: Final[tuple[Counter, ...]] = (
    _share("host.busy", "CPU time in which the host did anything"),
    _share("host.instances", "CPU time of the instances, as the host counts it"),
    _share("host.steal", "CPU time that a hypervisor under this host took"),
    _share("host.psi_cpu", "time in which a task of the host waited for a CPU"),
    _share("host.psi_io", "time in which a task of the host waited for a disk"),
    _share("host.psi_memory", "time in which a task of the host waited for memory"),
    Counter("cpu.frequency", "frequency of the fastest CPU", "Hz", 1e6, "time"),
    _events("kernel.interrupts", "interrupts of the host", 10),
    _events("kernel.softirqs", "soft interrupts of the host", 10),
    _events("kernel.softirqs_network", "soft interrupts for packets", 10),
    _events("kernel.softirqs_disk", "soft interrupts for disks", 10),
    _events("kernel.softirqs_timer", "soft interrupts for timers", 10),
    _events("kernel.context_switches", "context switches of the host", 10),
    _events("kernel.forks", "processes and threads made on the host", 1),
    _events("kernel.page_faults", "page faults of the host", 100),
    _events("kernel.major_faults", "page faults of the host that read a disk", 1),
    _events("kernel.swapped_in", "pages swapped in", 1),
    _events("kernel.swapped_out", "pages swapped out", 1),
    _share("kernel.cpu_user", "CPU time of the host in programs and guests"),
    _share("kernel.cpu_kernel", "CPU time of the host in its kernel"),
    _share("kernel.cpu_interrupts", "CPU time of the host in interrupts"),
    _share("kernel.cpu_guests", "CPU time of the host in vCPUs of guests"),
    _share("kernel.psi_io_full", "time in which all tasks of the host waited for a disk"),
    _share("kernel.psi_memory_full", "time in which all tasks of the host waited for memory"),
    _share("kernel.psi_irq_full", "time in which interrupts kept tasks of the host from running"),
    _events("kernel.disk_reads", "reads of the host's disks", 1),
    _events("kernel.disk_writes", "writes of the host's disks", 1),
    _events("kernel.disk_flushes", "flushes of the host's disks", 1),
    _events("kernel.disk_read", "bytes read from the host's disks", 65536, "B/s"),
    _events("kernel.disk_written", "bytes written to the host's disks", 65536, "B/s"),
    Counter("kernel.disk_queue", "requests at the host's disks at once", "", 0.05, "time"),
    _events("kernel.net_received", "bytes received by the host's network devices", 10_000, "B/s"),
    _events("kernel.net_sent", "bytes sent by the host's network devices", 10_000, "B/s"),
    _events("kernel.net_packets", "packets at the host's network devices", 10),
    _events("kernel.net_drops", "packets dropped on the host", 1),
    Counter("programs.user_s", "CPUs that the programs kept busy themselves", "", 0.01, "time"),
    Counter("programs.system_s", "CPUs that their kernel kept busy for them", "", 0.01, "time"),
    _events("programs.minor_faults", "page faults of the programs", 100),
    _events("programs.major_faults", "page faults of the programs that read a disk", 1),
    _events("programs.voluntary_switches", "times that the programs waited", 10),
    _events("programs.involuntary_switches", "times that the programs were pushed aside", 10),
)
"""All of them. What a meter tells of itself, or of energy, is no cause and not here."""


def _used(trial: Trial, quantity: str) -> float | None:
    """A second of the longest program, over all of one team; None where one does not say.

    Several teams of instances work side by side, and the figure is their mean too. What a neighbour
    used, which works beside the trial on purpose, is not the trial's.
    """
    roles = [role for role in trial.roles if not role.role.startswith(NEIGHBOUR)]
    longest = max((role.end_ns - role.start_ns for role in roles), default=0)
    if longest <= 0 or any(role.usage is None for role in roles):
        return None
    used = sum(float(getattr(role.usage, quantity)) for role in roles)
    return used * 1e9 / longest / max(1, len(trial.instances))
