"""Makes the trials of a run folder with a known truth, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from testing.synthetic_parts import LEVELS, Cell, Clock, instance_clock
from ullage.runs.events import BlockDone, Reason, RoleRecord, Started, Trial, Usage
from ullage.runs.records import Curve, Design, Record, Scalar, WorkloadRecord

SCRIPT = "</script><script>alert(1)</script>"
SIZES = (64.0, 1024.0, 16384.0, 262144.0)


@dataclass
class Maker:
    path: Path
    rng: np.random.Generator
    workloads: tuple[WorkloadRecord, ...]
    truth: Mapping[Cell, float]
    noise_sd: float
    tails: Literal["normal", "heavy"]
    drift: float
    steal: float
    raw: bool
    design: Design = "solo"
    blocks_each: int | None = None
    between_sd: float = 0.0
    clock: Clock = field(default_factory=Clock)
    slowdowns: dict[Cell, float] = field(default_factory=dict)
    """Log slowness that the present instances were dealt."""

    def noise(self) -> float:
        """Of one trial, so that the log-ratio of two has the standard deviation asked for."""
        if self.tails == "heavy":
            draw = float(self.rng.standard_t(3)) / math.sqrt(3)
        else:
            draw = float(self.rng.standard_normal())
        return self.noise_sd / math.sqrt(2) * draw

    def metrics(self, env: str, work: WorkloadRecord, common: float) -> dict[str, Scalar | Curve]:
        """Figures of one trial; `common` is the log slowness that the whole machine has now."""
        slow = math.log(self.truth.get((env, work.key), 1.0)) + common + self.noise()
        slow += self.slowdowns.get((env, work.key), 0.0)
        values: dict[str, Scalar | Curve] = {}
        for metric in work.metrics:
            known = LEVELS.get((work.workload, metric.name))
            level = 1000.0 if known is None else known
            sign = 1.0 if metric.better == "lower" else -1.0
            if metric.unit == "1" and not known:
                values[metric.name] = float(self.rng.poisson(0.5))
            elif metric.coordinate is not None:
                values[metric.name] = [
                    (
                        size,
                        level
                        * size
                        / (size + 4096.0)
                        * math.exp(sign * (slow + 0.2 * self.noise())),
                    )
                    for size in SIZES
                ]
            else:
                values[metric.name] = level * math.exp(sign * slow)
        return values

    def roles(self, trial: str, env: str, work: WorkloadRecord) -> tuple[RoleRecord, ...]:
        names = ("server", "client") if work.workload in ("iperf3", "netpipe") else ("main",)
        start = self.clock.mono_ns
        end = start + round(work.duration_s * 1e9)
        records = []
        ahead = 7_000_000_000 if env == "vm" else 0
        for name in names:
            out = f"trials/{trial}/{name}.stdout"
            if self.raw:
                file = self.path / out
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{work.workload} as {name} in {env}\nInitializing…\n")
            late = int(self.rng.integers(2_000, 80_000))
            records.append(
                RoleRecord(
                    role=name,
                    instance=f"{env}-0",
                    argv=(work.workload.partition("-")[0], "run"),
                    status=0,
                    signal=None,
                    start_ns=start + late,
                    end_ns=end + late,
                    late_ns=late,
                    start_local_ns=start + late + ahead,
                    end_local_ns=end + late + ahead,
                    clock_bound_ns=400_000 if env == "vm" else 120,
                    clock_sure_ns=300_000 if env == "vm" else 120,
                    usage=Usage(user_s=0.93, system_s=0.02, max_rss_bytes=9_000_000),
                    stdout=out if self.raw else None,
                )
            )
        return tuple(records)

    def trial(
        self,
        block: int,
        order: int,
        position: int,
        env: str,
        work: WorkloadRecord,
        common: float,
        failed: bool,
        beside: tuple[str, Literal[0, 1]] | None = None,
    ) -> Trial:
        """One trial. beside: of a duet, the other environment and the own half of the CPUs."""
        name = f"b{block:03d}-t{order:03d}"
        start, epoch = self.clock.mono_ns, self.clock.epoch_ns
        metrics = self.metrics(env, work, common)
        roles = self.roles(name, env, work)
        end = start + round(work.duration_s * 1e9)
        if beside is None or beside[1] == 1:
            self.clock.forward(work.duration_s + 0.018)
        starts = [role.start_ns for role in roles]
        return Trial(
            trial=name,
            block=block,
            order=order,
            position=position,
            environment=env,
            workload=work.key,
            generation=block // self.blocks_each if self.blocks_each else 0,
            partner=beside[0] if beside else None,
            side=beside[1] if beside else None,
            status="failed" if failed else "ok",
            reason=Reason(code="exit-status", message=f"{work.workload} said: {SCRIPT}")
            if failed
            else None,
            epoch_ns=epoch,
            start_ns=start,
            end_ns=end,
            spread_ns=max(starts) - min(starts) if len(starts) > 1 else None,
            overhead_s=0.018,
            metrics={} if failed else metrics,
            roles=roles,
            clocks={f"{env}-0": instance_clock(env, end - start)},
            meters={
                "host": {
                    "steal": max(0.0, self.steal * (1 + 0.3 * float(self.rng.standard_normal()))),
                    "busy": 0.55,
                    "psi_cpu": 0.01,
                    "psi_io": 0.0,
                    "psi_memory": 0.0,
                }
            },
        )

    def block(
        self,
        number: int,
        keys: Sequence[str],
        failures: set[tuple[int, str, str]],
        pause: tuple[int, float] | None,
    ) -> Iterable[Record]:
        """Every cell once; workloads in random order, environments of each back to back."""
        order = 0
        begin = self.clock.mono_ns
        common = self.drift * number + 0.1 * math.sin(number / 3)
        if self.blocks_each and number % self.blocks_each == 0:
            self.slowdowns = {
                (key, work.key): self.between_sd / math.sqrt(2) * self.rng.standard_normal()
                for key in keys
                for work in self.workloads
            }
        if self.design == "duet":
            yield from self.duets(number, keys, failures, common)
            keys = ()
        for index in self.rng.permutation(len(self.workloads)):
            work = self.workloads[int(index)]
            for position, env_index in enumerate(self.rng.permutation(len(keys))):
                if pause is not None and pause[0] == number and order == 1:
                    yield self.resumed(pause[1])
                env = keys[int(env_index)]
                failed = (number, env, work.key) in failures
                yield self.trial(number, order, position, env, work, common, failed)
                order += 1
        seconds = (self.clock.mono_ns - begin) / 1e9
        yield BlockDone(block=number, epoch_ns=self.clock.epoch_ns, seconds=seconds)

    def duets(
        self,
        number: int,
        keys: Sequence[str],
        failures: set[tuple[int, str, str]],
        common: float,
    ) -> Iterable[Record]:
        """Every environment beside the first one, which changes its side from block to block."""
        order = 0
        for work in self.workloads:
            for key in keys[1:]:
                pair = (keys[0], key) if number % 2 else (key, keys[0])
                sides: tuple[Literal[0, 1], ...] = (0, 1)
                for side in sides:
                    env, partner = pair[side], pair[1 - side]
                    failed = (number, env, work.key) in failures
                    half = (partner, side)
                    yield self.trial(number, order, side, env, work, common, failed, half)
                    order += 1

    def resumed(self, seconds: float) -> Started:
        self.clock.forward(seconds)
        return self.started(resumed=True)

    def started(self, *, resumed: bool) -> Started:
        return Started(
            epoch_ns=self.clock.epoch_ns,
            start_ns=self.clock.mono_ns,
            pid=4711,
            tag="u1a2b3c4",
            resumed=resumed,
            boot_id="7c9e6679-7425-40de-944b-e07fc1f90ae7",
        )
