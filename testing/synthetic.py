"""Run folders with a known truth: `make_run` writes one as the engine would.

Ratios are oriented as everywhere: above 1 is worse than the baseline. What is random comes from
`seed` alone. `SCRIPT` is what a hostile guest might print; it stands in the reason of the failed
trial, so that whatever shows reasons must treat them as text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from testing.synthetic_maker import SCRIPT, Maker
from testing.synthetic_parts import (
    CURVE_WORKLOAD,
    ENVIRONMENTS,
    FAILURES,
    TRUTH,
    WORKLOADS,
    Cell,
    parity,
)
from ullage.runs.events import Finished, Provisioned, Warned
from ullage.runs.records import (
    Correction,
    Design,
    EnvironmentRecord,
    ImageRecord,
    Record,
    Resolved,
    WorkloadRecord,
)

__all__ = ["CURVE_WORKLOAD", "ENVIRONMENTS", "FAILURES", "SCRIPT", "TRUTH", "WORKLOADS", "make_run"]


def make_run(
    path: Path,
    *,
    seed: int = 1,
    blocks: int = 12,
    environments: Sequence[EnvironmentRecord] = ENVIRONMENTS,
    workloads: Sequence[WorkloadRecord] = WORKLOADS,
    truth: Mapping[Cell, float] = TRUTH,
    noise_sd: float = 0.2,
    tails: Literal["normal", "heavy"] = "normal",
    drift: float = 0.0,
    steal: float = 0.002,
    failures: Sequence[tuple[int, str, str]] = FAILURES,
    allowed: Sequence[str] = (),
    until: float | None = None,
    least: int = 6,
    pause: tuple[int, float] | None = None,
    finished: bool = True,
    raw: bool = True,
    name: str = "vm-or-container",
    margin: float = 0.02,
    confidence: float = 0.95,
    design: Design = "solo",
    correction: Correction = "holm",
    blocks_each: int | None = None,
    between_sd: float = 0.0,
    network: dict[str, Any] | None = None,
    resources: Mapping[str, float] = MappingProxyType({"cpus": 1, "memory": 1 << 30}),
) -> Path:
    """Write the run folder `path` and return it.

    truth: true ratios of (environment key, workload key); what is missing is 1.
    noise_sd: standard deviation of the log-ratio of two neighbouring trials.
    drift: log slowness that the whole machine gains per block.
    failures: (block, environment key, workload key) of the trials that fail; blocks count from 0.
    allowed: nuisances that the plan allows to be unequal.
    until: relative half-width of a precision stop in the plan, after `least` blocks at least.
    pause: (block, seconds): the controller was killed in that block and resumed so much later.
    raw: write the raw outputs too (off for large runs).
    blocks_each: all instances are made anew after so many blocks.
    between_sd: standard deviation that this adds to the log-ratio of two environments.
    """
    path.mkdir(parents=True, exist_ok=True)
    maker = Maker(
        path=path,
        rng=np.random.default_rng(seed),
        workloads=tuple(workloads),
        truth=truth,
        noise_sd=noise_sd,
        tails=tails,
        drift=drift,
        steal=steal,
        raw=raw,
        design=design,
        blocks_each=blocks_each,
        between_sd=between_sd,
    )
    resolved = Resolved(
        ullage="0.1.0",
        run=path.name,
        tag="ull-5f70bf18",
        name=name,
        seed=seed,
        baseline=environments[0].key,
        confidence=confidence,
        margin=margin,
        repeat={"instances": blocks_each, "iterations": 1},
        design=design,
        correction=correction,
        network=network,
        resources=dict(resources),
        blocks={
            "min": least,
            "max": max(blocks, least),
            "until": None if until is None else {"half_width": until},
            "budget": 600.0,
        },
        environments=tuple(environments),
        workloads=tuple(workloads),
        parity=tuple(parity(environments, allowed)),
        image=ImageRecord(
            kind="built",
            digest="sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
            packages={"sysbench": "1.0.20+ds-5", "iperf3": "3.12-1+deb12u1", "libc6": "2.36-9"},
        ),
        host={
            "kernel": "6.18.5",
            "os": "Debian GNU/Linux 12 (bookworm)",
            "machine": "x86_64",
            "cpu_model": "Example CPU @ 2.60GHz",
            "cpus": 2,
            "memory_bytes": 25_200_000_000,
            "hypervisor": "kvm",
        },
    )
    (path / "resolved.json").write_text(resolved.model_dump_json(indent=2) + "\n")
    (path / "plan.yaml").write_text(f"name: {name}\nbaseline: {resolved.baseline}\n")
    events = _events(maker, environments, blocks, set(failures), pause, finished)
    with (path / "journal.jsonl").open("w") as journal:
        for event in events:
            journal.write(event.model_dump_json() + "\n")
    return path


def _events(
    maker: Maker,
    environments: Sequence[EnvironmentRecord],
    blocks: int,
    failures: set[tuple[int, str, str]],
    pause: tuple[int, float] | None,
    finished: bool,
) -> Iterable[Record]:
    clock = maker.clock
    begin = clock.epoch_ns
    yield maker.started(resumed=False)
    for env in environments:
        seconds = 3.5 if env.emulated else 0.05
        clock.forward(seconds)
        yield Provisioned(
            environment=env.key,
            instance=f"{env.key}-0",
            epoch_ns=clock.epoch_ns,
            seconds=seconds,
            facts=env.facts,
        )
    yield Warned(
        epoch_ns=clock.epoch_ns,
        code="emulated",
        message="KVM does not work on this host: the VM is emulated",
    )
    keys = [env.key for env in environments]
    for number in range(blocks):
        yield from maker.block(number, keys, failures, pause)
    if finished:
        yield Finished(
            epoch_ns=clock.epoch_ns, seconds=(clock.epoch_ns - begin) / 1e9, reason="blocks"
        )


if __name__ == "__main__":
    print(json.dumps({"run": str(make_run(Path(sys.argv[1])))}))
