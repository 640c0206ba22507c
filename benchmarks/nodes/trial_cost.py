"""What a trial of `true` takes on another machine beyond one here, beside `ssh HOST true`.

Both stand in the same blocks of one run: seconds of the engine per trial, the program's included.
The peer is the system's ssh over a connection that is open (ControlMaster), in turns of its own
right after. One kernel here carries both machines, so the network between is a veth.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, main, median_interval
from benchmarks.nodes.machines import Machines, entries, folder, machines, ullage

LIMIT_S = 0.015
PLAN = """\
name: nodes-cost
baseline: here
image: host
nodes:
  near: {{local: true}}
{nodes}
resources: {{cpus: 1, memory: 256MiB}}
environments: {{here: {{provider: native}}, there: {{provider: native, place: {{node-a: 1}}}}}}
workloads: [{{name: command, argv: ["true"]}}]
blocks: {{min: {blocks}, max: {blocks}}}
"""


def ours(lab: Machines, blocks: int, place: Path) -> dict[str, list[float]]:
    """Environment → seconds of each trial, in the order of blocks."""
    plan = place / "plan.yaml"
    plan.write_text(PLAN.format(nodes=entries(lab), blocks=blocks), encoding="utf-8")
    ullage("run", str(plan), "--runs", str(place / "runs"))
    seconds: dict[str, list[float]] = {"here": [], "there": []}
    for line in (folder(place / "runs") / "journal.jsonl").read_text("utf-8").splitlines():
        event = json.loads(line)
        if (
            event["event"] == "trial"
            and event["status"] == "ok"
            and event["environment"] in seconds
        ):
            worked = (event["end_ns"] - event["start_ns"]) / 1e9
            seconds[event["environment"]].append(event["overhead_s"] + worked)
    return seconds


def by_ssh(lab: Machines, times: int) -> list[float]:
    """Seconds of `ssh HOST true` over an open connection."""
    seconds = []
    with lab.connected("node-a") as control:
        for _ in range(times):
            began = time.perf_counter()
            subprocess.run(lab.ssh("node-a", "true", control=control), check=True)
            seconds.append(time.perf_counter() - began)
    return seconds


def measure(quick: bool) -> Iterator[Figure]:
    """There less here, block by block."""
    blocks = 10 if quick else 50
    with machines() as lab, tempfile.TemporaryDirectory() as place:
        seconds = ours(lab, blocks, Path(place))
        peer = median_interval(by_ssh(lab, blocks))
    more = [there - here for here, there in zip(seconds["here"], seconds["there"], strict=True)]
    known = median_interval(more)
    here, there = (median_interval(seconds[name]).estimate for name in ("here", "there"))
    yield Figure(
        "a trial of `true` on another node: more than here",
        known.estimate,
        "s",
        known.low,
        known.high,
        peer="`ssh HOST true`, ControlMaster",
        peer_value=peer.estimate,
        reach=f"at most {LIMIT_S:g} s",
        holds=known.estimate <= LIMIT_S,
        note=f"medians of {len(more)} blocks: {here * 1e3:.1f} ms here, {there * 1e3:.1f} ms there",
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
