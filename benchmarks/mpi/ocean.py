"""What a clock costs an ocean model: `MPI_Wtime` of the library, of ours, and under daemons.

The experiment is `ullage.experiments.clock.ocean`, with daemons of three sizes or of six: 1.4 % of
the core in pieces of ever smaller size, so that what the size alone does is seen.

Published in 2015 for POP on 4 to 16 processes: with NTP 1.008 to 1.020 times as long as with the
clock that does not resynchronise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, median_interval, needs, write
from ullage.common.commands import needed
from ullage.common.errors import UllageError
from ullage.experiments.clock.ocean import experiment
from ullage.experiments.clock.ocean.judging import CONFIDENCE, log_ratios, verdicts
from ullage.experiments.clock.ocean.outcome import (
    AGAIN,
    CHRONY,
    OURS,
    STOCK,
    Noise,
    OceanSeries,
    OceanTrial,
    noise_name,
)
from ullage.experiments.clock.ocean.trial import OceanJob
from ullage.stats.interval import TooFewError, t_interval
from ullage.stats.verdict import Judgement

ROOT = Path(__file__).resolve().parents[2]
SAME_SHARE = ((100_000, 1_400), (10_000, 140), (1_000, 14))
"""Period and length, µs: 1.4 % of a core."""
MORE_NOISE = ((1_000_000, 14_000), (100_000, 10_000), (10_000, 1_000))


@dataclass(frozen=True)
class Size:
    """How much is run."""

    blocks: int
    steps: int
    noise: tuple[Noise, ...]


QUICK = Size(6, 200, SAME_SHARE)
USUAL = Size(10, 600, SAME_SHARE)
FULL = Size(24, 2000, SAME_SHARE + MORE_NOISE)


@dataclass(frozen=True)
class Record:
    """Everything that one call measured."""

    job: OceanJob
    left_out: dict[str, str]
    series: OceanSeries

    def write(self, path: Path) -> None:
        """As JSON, with the figures so far."""
        series = self.series.model_dump(mode="json")
        path.write_text(
            json.dumps(
                {
                    "job": asdict(self.job),
                    "variants": series["variants"],
                    "left_out": self.left_out,
                    "trials": series["trials"],
                    "figures": [asdict(figure) for figure in figures(self.series)],
                },
                indent=1,
            )
            + "\n"
        )


def perform(job: OceanJob, size: Size, seed: int, result: Path | None) -> Record:
    """Build, then run every variant once in every block."""
    needed(f"mpicc.{job.mpi}", f"lib{job.mpi}-dev")
    for part in ("", "programs/ocean", "programs/noise"):
        subprocess.run(["make", "--quiet", "-C", str(ROOT / "mpi" / part)], check=True)
    experiment.check(job.mpi)
    chosen, left_out = experiment.variants(size.noise, lambda: experiment.preload(job.mpi))
    for name, why in left_out.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    names = tuple(variant.name for variant in chosen)
    trials: list[OceanTrial] = []
    for number in range(size.blocks):
        began = time.monotonic()
        for trial in experiment.block(job, chosen, seed, number):
            trials.append(experiment.same_state(trial, trials))
            if trial.failed:
                print(f"failed: {trial.variant}, block {number}: {trial.failed}", file=sys.stderr)
        took = time.monotonic() - began
        print(f"block {number + 1} of {size.blocks}: {took:.1f} s", file=sys.stderr)
        record = Record(job, left_out, _of(job, names, trials))
        if result is not None:
            record.write(result)
    return record


def _of(job: OceanJob, names: tuple[str, ...], trials: list[OceanTrial]) -> OceanSeries:
    return OceanSeries(ranks=job.ranks, variants=names, trials=tuple(trials))


def figures(series: OceanSeries) -> list[Figure]:
    """Times, deviations and skews of every variant, the first two as ratios to stock."""
    rows = [row for name in series.variants for row in _seconds(series, name)]
    compared = [name for name in series.variants if name not in (STOCK, AGAIN)]
    judged, floor = verdicts(series, compared)
    for name in (AGAIN, *compared):
        judgement = judged.get(name)
        note = _words(judgement) if judgement else ""
        if name == AGAIN and floor is not None:
            note = f"noise floor {floor.ratio:.4g}{', biased' if floor.biased else ''}"
        rows += _ratio(series, (name, STOCK), "total_s", "run time", note)
        rows += _ratio(series, (name, STOCK), "step_deviation_s", "deviation of the steps", "")
        rows += _ratio(series, (name, STOCK), "step_median_s", "median step", "")
    if {CHRONY, OURS} <= set(series.variants):
        rows += _ratio(series, (CHRONY, OURS), "total_s", "run time", "published 1.008 to 1.020")
    return rows


def _words(judgement: Judgement) -> str:
    text = f"{judgement.verdict} ({judgement.why})"
    more = judgement.blocks_to_settle
    return text if more is None else f"{text}: about {more} more blocks"


def _seconds(series: OceanSeries, name: str) -> list[Figure]:
    """Absolute figures: of this machine, in this hour."""
    failed = len(series.failures(name))
    rows = [Figure(f"{name}: failed runs", failed, "", reach="0", holds=False)] if failed else []
    totals = list(series.values(name, "total_s").values())
    if not totals:
        return rows
    note = f"{len(totals)} runs"
    if len(totals) > 1:
        note += f", deviation {np.std(totals, ddof=1):.3g} s"
    taken_share = median_interval(list(series.values(name, "taken_share").values())).estimate
    note += f"; {100 * taken_share:.1f} % of the worst rank's core taken by others (median)"
    run_time = median_interval(totals)
    rows.append(
        Figure(f"{name}: run", run_time.estimate, "s", run_time.low, run_time.high, note=note)
    )
    odd = {f: sum(series.values(name, f).values()) for f in ("impossible_steps", "backward_stamps")}
    note = ", ".join(f"{count:.0f} {field.replace('_', ' ')}" for field, count in odd.items())
    for field, words, remark in (("skew_before_s", "before", ""), ("skew_after_s", "after", note)):
        skew = median_interval(list(series.values(name, field).values()))
        title = f"{name}: ranks' clocks apart {words} the steps"
        rows.append(Figure(title, skew.estimate, "s", skew.low, skew.high, note=remark))
    return rows


def _ratio(
    series: OceanSeries, pair: tuple[str, str], field: str, words: str, note: str
) -> list[Figure]:
    name, base = pair
    try:
        interval = t_interval(log_ratios(series, name, field, base), CONFIDENCE)
    except TooFewError:
        return []
    title = f"{words}, {name} ÷ {base} ({interval.n} pairs)"
    share = _share(name) if field == "total_s" else None
    return [
        Figure(
            title,
            interval.estimate,
            "",
            interval.low,
            interval.high,
            "its share of the core alone" if share else "",
            1 / (1 - share) if share else None,
            note=note,
        )
    ]


def _share(name: str) -> float | None:
    """What a noise variant takes of its core."""
    return next((n / p for p, n in FULL.noise if noise_name((p, n)) == name), None)


@needs("mpicc.openmpi")
def measure(quick: bool) -> list[Figure]:
    size = QUICK if quick else USUAL
    return figures(perform(OceanJob("openmpi", 2, size.steps), size, 1, None).series)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quick", action="store_true", help="6 blocks of short runs")
    amount.add_argument("--full", action="store_true", help="24 blocks of long runs, more noise")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--result", type=Path, metavar="FILE", help="every trial, as JSON")
    parser.add_argument("--mpi", choices=["openmpi", "mpich"], default="openmpi")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL if arguments.full else USUAL
    job = OceanJob(arguments.mpi, arguments.ranks, size.steps)
    try:
        rows = figures(perform(job, size, arguments.seed, arguments.result).series)
    except UllageError as error:
        parser.exit(2, f"error: {error}\nhint: {error.hint}\n")
    write(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
