"""Decisions of the state machine in process: events handled per second.

`rust/elastic/examples/decisions.rs` holds 1,000 nodes with room for 100 viewers each, nine tenths
of the seats taken; viewers chosen at random finish and come again. Only `Machine::handle` and the
program's loop are timed. Once with ids as the front has them (any number) and once with the
simulator's (small ones). The policy is `elastic-movie`. There is no peer: the aim is that deciding
costs the front nothing beside HTTP.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, main, median_interval

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "target" / "program" / "examples" / "decisions"
AIM: Final = 1e6
NODES, ROOM = 1000, 100
EVENTS: Final = 10_000_000


def measure(quick: bool) -> list[Figure]:
    """Build it, and run it some times."""
    build = ["cargo", "build", "--quiet", "--locked", "--profile", "program"]
    subprocess.run([*build, "-p", "ullage-elastic", "--example", "decisions"], check=True, cwd=ROOT)
    command = [str(EXAMPLE), "elastic-movie", str(NODES), str(ROOM), str(EVENTS)]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        for _ in range(6 if quick else 20)
    ]
    return [
        _row("any ids, as in the front", [run["any_ids"] for run in runs]),
        _row("small ids, as in the simulator", [run["small_ids"] for run in runs]),
    ]


def _row(name: str, rates: list[float]) -> Figure:
    found = median_interval(rates)
    return Figure(
        f"decisions, {name}",
        found.estimate,
        "1/s",
        found.low,
        found.high,
        reach="at least 1e+06 /s",
        holds=found.low is not None and found.low >= AIM,
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
