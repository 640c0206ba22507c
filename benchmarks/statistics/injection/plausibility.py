"""Slow-downs whose truth is itself uncertain: what to expect, and what is measured."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.statistics.injection.hindrances import (
    BURST_BYTES,
    Neighbour,
    NeighbourOptions,
    Shaped,
    ShapedOptions,
    Throttled,
    ThrottledOptions,
)
from benchmarks.statistics.injection.provider import Paced, PacedOptions
from benchmarks.statistics.injection.recording import Expected, Recording, folder
from benchmarks.statistics.injection.session import Session, baseline, environment, percents
from benchmarks.statistics.injection.workloads import PIECE, READ
from ullage.analysis.comparison.model import Comparison
from ullage.analysis.overhead import analyse
from ullage.environments.placement import Resources
from ullage.host.cgroups import available
from ullage.plan.matrix import Environment

TIMES: Final = 2
"""Trials are so many times as long as the others: limits work in periods of a tenth of a second."""
PERIOD_S: Final = 0.1
"""Of a CPU quota, and of a slice of the throttle."""
QUOTA: Final = 0.5
SHARE: Final = 0.5
"""Of the link's and the disk's own rate."""
SEGMENT: Final = (1448, 1514)
"""Payload and length of a full Ethernet frame of TCP with time stamps."""


def run(session: Session) -> None:
    """All that this host can do; the rest is noted with its reason."""
    _cpu(session)
    _network(session)
    _disk(session)


def _cpu(session: Session) -> None:
    name, work_s = "plausible-cpu", TIMES * session.size.trial_s
    environments: list[Environment] = []
    expected: list[Expected] = []

    def expect(key: str, subject: str, low: float, high: float, why: str) -> None:
        expected.append(
            Expected(
                run=name, environment=key, what=subject, low=low, high=high, relative=True, why=why
            )
        )

    if "cpu" in available():
        half = Resources(cpus=QUOTA, memory=baseline()[0].resources.memory)
        environments.append(environment("quota", Paced(PacedOptions()), resources=half))
        free = (1 - QUOTA) * PERIOD_S / work_s
        why = f"1/{QUOTA}, less a wait that the last period may save"
        expect("quota", f"CPU quota {QUOTA}", 1 / QUOTA - free, 1 / QUOTA, why)
    else:
        session.recording.about.left_out["CPU quota"] = "no cgroup controller `cpu`"
    environments.append(environment("same-cpu", Neighbour(NeighbourOptions(same_cpu=True))))
    expect("same-cpu", "busy neighbour, same CPU", 1.9, 2.1, "half of the CPU, within 5 %")
    if len(os.sched_getaffinity(0)) > 1:
        environments.append(environment("other-cpu", Neighbour(NeighbourOptions(same_cpu=False))))
        why = "1 on another core, up to 2 on a sibling thread of the same"
        expect("other-cpu", "busy neighbour, other CPU", 1.0, 2.0, why)
    _record(session, "cpu", environments, expected, allow=("cpus", "pinning"))


def _network(session: Session) -> None:
    if shutil.which("tc") is None:
        session.recording.about.left_out["tbf"] = "no `tc` (iproute2)"
        return
    size = TIMES * session.recording.about.works["network"] * PIECE
    rate = round(SHARE * size * 8 / (TIMES * session.size.trial_s))
    payload, frame = SEGMENT
    expected = Expected(
        run="plausible-network",
        environment="tbf",
        what=f"tbf, {rate / 1e9:.2f} Gbit/s",
        low=(size - BURST_BYTES) * 8 / rate,
        high=size * 8 / rate * frame / payload,
        relative=False,
        why="bytes over rate: without headers and the burst, or with every header",
    )
    shaped = environment("tbf", Shaped(ShapedOptions(bits_per_second=rate)))
    _record(session, "network", [shaped], [expected])


def _disk(session: Session) -> None:
    if why := Throttled.missing():
        session.recording.about.left_out["I/O throttle"] = why
        return
    size = TIMES * session.recording.about.works["disk"] * READ
    rate = round(SHARE * size / (TIMES * session.size.trial_s))
    expected = Expected(
        run="plausible-disk",
        environment="throttle",
        what=f"blkio throttle, {rate / 1e6:.0f} MB/s",
        low=size / rate - PERIOD_S,
        high=size / rate,
        relative=False,
        why="bytes over rate, less a slice that may pass free",
    )
    throttled = environment("throttle", Throttled(ThrottledOptions(bytes_per_second=rate)))
    _record(session, "disk", [throttled], [expected])


def _record(
    session: Session,
    workload: str,
    hindered: Sequence[Environment],
    expected: Sequence[Expected],
    allow: Sequence[str] = (),
) -> None:
    name = expected[0].run
    environments = (*baseline(), *hindered)
    loads = [session.cases(TIMES)[workload]]
    run = session.run(name, environments, loads, session.size.hindered, allow)
    session.recording.add("plausible", name, run, percents(environments))
    session.recording.about.expected += expected
    session.saved(session.recording)
    print(f"{name} is done", file=sys.stderr)


@dataclass(frozen=True)
class Plausibility:
    """An expectation beside what was measured."""

    expected: Expected
    low: float
    """The expectation as a ratio."""
    high: float
    comparison: Comparison

    @property
    def agrees(self) -> bool:
        """Does the measured interval touch the expected one?"""
        interval = self.comparison.interval
        return interval is not None and interval.low <= self.high and interval.high >= self.low


def compared(recording: Recording) -> list[Plausibility]:
    """Analyse the runs with hindered instances. Seconds become ratios by the baseline's mean."""
    runs = dict(recording.of("plausible"))
    measured = []
    for expected in recording.about.expected:
        analysis = analyse(folder(recording.about.resolved[expected.run], runs[expected.run]))
        comparison = next(
            c for c in analysis.comparisons if c.primary and c.environment == expected.environment
        )
        native = comparison.baseline_values
        by = 1.0 if expected.relative or native is None else native.mean
        measured.append(Plausibility(expected, expected.low / by, expected.high / by, comparison))
    return measured
