"""Making and removing several instances at once (S5.4), from a run of our own."""

from __future__ import annotations

from typing import Final

from ullage.analysis.comparison.model import Comparison
from ullage.analysis.comparison.rounding import share
from ullage.experiments.studies import measured
from ullage.experiments.studies.base import (
    Column,
    DerivedRow,
    DerivedTable,
    Read,
    StudyFigure,
)
from ullage.experiments.studies.measured import StudiedRun

CREATE, DELETE = "allocation_time", "release_time"
_WORDS: Final = {CREATE: "make", DELETE: "remove"}


def tables(run: StudiedRun, plan: str, read: Read | None = None) -> list[DerivedTable | None]:
    """Times by number of instances, then how each compares with the baseline.

    `read`: the instances are those of clouds, and what was published is told with them. Several
    plans of the study make instances, so the name of the plan is a part of the tables' keys.
    """
    comparisons = [c for c in run.analysis.comparisons if run.kind(c) == "provisioning"]
    if not comparisons:
        return []
    return [
        _times(run, comparisons, f"{plan}-create-fresh", _OF_A_HOST if read is None else _of(read)),
        measured.ratios(
            run,
            [c for c in comparisons if c.metric in _WORDS],
            f"{plan}-create-ratios-fresh",
            "Making and removing instances, against the baseline",
        ),
    ]


_OF_A_HOST: Final = (
    "The published times are those of two clouds, asked through their own interface, on "
    "several hosts; here the provider is asked directly, on one: nothing stands beside."
)


def _of(read: Read) -> str:
    """The published times, which are of other hosts."""
    times = ", ".join(
        f"{row['instances']} of {row['platform']} {row['create_s']} s"
        for row in read("network2017_create")
    )
    return (
        f"There: {times}, from the request until the last one was done, of an image that its host "
        "had already; its size and how often it was measured were not said. Here it is until our "
        "agent in the last one has answered. So no ratio is made of the two."
    )


def _times(run: StudiedRun, comparisons: list[Comparison], key: str, beside: str) -> DerivedTable:
    """Medians, in seconds; a column for each number of instances."""
    of = {(c.environment, _count(run, c), c.metric): c for c in comparisons}
    counts = sorted({count for _, count, _ in of})
    first = next(iter(of.values())).environment
    rows = [
        DerivedRow(
            label=f"{run.analysis.baseline_label}, {word}",
            cells=tuple(_figure(of.get((first, count, metric)), own=False) for count in counts),
        )
        for metric, word in _WORDS.items()
    ]
    for environment in dict.fromkeys(key for key, _, _ in of):
        label = next(measured.name(c) for (key, _, _), c in of.items() if key == environment)
        rows += [
            DerivedRow(
                label=f"{label}, {word}",
                cells=tuple(
                    _figure(of.get((environment, count, metric)), own=True) for count in counts
                ),
            )
            for metric, word in _WORDS.items()
        ]
    return DerivedTable(
        key=key,
        caption="Instances made and removed at once: from the request until the last one is done",
        of="environment",
        columns=tuple(Column(title=str(count), unit="s", decimals=3) for count in counts),
        rows=tuple(rows),
        notes=(
            f"Medians with {share(run.analysis.confidence)} intervals, from six blocks on. "
            + beside,
        ),
    )


def _count(run: StudiedRun, c: Comparison) -> int:
    return int(run.parameters(c)["count"])


def _figure(c: Comparison | None, *, own: bool) -> StudyFigure:
    if c is None:
        return StudyFigure(value=None, why="not in this run")
    return measured.environment(c) if own else measured.baseline(c)
