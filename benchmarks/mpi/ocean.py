"""What a clock costs an ocean model: `MPI_Wtime` of the library, of ours, and under daemons.

Variants run in turn, in balanced random blocks: the library's own clock with nothing beside it
(`stock`, twice: the second tells how much two equal variants differ), with a real chronyd that
polls once a second (both ends with `-x`, see `benchmarks.mpi.chronyd`), with our library preloaded,
and with a periodic daemon on one rank's core that stands for resynchronisation: 1.4 % of the core
in pieces of ever smaller size, so that what the size alone does is seen.

Published in 2015 for POP on 4 to 16 processes: with NTP 1.008 to 1.020 times as long as with the
clock that does not resynchronise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, median_interval, needs, write
from benchmarks.mpi.ocean_trial import MPI, Checksums, Job, Library, Trial, Variant, run
from ullage.common.commands import needed
from ullage.common.errors import UllageError
from ullage.plan import schedule
from ullage.stats.interval import TooFewError, log_ratio, moments, t_interval
from ullage.stats.uncertainty import Floor, noise_floor
from ullage.stats.verdict import Against, FamilyMember, Judgement, judge, p_values

SOURCES = MPI.parent.parent / "mpi/programs"
CONFIDENCE = 0.95
MARGIN = 0.01
"""Run times closer than this are called equivalent, when it is proven."""
STOCK, AGAIN, CHRONY, OURS = "stock", "stock~again", "chrony", "ullage"
SAME_SHARE = ((100_000, 1_400), (10_000, 140), (1_000, 14))
"""Period and length, µs: 1.4 % of a core."""
MORE_NOISE = ((1_000_000, 14_000), (100_000, 10_000), (10_000, 1_000))


@dataclass(frozen=True)
class Size:
    """How much is run."""

    blocks: int
    steps: int
    noise: tuple[tuple[int, int], ...]


QUICK = Size(6, 200, SAME_SHARE)
USUAL = Size(10, 600, SAME_SHARE)
FULL = Size(24, 2000, SAME_SHARE + MORE_NOISE)


@dataclass(frozen=True)
class Record:
    """Everything that one call measured."""

    job: Job
    variants: list[str]
    left_out: dict[str, str]
    trials: list[Trial]

    def value(self, variant: str, field: str) -> dict[int, float]:
        """A field of a variant by block; failed trials have none."""
        values = {t.block: getattr(t, field) for t in self.trials if t.variant == variant}
        return {block: float(value) for block, value in values.items() if value is not None}

    def write(self, path: Path) -> None:
        """As JSON, with the figures so far."""
        path.write_text(
            json.dumps(
                {
                    "job": asdict(self.job),
                    "variants": self.variants,
                    "left_out": self.left_out,
                    "trials": [trial.model_dump(mode="json") for trial in self.trials],
                    "figures": [asdict(figure) for figure in figures(self)],
                },
                indent=1,
            )
            + "\n"
        )


def noise_name(period_us: int, length_us: int) -> str:
    return f"noise {period_us} µs × {length_us} µs"


def variants(size: Size, preload: Path) -> tuple[list[Variant], dict[str, str]]:
    """The variants that can be run here, and why the others are left out."""
    usable = [Variant(STOCK), Variant(AGAIN)]
    left_out: dict[str, str] = {}
    try:
        needed("chronyd", "chrony")
        usable.append(Variant(CHRONY, chrony=True))
    except UllageError as error:
        left_out[CHRONY] = f"{error.message}; {error.hint}"
    if preload.is_file():
        usable.append(Variant(OURS, preload=preload.resolve()))
    else:
        left_out[OURS] = f"{preload} is not there; build it, or name it with --preload"
    usable += [Variant(noise_name(p, n), noise=(p, n)) for p, n in size.noise]
    return usable, left_out


def perform(job: Job, size: Size, preload: Path, seed: int, result: Path | None) -> Record:
    """Build, then run every variant once in every block."""
    needed("mpicc.openmpi", "libopenmpi-dev")
    needed("mpicc.mpich", "libmpich-dev")
    for part in ("ocean", "noise"):
        subprocess.run(["make", "--quiet", "-C", str(SOURCES / part)], check=True)
    chosen, left_out = variants(size, preload)
    for name, why in left_out.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    by_name = {variant.name: variant for variant in chosen}
    record = Record(job, list(by_name), left_out, [])
    for number in range(size.blocks):
        began = time.monotonic()
        for slot in schedule.block(seed, number, list(by_name), ["ocean"]):
            trial = run(job, by_name[slot.environment], number, slot.position)
            record.trials.append(same_state(trial, record.trials))
            if trial.failed:
                print(f"failed: {trial.variant}, block {number}: {trial.failed}", file=sys.stderr)
        took = time.monotonic() - began
        print(f"block {number + 1} of {size.blocks}: {took:.1f} s", file=sys.stderr)
        if result is not None:
            record.write(result)
    return record


def same_state(trial: Trial, before: Iterable[Trial]) -> Trial:
    """A run whose final state is another one did other work: it fails."""
    first = next((t.checksums for t in before if t.checksums is not None), None)
    if first is None or trial.checksums is None or equal(first, trial.checksums):
        return trial
    return Trial(
        variant=trial.variant,
        block=trial.block,
        position=trial.position,
        failed=f"checksums {trial.checksums} instead of {first}",
    )


def equal(expected: Checksums, actual: Checksums, tolerance: float = 1e-9) -> bool:
    """Equal but for rounding."""
    pairs = zip(expected.model_dump().values(), actual.model_dump().values(), strict=True)
    return all(abs(a - b) <= tolerance * abs(a) for a, b in pairs)


def log_ratios(record: Record, variant: str, field: str, base: str = STOCK) -> list[float]:
    """Of the blocks in which both have a value; lower is better."""
    mine, theirs = record.value(variant, field), record.value(base, field)
    return [log_ratio(mine[b], theirs[b], "lower") for b in sorted(mine.keys() & theirs.keys())]


def verdicts(record: Record, names: Sequence[str]) -> tuple[dict[str, Judgement], Floor | None]:
    """Judged together, against either copy of stock; the noise floor of these is shown beside."""
    again = log_ratios(record, AGAIN, "total_s")
    floor = noise_floor([t_interval(again, CONFIDENCE)]) if len(again) >= 2 else None
    cases = []
    for name in names:
        ratios = log_ratios(record, name, "total_s")
        ratio_moments = moments(ratios) if len(ratios) >= 2 else None
        to_copy = log_ratios(record, name, "total_s", AGAIN)
        copies = (Against.of(moments(to_copy), MARGIN),) if len(to_copy) >= 2 else ()
        cases.append(
            FamilyMember(
                ratio_moments,
                p_values(ratio_moments, MARGIN) if ratio_moments else None,
                None if copies else floor,
                copies=copies,
                pairs=len(ratios),
            )
        )
    return dict(zip(names, judge(cases, MARGIN, CONFIDENCE), strict=True)), floor


def figures(record: Record) -> list[Figure]:
    """Times, deviations and skews of every variant, the first two as ratios to stock."""
    rows = [row for name in record.variants for row in _seconds(record, name)]
    compared = [name for name in record.variants if name not in (STOCK, AGAIN)]
    judged, floor = verdicts(record, compared)
    for name in (AGAIN, *compared):
        judgement = judged.get(name)
        note = _words(judgement) if judgement else ""
        if name == AGAIN and floor is not None:
            note = f"noise floor {floor.ratio:.4g}{', biased' if floor.biased else ''}"
        rows += _ratio(record, (name, STOCK), "total_s", "run time", note)
        rows += _ratio(record, (name, STOCK), "step_deviation_s", "deviation of the steps", "")
        rows += _ratio(record, (name, STOCK), "step_median_s", "median step", "")
    if {CHRONY, OURS} <= set(record.variants):
        rows += _ratio(record, (CHRONY, OURS), "total_s", "run time", "published 1.008 to 1.020")
    return rows


def _words(judgement: Judgement) -> str:
    text = f"{judgement.verdict} ({judgement.why})"
    more = judgement.blocks_to_settle
    return text if more is None else f"{text}: about {more} more blocks"


def _seconds(record: Record, name: str) -> list[Figure]:
    """Absolute figures: of this machine, in this hour."""
    failed = sum(t.variant == name and t.failed is not None for t in record.trials)
    rows = [Figure(f"{name}: failed runs", failed, "", reach="0", holds=False)] if failed else []
    totals = list(record.value(name, "total_s").values())
    if not totals:
        return rows
    note = f"{len(totals)} runs"
    if len(totals) > 1:
        note += f", deviation {np.std(totals, ddof=1):.3g} s"
    taken_share = median_interval(list(record.value(name, "taken_share").values())).estimate
    note += f"; {100 * taken_share:.1f} % of the worst rank's core taken by others (median)"
    run_time = median_interval(totals)
    rows.append(
        Figure(f"{name}: run", run_time.estimate, "s", run_time.low, run_time.high, note=note)
    )
    odd = {f: sum(record.value(name, f).values()) for f in ("impossible_steps", "backward_stamps")}
    note = ", ".join(f"{count:.0f} {field.replace('_', ' ')}" for field, count in odd.items())
    for field, words, remark in (("skew_before_s", "before", ""), ("skew_after_s", "after", note)):
        skew = median_interval(list(record.value(name, field).values()))
        title = f"{name}: ranks' clocks apart {words} the steps"
        rows.append(Figure(title, skew.estimate, "s", skew.low, skew.high, note=remark))
    return rows


def _ratio(
    record: Record, pair: tuple[str, str], field: str, words: str, note: str
) -> list[Figure]:
    name, base = pair
    try:
        interval = t_interval(log_ratios(record, name, field, base), CONFIDENCE)
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
    return next((n / p for p, n in FULL.noise if noise_name(p, n) == name), None)


def default_preload(mpi: Library) -> Path:
    """Where our library is built."""
    return MPI / mpi / "libullage_mpi.so"


@needs("mpicc.openmpi", "mpicc.mpich")
def measure(quick: bool) -> list[Figure]:
    size = QUICK if quick else USUAL
    job = Job("openmpi", 2, size.steps)
    return figures(perform(job, size, default_preload("openmpi"), 1, None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--quick", action="store_true", help="6 blocks of short runs")
    amount.add_argument("--full", action="store_true", help="24 blocks of long runs, more noise")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--result", type=Path, metavar="FILE", help="every trial, as JSON")
    parser.add_argument("--mpi", choices=["openmpi", "mpich"], default="openmpi")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--preload", type=Path, metavar="FILE", help="our library")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL if arguments.full else USUAL
    job = Job(arguments.mpi, arguments.ranks, size.steps)
    preload = arguments.preload or default_preload(arguments.mpi)
    try:
        rows = figures(perform(job, size, preload, arguments.seed, arguments.result))
    except UllageError as error:
        parser.exit(2, f"error: {error}\nhint: {error.hint}\n")
    write(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
