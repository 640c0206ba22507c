"""Many machines, simulated: the controller's CPU time for each machine and trial.

Only the transport is another (`benchmarks/nodes/many_controller.py`): machines are sessions of one
process that speaks the node's protocol (`benchmarks/nodes/farm.py`), each with a real agent, which
runs `true`. What a run costs once is taken off: it is the difference of two runs, over the machines
and trials that one has more.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, main
from benchmarks.nodes.machines import folder
from ullage.host.network.sockets import place
from ullage.runs.reader import RunFolder

LIMIT_S: Final = 0.002
PLAN: Final = """\
name: nodes-many
baseline: all
image: host
allow: [instances]
nodes:
{nodes}
resources: {{cpus: 1, memory: 64MiB}}
environments: {{all: {{provider: native, instances: {count}, place: spread}}}}
workloads: [{{name: command, argv: ["true"]}}]
blocks: {{min: {blocks}, max: {blocks}}}
"""
COUNT: Final = 200
"""As many as two cores carry agents of; the aim is for 1,000."""
FEW, MANY = 1, 4
"""Blocks of the two runs."""


@contextlib.contextmanager
def farm() -> Iterator[Path]:
    """The socket at which all machines are reached."""
    with tempfile.TemporaryDirectory(dir=place()) as directory:
        path = Path(directory) / "farm"
        argv = [sys.executable, "-m", "benchmarks.nodes.farm", str(path)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the simulated machines are not up")
            yield path
        finally:
            process.kill()
            process.wait()


def run(count: int, blocks: int) -> tuple[float, float, int, int]:
    """The controller's CPU seconds and peak bytes, its trials, and how many of them went well."""
    with farm() as path, tempfile.TemporaryDirectory() as directory:
        plan, runs = Path(directory) / "plan.yaml", Path(directory) / "runs"
        nodes = "\n".join(f"  n{number}: {{ssh: root@n{number}}}" for number in range(count))
        plan.write_text(PLAN.format(nodes=nodes, count=count, blocks=blocks), encoding="utf-8")
        argv = [sys.executable, "-m", "benchmarks.nodes.many_controller"]
        argv += [str(path), str(plan), str(runs)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        try:
            used = json.loads(done.stderr.splitlines()[-1])
            trials = RunFolder.open(folder(runs)).trials
        except (ValueError, IndexError, OSError) as error:
            raise RuntimeError(done.stderr[-2000:]) from error
    well = sum(trial.status == "ok" for trial in trials)
    return float(used["cpu_s"]), float(used["peak"]), len(trials), well


def measure(quick: bool) -> Iterator[Figure]:
    """Two runs, one with more blocks."""
    count = 50 if quick else COUNT
    few_s, _, few, few_well = run(count, FEW)
    many_s, peak, many, many_well = run(count, MANY)
    if many <= few:
        raise RuntimeError(f"{many} trials in {MANY} blocks, and {few} in {FEW}: it did not get on")
    cost = (many_s - few_s) / (many - few) / count
    well = (few_well, many_well) == (few, many)
    yield Figure(
        f"{count} simulated nodes: the controller's CPU time a node and trial",
        cost,
        "s",
        reach=f"at most {LIMIT_S:g} s",
        holds=well and cost <= LIMIT_S,
        note=f"{many - few} trials more, each of `true` on all of them; "
        f"{few_well + many_well} of {few + many} with figures",
    )
    yield Figure(f"{count} simulated nodes: the controller's peak memory", peak / 1e6, "MB")


if __name__ == "__main__":
    main(measure, __doc__ or "")
