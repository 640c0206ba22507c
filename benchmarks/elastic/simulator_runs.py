"""Runs the simulator's example, its bare heap and its SimPy peer, each in a process of its own.

Each is timed by the CPU time of its own run, without its start and without reading the
specification: on a machine that does other things too, the time by the clock would tell of those.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

Json = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "target" / "program" / "examples"
WATCH_S: Final = 1800.0
ROOM: Final = 100


@dataclass(frozen=True)
class Run:
    """One run of the simulator."""

    cpu_s: float
    memory_bytes: float
    outcome: Json


def build() -> None:
    """The two examples, as the programs of a release are built."""
    command = ["cargo", "build", "--quiet", "--locked", "--profile", "program"]
    command += ["-p", "ullage-elastic", "--example", "sim", "--example", "sim_heap"]
    subprocess.run(command, check=True, cwd=ROOT)


def application(viewers: int, sessions: int, watch: str, seed: int = 1) -> Json:
    """ElasticMovie with so many viewers on the average, who watch `fixed` or `exponential` times.

    Nodes with room for 100 come in 10 s, and go in 5 s. They are allocated as viewers need them,
    so that even a million viewers are there soon and are served.
    """
    fixed = {"kind": "fixed", "s": WATCH_S}
    drawn = {"kind": "exponential", "mean_s": WATCH_S}
    return {
        "application": {"room": ROOM, "allocation": "one_per_need"},
        "arrivals": {"kind": "poisson", "rate_hz": viewers / WATCH_S},
        "sessions": sessions,
        "watch": fixed if watch == "fixed" else drawn,
        "patience": {"kind": "fixed", "s": 60.0},
        "allocation": {
            "rows": [{"stages": [{"name": "all", "time": {"kind": "fixed", "s": 10.0}}]}]
        },
        "release": {"kind": "fixed", "s": 5.0},
        "seed": seed,
    }


def simulate(spec: Json) -> Run:
    """One run of `rust/elastic/examples/sim.rs`."""
    result = _run_with(spec, [str(EXAMPLES / "sim")])
    return Run(result["cpu_s"], result["memory_bytes"], result["outcome"])


def simpy(spec: Json) -> Json:
    """One run of the same in SimPy: its CPU time, and what it counted."""
    return _run_with(spec, [sys.executable, "-m", "benchmarks.elastic.simpy_model"])


def heap(pending: int, sessions: int) -> float:
    """CPU time of the pushes and pops of so many sessions, and of nothing else."""
    command = [str(EXAMPLES / "sim_heap"), str(pending), str(sessions)]
    done = subprocess.run(command, check=True, capture_output=True)
    return float(json.loads(done.stdout)["cpu_s"])


def _run_with(spec: Json, command: list[str]) -> Json:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "spec.json"
        path.write_text(json.dumps(spec), encoding="utf-8")
        done = subprocess.run([*command, str(path)], check=True, capture_output=True, cwd=ROOT)
    result: Json = json.loads(done.stdout)
    return result
