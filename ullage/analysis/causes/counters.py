"""The counters in which a cause may show: what each is called, and how it is read off two trials.

Those of the host are the meters'; those of the trial's programs are what the kernel that they ran
on, a guest's own, counted for them; those of a guest are what its kernel counted altogether.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ullage.runs.events import Trial

NEIGHBOUR: Final = "neighbour-"
"""How the role of a neighbour begins in the journal."""
OF_A_CPU: Final = "CPU"
"""Unit of CPU time over time: what is told as a share of one CPU."""

Scaling = Literal["work", "time"]
"""Whether a counter goes along with the work done, or is a share or a level that need not."""
Both = tuple[float, float]
"""A counter's value in the environment, and in the baseline."""


@dataclass(frozen=True)
class Counter:
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
            return metered(trial, meter, quantity)
        return _used(trial, quantity)

    def both(self, environment: Trial, baseline: Trial) -> Both | None:
        """Its values in the two trials of a pair; None: it was not seen in both.

        What is of the host tells nothing of one half of a duet.
        """
        if self.of_host and environment.partner is not None:
            return None
        mine, theirs = self.read(environment), self.read(baseline)
        return None if mine is None or theirs is None else (mine, theirs)

    def only_more(self, environment: Trial, baseline: Trial) -> bool:
        """Is less of it in the environment no news, whatever became of the figure?"""
        return False


class Guests(Counter):
    """What the kernel under the programs counted: the guest's, or where there is none the host's.

    The host's counts for everybody on it, so against it only more in the guest is news.
    """

    def both(self, environment: Trial, baseline: Trial) -> Both | None:
        """None unless a guest was there on one side at least; nor for a host with two halves."""
        if not has_guest(environment) and not has_guest(baseline):
            return None
        mine, theirs = self.read(environment), self.read(baseline)
        return None if mine is None or theirs is None else (mine, theirs)

    def read(self, trial: Trial) -> float | None:
        quantity = self.name.partition(".")[2]
        if has_guest(trial):
            return metered(trial, "guest", quantity)
        return None if trial.partner is not None else _of_host(trial, quantity)

    def only_more(self, environment: Trial, baseline: Trial) -> bool:
        """Against a host's kernel."""
        return has_guest(environment) != has_guest(baseline)


class Work(Counter):
    """CPU time of the programs, or of the vCPUs that they ran on: the same work elsewhere."""

    def read(self, trial: Trial) -> float | None:
        both = [metered(trial, "threads", name) for name in ("programs", "vcpu")]
        return None if None in both else sum(cpus for cpus in both if cpus is not None)


class Waiting(Counter):
    """What only a hypervisor's threads are asked: told where both sides have one."""

    def both(self, environment: Trial, baseline: Trial) -> Both | None:
        """None unless both have guests."""
        if not has_guest(environment) or not has_guest(baseline):
            return None
        return super().both(environment, baseline)


def metered(trial: Trial, meter: str, quantity: str) -> float | None:
    """What a meter saw in a trial."""
    return trial.meters.get(meter, {}).get(quantity)


def has_guest(trial: Trial) -> bool:
    """Did the programs run on a kernel of their own?"""
    return "guest" in trial.meters


def _of_host(trial: Trial, quantity: str) -> float | None:
    """What the host's kernel says of the same, in the same unit: CPU time in CPUs."""
    share = _SHARES_OF_HOST.get(quantity)
    if share is None:
        return metered(trial, "kernel", quantity)
    value = metered(trial, *share)
    time, window = metered(trial, "host", "cpu_time"), metered(trial, "kernel", "window")
    return value * time / window if value is not None and time and window else None


_SHARES_OF_HOST: Final = {
    "cpu_kernel": ("kernel", "cpu_kernel"),
    "cpu_interrupts": ("kernel", "cpu_interrupts"),
    "steal": ("host", "steal"),
}


def _events(name: str, words: str, floor: float, unit: str = "1/s") -> Counter:
    return Counter(name, words, unit, floor, "work")


def _share(name: str, words: str, floor: float = 0.01) -> Counter:
    return Counter(name, words, "1", floor, "time")


def _cpu(name: str, words: str) -> Counter:
    return Counter(name, words, OF_A_CPU, 0.01, "time")


def _guests(name: str, words: str, floor: float, unit: str = "1/s") -> Counter:
    return Guests(f"guest.{name}", f"{words} {_THERE}", unit, floor, "work")


def _guests_share(name: str, words: str, floor: float, unit: str) -> Counter:
    return Guests(f"guest.{name}", f"{words} {_THERE}", unit, floor, "time")


_THERE: Final = "in the guest's own kernel (elsewhere the host's)"

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
    Work("threads.programs+vcpu", "the programs, or the vCPUs they ran on", OF_A_CPU, 0.01, "time"),
    _cpu("threads.hypervisor", "QEMU beside its vCPUs (main loop, disks, network)"),
    _cpu("threads.vhost", "the host's kernel moving packets for guests (vhost)"),
    _cpu("threads.agent", "ullage's agent"),
    _cpu("threads.controller", "ullage's controller"),
    _cpu("threads.ksoftirqd", "the host's threads for soft interrupts"),
    _cpu("threads.kworker", "the host kernel's workers"),
    _cpu("threads.kernel_threads", "other threads of the host's kernel"),
    _cpu("threads.others", "everything else on the host"),
    Waiting("threads.vcpu_waited", "vCPUs waiting for a CPU", OF_A_CPU, 0.01, "time"),
    Waiting(
        "threads.hypervisor_waited",
        "QEMU beside its vCPUs waiting for a CPU",
        OF_A_CPU,
        0.01,
        "time",
    ),
    _guests("interrupts", "interrupts", 10),
    _guests("softirqs", "soft interrupts", 10),
    _guests("softirqs_network", "soft interrupts for packets", 10),
    _guests("softirqs_disk", "soft interrupts for disks", 10),
    _guests("softirqs_timer", "soft interrupts for timers", 10),
    _guests("context_switches", "context switches", 10),
    _guests("page_faults", "page faults", 100),
    _guests("major_faults", "page faults that read a disk", 1),
    _guests("swapped_in", "pages swapped in", 1),
    _guests("swapped_out", "pages swapped out", 1),
    _guests("disk_reads", "reads of disks", 1),
    _guests("disk_writes", "writes of disks", 1),
    _guests("disk_flushes", "flushes of disks", 1),
    _guests("disk_read", "bytes read from disks", 65536, "B/s"),
    _guests("disk_written", "bytes written to disks", 65536, "B/s"),
    _guests("net_packets", "packets", 10),
    _guests("net_drops", "packets dropped", 1),
    _guests_share("cpu_kernel", "CPU time in the kernel", 0.01, OF_A_CPU),
    _guests_share("cpu_interrupts", "CPU time in interrupts", 0.01, OF_A_CPU),
    _guests_share("steal", "CPU time that was taken away", 0.01, OF_A_CPU),
    _guests_share("psi_io_full", "time in which all tasks waited for a disk", 0.01, "1"),
    _guests_share("psi_memory_full", "time in which all tasks waited for memory", 0.01, "1"),
    _guests_share("disk_queue", "requests at disks at once", 0.05, ""),
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
    counts = [getattr(role.usage, quantity) for role in roles]
    if None in counts:
        return None
    used = sum(map(float, counts))
    return used * 1e9 / longest / max(1, len(trial.instances))
