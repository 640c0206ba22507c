"""How far is the simulator from real nodes? PcBl of repetitions on LXC, and of their twins.

`docs/plans/elastic-twin.yaml` is run, or with `--quick` two repetitions of it: nodes that are held
back by 10, 40 and 100 s of the users' time. Of each repetition a twin is simulated, with its
arrivals and the latencies that its nodes had. The difference of the two, in percentage points, is
paired; its interval is t over the repetitions.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figures import Figure, main
from ullage.common.errors import ExitCode
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.simulator.twin import Simulated, difference, twins

CONFIDENCE: Final = 0.95
POINTS: Final = 0.5
"""Aim: the whole interval of the difference lies within so many percentage points of 0."""
LEAST: Final = 20
"""Of so many repetitions."""
PLAN: Final = Path(__file__).resolve().parents[2] / "docs/plans/elastic-twin.yaml"


def measure(quick: bool) -> list[Figure]:
    """Run the plan, simulate the twins."""
    with TemporaryDirectory(prefix="ullage-twin-") as name:
        plan = Path(name) / "plan.yaml"
        text = PLAN.read_text(encoding="utf-8")
        if quick:
            text = re.sub(r"(?m)^repetitions: \d+$", "repetitions: 2", text)
        plan.write_text(text, encoding="utf-8")
        runs = Path(name) / "runs"
        argv = [sys.executable, "-m", "ullage", "elastic", "run", str(plan)]
        # Repetitions without figures are counted below.
        done = subprocess.run([*argv, "--runs", str(runs)], check=False, stdout=subprocess.DEVNULL)
        if done.returncode not in (ExitCode.DONE, ExitCode.SOME_CELLS_FAILED):
            raise RuntimeError(f"the run ended with {done.returncode}")
        (folder,) = runs.iterdir()
        return rows(ElasticRun.open(folder))


def rows(run: ElasticRun) -> list[Figure]:
    """A row for each environment, and one of all repetitions together."""
    simulated = twins(run)
    figures = []
    for environment in run.resolved.environments:
        mine = [repetition for (key, _), repetition in simulated.items() if key == environment.key]
        without = len(run.of(environment.key)) - len(mine)
        figures.append(_row(run.label(environment.key), mine, without))
    everything = list(simulated.values())
    figures.append(_row("all", everything, len(run.repetitions) - len(everything), aim=True))
    return figures


def _row(
    label: str, repetitions: Sequence[Simulated], without: int, *, aim: bool = False
) -> Figure:
    name, reach = f"simulated less real PcBl, {label}", f"within ±{POINTS:g}" if aim else ""
    if not repetitions:
        note = f"{without} repetitions without figures, none with"
        return Figure(name, math.nan, "points", reach=reach, note=note)
    real, simulated = (
        100 * fmean(getattr(repetition, of) for repetition in repetitions)
        for of in ("real", "blocked")
    )
    span = difference(repetitions, CONFIDENCE)
    low, high = (None if end is None else 100 * end for end in (span.low, span.high))
    note = f"PcBl {real:.2f} % really, {simulated:.2f} % simulated; {len(repetitions)} repetitions"
    if without:
        note += f", {without} without figures"
    if span.why:
        note += f"; {span.why}"
    return Figure(
        name,
        simulated - real,
        "points",
        low,
        high,
        reach=reach,
        holds=_holds(low, high, len(repetitions)) if aim else None,
        note=note,
    )


def _holds(low: float | None, high: float | None, repetitions: int) -> bool | None:
    """None where there are too few repetitions to say, or all are equal."""
    if low is None or high is None or repetitions < LEAST:
        return None
    return low >= -POINTS and high <= POINTS


if __name__ == "__main__":
    main(measure, __doc__ or "")
