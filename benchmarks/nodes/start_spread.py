"""How far apart the instances of one trial begin on two machines, for 1 to 16 of them on each.

One kernel carries both machines here, so the truth is known, and so is the limit: programs that
share a CPU begin one after the other, however exact the instant is. The peers are as many
`ssh HOST` over open connections, all started at once, as pdsh does it, by the clock that each
prints first; and as many ranks of MPI that leave a barrier, here, which have been started before.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, main, median_interval
from benchmarks.nodes.machines import Machines, entries, folder, machines, ullage
from ullage.runs.reader import RunFolder

LIMIT_S = 0.001
SHARES = (1, 2, 4, 8, 16)
"""Instances on each node."""
LIMITED = 16
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


def ours(lab: Machines, share: int, blocks: int, place: Path) -> tuple[list[float], list[float]]:
    """Of each trial: seconds between its first and its last start; how late the latest was."""
    plan = place / "plan.yaml"
    words = PLAN.format(nodes=entries(lab), instances=2 * share, share=share, blocks=blocks)
    plan.write_text(words, encoding="utf-8")
    ullage("run", str(plan), "--runs", str(place / "runs"))
    trials = [t for t in RunFolder.open(folder(place / "runs")).trials if t.status == "ok"]
    starts = [[role.start_local_ns for role in t.roles if role.start_local_ns] for t in trials]
    late = [max(role.late_ns for role in t.roles if role.late_ns is not None) for t in trials]
    return [(max(s) - min(s)) / 1e9 for s in starts if s], [ns / 1e9 for ns in late]


async def at_once(lab: Machines, controls: dict[str, Path], share: int) -> float:
    """Seconds between the first and the last of as many ssh; sshd takes ten at once."""

    async def one(name: str) -> float:
        argv = lab.ssh(name, CLOCK, control=controls[name])
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        return float(output)

    names = [name for name in lab.names for _ in range(min(share, 9))]
    instants = await asyncio.gather(*(one(name) for name in names))
    return max(instants) - min(instants)


def barrier(place: Path, ranks: int) -> float:
    """Seconds between the first and the last rank that leaves it; the median of its rounds."""
    program = place / "barrier"
    if not program.exists():
        source = Path(__file__).with_name("barrier.c")
        subprocess.run(["mpicc", "-O2", "-o", program, source], check=True)
    argv = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), str(program)]
    quiet = {**os.environ, "OMPI_MCA_mpi_yield_when_idle": "1"}
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=quiet)
    rounds: dict[str, list[int]] = defaultdict(list)
    for line in done.stdout.splitlines():
        number, instant_ns = line.split()
        rounds[number].append(int(instant_ns))
    return statistics.median((max(of) - min(of)) / 1e9 for of in rounds.values())


def measure(quick: bool) -> Iterator[Figure]:
    """The spread by the programs' own starts."""
    blocks = 5 if quick else 30
    with (
        machines() as lab,
        tempfile.TemporaryDirectory() as name,
        lab.connected("node-a") as a,
        lab.connected("node-b") as b,
    ):
        controls = dict(zip(lab.names, (a, b), strict=True))
        for share in SHARES:
            place = Path(name, str(share))
            place.mkdir()
            spreads, late = ours(lab, share, blocks, place)
            peers = [asyncio.run(at_once(lab, controls, share)) for _ in range(5)]
            left = barrier(Path(name), 2 * share)
            yield figure(share, spreads, late, statistics.median(peers), left)


def figure(
    share: int, spreads: list[float], late: list[float], ssh_s: float, mpi_s: float
) -> Figure:
    """One count's."""
    known = median_interval(spreads)
    cpus = len(os.sched_getaffinity(0))
    aimed = share == LIMITED
    return Figure(
        f"start spread of {2 * share} instances on 2 nodes",
        known.estimate,
        "s",
        known.low,
        known.high,
        peer="`ssh HOST` at once, ControlMaster, at most 18",
        peer_value=ssh_s,
        reach=f"at most {LIMIT_S:g} s" if aimed else "",
        holds=known.estimate <= LIMIT_S if aimed else None,
        note=f"{len(spreads)} trials on {cpus} CPUs; the latest began "
        f"{statistics.median(late) * 1e6:.0f} µs late; {2 * share} ranks left MPI_Barrier "
        f"{mpi_s * 1e6:.0f} µs apart",
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
