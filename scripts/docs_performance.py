"""Writes `docs/method/performance.md` from the recordings in `benchmarks/records/`.

`python -m scripts.docs_performance` writes the page, `--check` says whether it is up to date.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Final

from benchmarks import records
from benchmarks.figures import Figure, aimed
from benchmarks.records import Recording, Row

PAGE: Final = Path("docs/method/performance.md")
HEAD: Final = """\
<!-- Written by `python -m scripts.docs_performance` from benchmarks/records/; do not edit. -->
# All figures of what ullage costs

What `make bench` printed last on each kind of machine, and what it was before.
`python -m benchmarks --record [NAME …]` adds a recording, `make docs` writes this page from it. A
ratio is of one run, its peer beside it in turns; absolute times of different days may not be
compared. How each is measured, and what it means, is in [benchmarks.md](benchmarks.md). Rows
without an aim are only in the recordings. Where a second, nearer aim was set since, `aim` is that
one, also for what was recorded before, and the first stands beside it.
"""
HOLDS: Final[Mapping[bool | None, str]] = {True: "yes", False: "**no**", None: "not judged"}


def page(rows: Sequence[Row]) -> str:
    """All of it."""
    rows = [replace(row, figure=aimed(row.figure)) for row in rows]
    machines = {kind: f"M{n}" for n, kind in enumerate(_kinds(rows), 1)}
    with_aim = [row for row in rows if row.figure.reach]
    by_subject = sorted(with_aim, key=_subject)
    parts = [HEAD, *_summary(_latest(with_aim)), *_machines(rows, machines)]
    for subject, of_subject in groupby(by_subject, _subject):
        parts += [f"\n## {subject}\n", *_subject_tables(list(of_subject), machines)]
    return "".join(parts)


def _kinds(rows: Iterable[Row]) -> list[str]:
    """Of machines, as they first appear."""
    return list(dict.fromkeys(row.recording.machine.kind for row in rows))


def _subject(row: Row) -> str:
    return row.benchmark.partition(".")[0]


def _key(row: Row) -> tuple[str, ...]:
    """What a row's history is of: the same figure may stand beside several peers."""
    return row.recording.machine.kind, row.benchmark, row.figure.name, row.figure.peer


def _latest(rows: Iterable[Row]) -> list[Row]:
    """Of each history, the last."""
    return list({_key(row): row for row in rows}.values())


def _summary(latest: Sequence[Row]) -> Iterator[str]:
    yield f"\nOf {len(latest)} figures with an aim {_counts(row.figure.holds for row in latest)}.\n"
    first = [row.figure.first_holds for row in latest if row.figure.first]
    if first:
        yield f"Of {len(first)} that had another aim first {_counts(first)} by that one.\n"


def _counts(judged: Iterable[bool | None]) -> str:
    several = list(judged)
    yes, no, undecided = (several.count(holds) for holds in HOLDS)
    return f"{yes} hold, {no} do not, and {undecided} are not judged"


def _machines(rows: Sequence[Row], names: Mapping[str, str]) -> Iterator[str]:
    """What each short name stands for."""
    last = {row.recording.machine.kind: row.recording.machine for row in rows}
    yield "\n"
    yield from _table(
        ("", "machine", "kernel", "system", "memory"),
        (
            (
                name,
                kind,
                last[kind].kernel,
                last[kind].os,
                f"{last[kind].memory_bytes / 1e9:.0f} GB",
            )
            for kind, name in names.items()
        ),
    )


def _subject_tables(rows: Sequence[Row], machines: Mapping[str, str]) -> Iterator[str]:
    """The last of each figure, and what was before."""
    head = ["figure", "value", "interval", "peer", "its value", "aim", "holds", "first aim"]
    head.append("recorded")
    yield "\n"
    yield from _table(head, (_cells(row, machines) for row in _latest(rows)))
    histories = {_key(row): [r for r in rows if _key(r) == _key(row)] for row in rows}
    older = [history for history in histories.values() if len(history) > 1]
    if older:
        yield "\nBefore:\n\n"
        yield from _table(("figure", "recordings"), (_history(h, machines) for h in older))


def _cells(row: Row, machines: Mapping[str, str]) -> tuple[str, ...]:
    figure = row.figure
    return (
        figure.name,
        _value(figure),
        ""
        if figure.low is None or figure.high is None
        else f"{figure.low:.4g} to {figure.high:.4g}",
        figure.peer,
        "" if figure.peer_value is None else f"{figure.peer_value:.4g} {figure.unit}",
        figure.reach,
        HOLDS[figure.holds],
        f"{figure.first}: {HOLDS[figure.first_holds]}" if figure.first else "",
        _when(row.recording, machines),
    )


def _history(rows: Sequence[Row], machines: Mapping[str, str]) -> tuple[str, str]:
    values = (f"{_value(row.figure)} ({_when(row.recording, machines)})" for row in rows[:-1])
    return rows[0].figure.name, "; ".join(values)


def _value(figure: Figure) -> str:
    if math.isnan(figure.value):
        return f"no figure: {figure.note}"
    return f"{figure.value:.4g} {figure.unit}"


def _when(recording: Recording, machines: Mapping[str, str]) -> str:
    """Where, when, and of which build; load above 1 of other work is said."""
    words = [machines[recording.machine.kind], f"{recording.at:%Y-%m-%d}", recording.build[:8]]
    words += ["quick"] if recording.quick else []
    words += [f"load {recording.load:.0f}"] if recording.load >= 1 else []
    return ", ".join(words)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for line in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or with `--check` return 1 when it differs."""
    parser = argparse.ArgumentParser(prog="python -m scripts.docs_performance", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when it is old")
    options = parser.parse_args(argv)
    text = page(records.read())
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if options.check:
        print(f"{PAGE}: not up to date\nhint: `make docs` writes it", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
