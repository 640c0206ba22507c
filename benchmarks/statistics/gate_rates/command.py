"""The command line, its rows and its tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from benchmarks.figures import Figure, options, write
from benchmarks.statistics import table
from benchmarks.statistics.gate_rates import __doc__ as description
from benchmarks.statistics.gate_rates.counts import (
    CAUGHT,
    LINES,
    PIPELINES,
    SLOWER,
    Need,
    Task,
    Tried,
    needs,
)
from benchmarks.statistics.gate_rates.pipelines import TRIAL_S, Pipeline
from benchmarks.statistics.run_all import in_processes
from benchmarks.statistics.table import Share, Table
from benchmarks.statistics.traces import all_traces
from ullage.analysis.gate import WRONG_FAIL, WRONG_PASS

COUNT, FEW = 1000, 40
SEED = 20261128
SAYS = (
    f"Percent of pipelines, and its exact 95 % interval. A trial every {TRIAL_S} s; blocks of each "
    "run, and the time that the new one may be extended by. Wrong fails: nothing changed (aim: at "
    "most 1). Caught: the program is 5 % slower (aim: at least 90). Passed: shown to be within the "
    "line, with a line of 0 shown to be better. A star: the aim is missed, or over 5 pass that are "
    "5 % slower."
)
QUICK = (Pipeline(1, 12), Pipeline(0, 12))


def tasks(quick: bool) -> list[Task]:
    """Each noise with each kind of pipeline."""
    count = FEW if quick else COUNT
    noises = [None, *all_traces()]
    kinds = QUICK if quick else PIPELINES
    return [Task(noise, kind, count, SEED) for noise in noises for kind in kinds]


def measure(quick: bool) -> Iterator[Figure]:
    """Each row as soon as it is counted."""
    for task in tasks(quick):
        for tried in task():
            yield from figures(tried)


def figures(tried: Tried) -> list[Figure]:
    """Its three errors; the aim is the issue's."""
    where = f"{tried.noise}, {tried.pipeline.name}, {_length(tried.pipeline)}, {tried.line:.0%}"
    wrong, caught = tried.same["worse"], tried.slow["worse"]
    rows = [
        _row(f"wrong fails, {where}", wrong, f"at most {WRONG_FAIL}", wrong.value <= WRONG_FAIL),
        _row(f"5 % caught, {where}", caught, f"at least {CAUGHT}", caught.value >= CAUGHT),
    ]
    if tried.line:
        rows.append(_row(f"unchanged and passed, {where}", tried.same["within"], "", None))
    return rows


def _row(name: str, share: Share, reach: str, holds: bool | None) -> Figure:
    low, high = share.interval
    return Figure(name, share.value, "", low, high, reach=reach, holds=holds)


def tables(tried: Sequence[Tried], needed: Sequence[Need]) -> list[Table]:
    return [*_rates(tried), _by_program(tried), _needed(needed)]


def _rates(tried: Sequence[Tried]) -> list[Table]:
    """A table for each noise."""
    tables = []
    for noise in dict.fromkeys(row.noise for row in tried):
        heads = ["wrong fails", "5 % caught", "same: passed", "5 %: passed", "minutes, same / 5 %"]
        rows = [
            [row.pipeline.name, _length(row.pipeline), f"{row.line:.0%}", *_cells(row)]
            for row in tried
            if row.noise == noise
        ]
        tables.append(Table(noise, ["pipeline", "blocks", "line", *heads], SAYS, rows))
    return tables


def _length(pipeline: Pipeline) -> str:
    """Blocks of each run, and by how much the new one may be extended."""
    return f"{pipeline.blocks} + {pipeline.extend_s / 60:.0f} min"


def _cells(row: Tried) -> list[str]:
    wrong, caught = row.same["worse"], row.slow["worse"]
    return [
        _share(wrong, wrong.value > WRONG_FAIL),
        _share(caught, caught.value < CAUGHT),
        _share(row.same["within"]),
        _share(row.slow["within"], row.slow["within"].value > WRONG_PASS),
        f"{row.same_s / 60:.1f} / {row.slow_s / 60:.1f}",
    ]


def _share(share: Share, missed: bool = False) -> str:
    low, high = share.interval
    return f"{table.percent(share, missed)} ({100 * low:.1f} to {100 * high:.1f})"


def _by_program(tried: Sequence[Tried]) -> Table:
    """Where the noise of one program is not that of the next."""
    most = [row for row in tried if not row.pipeline.baselines and not row.line]
    rows = [
        [row.noise, program, _length(row.pipeline), _share(share, share.value < CAUGHT)]
        for row in most
        for program, share in row.caught.items()
        if len(row.caught) > 1
    ]
    return Table(
        f"Old and new in one run: {SLOWER - 1:.0%} caught, by program",
        ["noise", "program", "blocks", "caught, line 0"],
        rows=rows,
    )


def _needed(needed: Sequence[Need]) -> Table:
    heads = [f"blocks, line {line:.0%}" for line in LINES]
    rows = []
    for need in needed:
        counts = [f"{n:,}" if (n := need.blocks[line]) else "over 100,000" for line in LINES]
        spread = f"{100 * need.deviation:.1f} %"
        rows.append([need.noise, need.program, spread, f"{need.variance:.1f}", *counts])
    return Table(
        "Old and new in one run: blocks that catch 5 % in nine of ten",
        ["noise", "program", "spread of a block", "memory", *heads],
        says="By the t test's formula, of the whole recording, at one look and without extending. "
        "Memory: the variance of the mean as a multiple of that of independent blocks.",
        rows=rows,
    )


def main() -> None:
    parser = options(description or "")
    parser.add_argument("--markdown", action="store_true", help="the tables, as the docs have them")
    parser.add_argument("--jobs", type=int, default=2, help="processes (%(default)s)")
    arguments = parser.parse_args()
    if arguments.json:
        write(measure(arguments.quick), as_json=True)
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    named = [
        (f"{task.noise.name if task.noise else 'white'}, {task.pipeline.name}", task)
        for task in tasks(arguments.quick)
    ]
    tried: list[Tried] = []
    for rows in in_processes(named, arguments.jobs):
        assert isinstance(rows, list)
        tried += rows
    shown = tables(tried, [need for trace in all_traces() for need in needs(trace, SEED)])
    if arguments.markdown:
        print(table.markdown(shown), end="")
    else:
        table.show(shown)
