"""One row per figure: what was measured, beside a peer, and whether the aim holds."""

from __future__ import annotations

import argparse
import inspect
import json
import math
import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks import second_aims
from ullage.stats.interval import moments, t_quantile
from ullage.stats.quantiles import Quantile, quantile


@dataclass(frozen=True)
class Figure:
    """A measured value, its peer's in the same run, and the aim."""

    name: str
    value: float
    """Not a number: there is no figure, and the note says why."""
    unit: str
    low: float | None = None
    high: float | None = None
    peer: str = ""
    peer_value: float | None = None
    reach: str = ""
    """The aim, in words: `at most 0.02 s`."""
    holds: bool | None = None
    note: str = ""
    first: str = ""
    """The first aim, where `reach` is a second one."""
    first_holds: bool | None = None


HOLDS: Final[Mapping[bool | None, str]] = {True: "yes", False: "no", None: ""}

Measure = Callable[[bool], Iterable[Figure]]
"""From whether it is to be quick to the rows, each as soon as it is measured."""


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Quantile:
    """Median with its order-statistic interval."""
    return quantile(values, 0.5, confidence)


def mean_interval(
    values: Sequence[float], confidence: float = 0.95
) -> tuple[float, float | None, float | None]:
    """Mean with its t interval; none where all agree: that tells how coarsely was counted only."""
    m = moments(values)
    if not m.deviation:
        return m.mean, None, None
    half = t_quantile(0.5 + confidence / 2, m.df) * m.error
    return m.mean, m.mean - half, m.mean + half


def needs(*programs: str) -> Callable[[Measure], Measure]:
    """Without one of these a benchmark has one row, which says so, and the others go on."""

    def decorate(measure: Measure) -> Measure:
        file = Path(inspect.getfile(measure))
        name = f"{file.parent.name}.{file.stem}"

        @wraps(measure)
        def checked(quick: bool) -> Iterator[Figure]:
            missing = [program for program in programs if shutil.which(program) is None]
            if missing:
                yield none(name, "", f"not installed: {', '.join(missing)}")
            else:
                yield from measure(quick)

        return checked

    return decorate


def lacks(module: str) -> str:
    """What the note of a row says where its peer is a Python package that is not here."""
    return "" if find_spec(module) else f"not installed: {module}"


def none(name: str, unit: str, why: str) -> Figure:
    """The row of a figure that there is not."""
    return Figure(name, math.nan, unit, note=why)


def aimed(figure: Figure) -> Figure:
    """The row judged by its second aim, if it has one; an older recording's as one of today."""
    aim = second_aims.of(figure.name)
    if aim is None or figure.first or figure.reach == aim.words:
        return figure
    return replace(
        figure,
        reach=aim.words,
        holds=_second(aim, figure),
        first=figure.reach,
        first_holds=figure.holds,
    )


def _second(aim: second_aims.SecondAim, figure: Figure) -> bool | None:
    """What is beyond the first aim is beyond the second; what was not judged is not better now."""
    if math.isnan(figure.value) or (figure.reach and figure.holds is False):
        return figure.holds
    holds = aim.judged(figure.value, figure.low, figure.high)
    if figure.reach and figure.holds is None:
        return False if holds is False and figure.low is not None else None
    return holds


def main(measure: Measure, description: str) -> None:
    """The command line that all benchmarks share."""
    arguments = options(description).parse_args()
    write(map(aimed, measure(arguments.quick)), as_json=arguments.json)


def main_of_all(benchmarks: Mapping[str, Measure], description: str) -> None:
    """The same of several: one that fails does not take the others' rows with it.

    What it raised goes to standard error, and the exit status is 1.
    """
    arguments = options(description).parse_args()
    failed: list[str] = []
    rows = rows_of_all(benchmarks, arguments.quick, failed)
    write((figure for _, figure in rows), as_json=arguments.json)
    end(failed)


def rows_of_all(
    benchmarks: Mapping[str, Measure], quick: bool, failed: list[str]
) -> Iterator[tuple[str, Figure]]:
    """Name of a benchmark and a row of it; the names of those that fail are put into `failed`."""
    for name, measure in benchmarks.items():
        try:
            for figure in measure(quick):
                yield name, aimed(figure)
        except Exception:
            traceback.print_exc()
            failed.append(name)


def end(failed: Sequence[str]) -> None:
    """With status 1 if any failed."""
    if failed:
        raise SystemExit(f"failed, so that rows are missing: {', '.join(failed)}")


def options(description: str) -> argparse.ArgumentParser:
    """The options that all benchmarks have; one may add its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", action="store_true", help="print JSON, each row once it is known")
    return parser


def write(figures: Iterable[Figure], *, as_json: bool) -> None:
    """Print the rows: as a table at the end, or as a JSON array, each as soon as it is measured."""
    if not as_json:
        show(list(figures))
        return
    before = "["
    for figure in figures:
        print(before, json.dumps(as_row(figure)), flush=True)
        before = ","
    print("[]" if before == "[" else "]")


def as_row(figure: Figure) -> dict[str, Any]:
    """What JSON has of it: null where there is no figure."""
    return asdict(figure) | {"value": None if math.isnan(figure.value) else figure.value}


def show(figures: Sequence[Figure]) -> None:
    """Print the rows as a table."""
    head = ("figure", "value", "interval", "peer", "its value", "reach", "holds", "first aim")
    table = Table(*head, box=None)
    for figure in figures:
        interval = (
            ""
            if figure.low is None or figure.high is None
            else f"{figure.low:.4g} to {figure.high:.4g}"
        )
        table.add_row(
            figure.name,
            "no figure" if math.isnan(figure.value) else f"{figure.value:.4g} {figure.unit}",
            interval,
            figure.peer,
            "" if figure.peer_value is None else f"{figure.peer_value:.4g} {figure.unit}",
            figure.reach,
            HOLDS[figure.holds],
            f"{figure.first}: {HOLDS[figure.first_holds]}" if figure.first else "",
        )
        if figure.note:
            table.add_row(f"  {figure.note}")
    Console(width=160).print(table)
