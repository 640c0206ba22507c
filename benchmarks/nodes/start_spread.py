"""How far apart 32 instances on two machines begin one trial, beside as many ssh at once.

One kernel carries both machines here, so the truth is known: each program prints the kernel's own
clock (`/proc/uptime` would be too coarse; Perl's `clock_gettime`) as its first act, and the spread
is that of what was printed. The peer are 32 `ssh HOST` over open connections, all started at once,
as pdsh does it.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, main, median_interval
from benchmarks.nodes.machines import Machines, entries, folder, machines, ullage
from ullage.runs.reader import RunFolder

LIMIT_S = 0.001
PER_NODE = 16
PLAN = """\
name: nodes-spread
baseline: all
image: host
allow: [instances]
nodes:
{nodes}
resources: {{cpus: 1, memory: 64MiB}}
environments:
  all: {{provider: native, instances: {instances}, place: {{node-a: {share}, node-b: {share}}}}}
workloads: [{{name: command, argv: ["true"]}}]
blocks: {{min: {blocks}, max: {blocks}}}
"""
CLOCK = "perl -MTime::HiRes=clock_gettime,CLOCK_MONOTONIC -e 'print clock_gettime(CLOCK_MONOTONIC)'"


def ours(lab: Machines, blocks: int, place: Path) -> tuple[list[float], list[float]]:
    """Of each trial: seconds between its first and its last instance; how late the latest was."""
    plan = place / "plan.yaml"
    words = PLAN.format(nodes=entries(lab), instances=2 * PER_NODE, share=PER_NODE, blocks=blocks)
    plan.write_text(words, encoding="utf-8")
    ullage("run", str(plan), "--runs", str(place / "runs"))
    trials = [t for t in RunFolder.open(folder(place / "runs")).trials if t.status == "ok"]
    starts = [[role.start_local_ns for role in t.roles if role.start_local_ns] for t in trials]
    late = [max(role.late_ns for role in t.roles if role.late_ns is not None) for t in trials]
    return [(max(s) - min(s)) / 1e9 for s in starts if s], [ns / 1e9 for ns in late]


async def at_once(lab: Machines, controls: dict[str, Path]) -> float:
    """Seconds between the first and the last of as many ssh."""

    async def one(name: str) -> float:
        argv = lab.ssh(name, CLOCK, control=controls[name])
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        return float(output)

    names = [name for name in lab.names for _ in range(8)]
    instants = await asyncio.gather(*(one(name) for name in names))
    return max(instants) - min(instants)


def measure(quick: bool) -> Iterator[Figure]:
    """The spread by the programs' own starts."""
    blocks = 10 if quick else 40
    with machines() as lab, tempfile.TemporaryDirectory() as place:
        spreads, late = ours(lab, blocks, Path(place))
        with lab.connected("node-a") as a, lab.connected("node-b") as b:
            controls = dict(zip(lab.names, (a, b), strict=True))
            peers = [asyncio.run(at_once(lab, controls)) for _ in range(max(5, blocks // 4))]
    known = median_interval(spreads)
    yield Figure(
        f"start spread of {2 * PER_NODE} instances on 2 nodes",
        known.estimate,
        "s",
        known.low,
        known.high,
        peer="16 `ssh HOST` at once, ControlMaster",
        peer_value=statistics.median(peers),
        reach=f"at most {LIMIT_S:g} s",
        holds=known.estimate <= LIMIT_S,
        note=f"{len(spreads)} trials; the latest began {statistics.median(late) * 1e6:.0f} µs late",
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
