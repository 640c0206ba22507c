"""Decisions of the state machine in process: events handled per second of CPU time.

`rust/elastic/examples/decisions.rs` holds 4, 1,000 or 10,000 nodes with room for 100 viewers each,
nine tenths of the seats taken; viewers chosen at random finish and come again. Only
`Machine::handle` and the program's loop are timed. Once with ids as the front has them (any number)
and once with the simulator's (small ones). The policy is `elastic-movie`. There is no peer: the aim
is that deciding costs the front nothing beside HTTP. The sizes take turns.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, main, median_interval, needs

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "target" / "program" / "examples" / "decisions"
AIM: Final = 1e6
NODES: Final = (4, 1000, 10_000)
ROOM: Final = 100
EVENTS: Final = 10_000_000
IDS: Final = {
    "any_ids": "any ids, as in the front",
    "small_ids": "small ids, as in the simulator",
}


@needs("cargo")
def measure(quick: bool) -> list[Figure]:
    """Build it, and run it some times."""
    build = ["cargo", "build", "--quiet", "--locked", "--profile", "program"]
    subprocess.run([*build, "-p", "ullage-elastic", "--example", "decisions"], check=True, cwd=ROOT)
    runs = [[_run(nodes) for nodes in NODES] for _ in range(6 if quick else 20)]
    return [
        _row(f"{of[0]['viewers']:,} viewers, {ids}", [run[field] for run in of])
        for of in zip(*runs, strict=True)
        for field, ids in IDS.items()
    ]


def _run(nodes: int) -> dict[str, float]:
    command = [str(EXAMPLE), "elastic-movie", str(nodes), str(ROOM), str(EVENTS)]
    done = subprocess.run(command, check=True, capture_output=True)
    return dict(json.loads(done.stdout))


def _row(name: str, rates: list[float]) -> Figure:
    interval = median_interval(rates)
    return Figure(
        f"decisions, {name}",
        interval.estimate,
        "1/s",
        interval.low,
        interval.high,
        reach="at least 1e+06 /s",
        holds=interval.low is not None and interval.low >= AIM,
    )


if __name__ == "__main__":
    main(measure, __doc__ or "")
