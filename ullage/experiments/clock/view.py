"""What a command shows: sentences, tables, charts. On the console as text, in a page as HTML."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ullage.common.console import CleanConsole, escape
from ullage.common.quantities import digits, prefixed
from ullage.experiments.clock.outcomes import ClockReader, MedianInterval
from ullage.report import views
from ullage.report.views import Table, rich_table, tabulate

if TYPE_CHECKING:
    from ullage.report.charts.lanes import Drawing

NAMES: dict[ClockReader, str] = {
    "counter": "counter, unfenced",
    "counter-fenced": "counter, fenced",
    "rdtscp": "rdtscp",
    "rvec": "ours (now)",
    "rvec-ordered": "ours, ordered",
    "rvec-stamp": "ours, with reasons",
    "monotonic": "CLOCK_MONOTONIC",
    "monotonic-raw": "CLOCK_MONOTONIC_RAW",
    "monotonic-syscall": "CLOCK_MONOTONIC, system call",
}


def span(ns: float | None) -> str:
    """A length of time: `111 ns`, `1.23 µs`, `4.5 s`; `unknown` for None."""
    if ns is None:
        return "unknown"
    factor, unit = prefixed(ns / 1e9, "s")
    return f"{figure(ns / round(1e9 * factor))} {unit}" if ns else "0 ns"


def figure(value: float) -> str:
    """As `digits`, but a whole number has none after the point, and no number more than two."""
    if float(f"{value:.2f}").is_integer():
        return f"{value:,.0f}"
    return digits(value) if abs(value) >= 1 else f"{value:.2f}"


def ratio(interval: MedianInterval) -> str:
    """`1.32 (1.30 to 1.35)`."""
    return f"{interval.median:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def spans(interval: MedianInterval) -> str:
    """`21.3 ns (20.9 to 22.0)`, an interval in nanoseconds."""
    return f"{span(interval.median)} ({span(interval.low)} to {span(interval.high)})"


def rate(ppb: float) -> str:
    """A difference of rates: `11.2 ppm`, `35 ppb`."""
    if abs(ppb) >= 1000:
        return f"{figure(ppb / 1000)} ppm"
    return f"{figure(ppb)} ppb"


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    texts: Collection[str] = (),
) -> Table:
    """The first column is what a row is about, the others are figures unless named in `texts`."""
    return tabulate(caption, heads, rows, numbers=[h for h in heads[1:] if h not in texts])


@dataclass(frozen=True)
class Chart:
    """A chart, drawn only for a page."""

    draw: Callable[[], Drawing]
    caption: str
    label: str
    """What a reader hears who does not see it."""


@dataclass(frozen=True)
class ClockSection(views.Section):
    """A section whose charts a page draws and the console does not."""

    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True)
class View:
    title: str
    answer: tuple[str, ...]
    sections: tuple[ClockSection, ...] = ()


def show(view: View, console: CleanConsole) -> None:
    for sentence in view.answer:
        console.print(escape(sentence), soft_wrap=True)
    for section in view.sections:
        console.print(f"\n[bold]{escape(section.title)}[/]")
        for line in section.lines:
            console.print(escape(line), soft_wrap=True)
        for table in section.tables:
            console.print(rich_table(table, title=table.caption))
