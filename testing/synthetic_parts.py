"""What the made-up runs of `synthetic.py` consist of: environments, workloads, truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ullage.runs.events import InstanceClock
from ullage.runs.records import Coordinate, EnvironmentRecord, Metric, Parity, WorkloadRecord

EPOCH_NS = 1_795_227_033_000_000_000
MONO_NS = 4_200_000_000_000
MIB = 1024.0**2
Cell = tuple[str, str]


def _environment(key: str, label: str, provider: str, **more: Any) -> EnvironmentRecord:
    emulated = provider == "qemu"
    treatments = {
        "kernel": "6.1.0-32-cloud-amd64" if emulated else "6.18.5",
        "cpu model": "qemu64 (TCG)" if emulated else "host",
        "disk": "virtio-blk, qcow2, cache=none" if emulated else "bind mount",
        "network": "virtio-net" if emulated else "veth",
    }
    nuisances = {
        "cpus": "1",
        "pinning": "0",
        "memory": "1073741824",
        "userland": "sha256:5f70bf18",
    }
    facts = {
        "hostname": f"{key.partition('~')[0]}-0",
        "kernel": treatments["kernel"],
        "machine": "x86_64",
        "os": "Debian GNU/Linux 12 (bookworm)",
        "cpus_online": 1 if emulated else 2,
        "cpu_model": "QEMU Virtual CPU" if emulated else "Example CPU @ 2.60GHz",
        "memory_total_bytes": 1_025_000_000 if emulated else 25_200_000_000,
        "clocksource": "hpet" if emulated else "tsc",
    }
    return EnvironmentRecord(
        key=key,
        label=label,
        provider=provider,
        emulated=emulated,
        treatments=treatments,
        nuisances=nuisances,
        facts=facts,
        **more,
    )


ENVIRONMENTS: tuple[EnvironmentRecord, ...] = (
    _environment("native", "native", "native"),
    _environment("native~again", "native, again", "native", again_of="native"),
    _environment("container", "container (crun)", "oci", options={"runtime": "crun"}),
    _environment("lxc", "LXC", "lxc"),
    _environment("vm", "qemu-tcg (emulated)", "qemu", options={"disk": {"format": "qcow2"}}),
)

WORKLOADS: tuple[WorkloadRecord, ...] = (
    WorkloadRecord(
        key="sysbench-cpu",
        workload="sysbench-cpu",
        resource="cpu",
        title="CPU, 1 thread",
        parameters={"threads": 1, "max_prime": 10000, "time_s": 1.0},
        metrics=(
            Metric(
                name="events_rate",
                unit="1/s",
                better="higher",
                description="events per second",
                primary=True,
            ),
            Metric(
                name="latency_p95",
                unit="s",
                better="lower",
                description="95th percentile of an event's time",
            ),
        ),
        duration_s=1.0,
    ),
    WorkloadRecord(
        key="sysbench-memory",
        workload="sysbench-memory",
        resource="memory",
        title="memory writes, 1 MiB blocks",
        parameters={"threads": 1, "block_size": 1048576, "time_s": 1.0},
        metrics=(
            Metric(
                name="throughput",
                unit="B/s",
                better="higher",
                description="bytes written per second",
                primary=True,
            ),
        ),
        duration_s=1.0,
    ),
    WorkloadRecord(
        key="sysbench-fileio",
        workload="sysbench-fileio",
        resource="disk",
        title="random reads, 4 KiB, O_DIRECT",
        parameters={"mode": "rndrd", "block_size": 4096, "direct": True},
        metrics=(
            Metric(
                name="read_rate",
                unit="1/s",
                better="higher",
                description="reads per second",
                primary=True,
            ),
            Metric(
                name="latency_p95",
                unit="s",
                better="lower",
                description="95th percentile of a read's time",
            ),
        ),
        duration_s=1.0,
    ),
    WorkloadRecord(
        key="iperf3",
        workload="iperf3",
        resource="network",
        title="TCP, 1 stream",
        parameters={"streams": 1, "time_s": 1.0},
        metrics=(
            Metric(
                name="throughput",
                unit="bit/s",
                better="higher",
                description="bits received per second",
                primary=True,
            ),
            Metric(
                name="retransmits",
                unit="1",
                better="lower",
                description="TCP segments sent again",
            ),
        ),
        duration_s=1.0,
    ),
)

CURVE_WORKLOAD = WorkloadRecord(
    key="netpipe",
    workload="netpipe",
    resource="network",
    title="TCP by message size",
    parameters={},
    metrics=(
        Metric(
            name="throughput",
            unit="bit/s",
            better="higher",
            description="bits per second for a message size",
            primary=True,
            coordinate=Coordinate(name="message size", unit="B"),
        ),
    ),
    duration_s=1.0,
)

LEVELS: dict[tuple[str, str], float] = {
    ("sysbench-cpu", "events_rate"): 2300.0,
    ("sysbench-cpu", "latency_p95"): 0.00039,
    ("sysbench-memory", "throughput"): 23300.0 * MIB,
    ("sysbench-fileio", "read_rate"): 43000.0,
    ("sysbench-fileio", "latency_p95"): 0.000031,
    ("iperf3", "throughput"): 41e9,
    ("iperf3", "retransmits"): 0.0,
    ("netpipe", "throughput"): 9e9,
    ("streaming", "viewers"): 1000.0,
}
"""Absolute values of the baseline, those of a small shared machine."""

TRUTH: dict[Cell, float] = {
    ("container", "iperf3"): 1.12,
    ("lxc", "sysbench-fileio"): 1.05,
    ("lxc", "iperf3"): 1.10,
    ("vm", "sysbench-cpu"): 6.9,
    ("vm", "sysbench-memory"): 2.4,
    ("vm", "sysbench-fileio"): 3.1,
    ("vm", "iperf3"): 8.2,
}
"""True ratio to native of (environment, workload); a cell that is not here costs nothing."""

FAILURES: tuple[tuple[int, str, str], ...] = ((4, "vm", "sysbench-fileio"),)


def instance_clock(env: str, lasted_ns: int) -> InstanceClock:
    """The VM's runs 11.25 ppm fast; all others share the controller's."""
    if env != "vm":
        return InstanceClock(
            shared=True, looks=(2,), messages=2, took_ns=150_000, hard_ns=120, sure_ns=120
        )
    return InstanceClock(
        shared=False,
        looks=(2, 3),
        messages=40,
        took_ns=1_400_000,
        hard_ns=400_000,
        sure_ns=300_000,
        drifted_ns=lasted_ns * 11_250 // 1_000_000_000,
        drift_unsure_ns=900,
        between_ns=lasted_ns,
        residual_ns=700,
        reasons=("moves-unseen",),
    )


def parity(environments: Sequence[EnvironmentRecord], allowed: Sequence[str]) -> list[Parity]:
    rows = []
    for name in environments[0].nuisances:
        values = {env.key: env.nuisances.get(name, "") for env in environments}
        equal = len(set(values.values())) == 1
        rows.append(Parity(nuisance=name, equal=equal, allowed=name in allowed, values=values))
    return rows


@dataclass
class Clock:
    """Where the made-up run stands in time."""

    mono_ns: int = MONO_NS
    epoch_ns: int = EPOCH_NS

    def forward(self, seconds: float) -> None:
        step = round(seconds * 1e9)
        self.mono_ns += step
        self.epoch_ns += step
