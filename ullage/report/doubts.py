"""What to doubt: about the run in full, about single comparisons by kind and by workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ullage.analysis.causes import causes
from ullage.analysis.comparison import words
from ullage.analysis.comparison.model import Analysis, Comparison, Doubt
from ullage.common.text import clean
from ullage.report.charts import lanes
from ullage.report.charts.text import unbroken
from ullage.report.views import DoubtView, Table, tabulate
from ullage.runs.reader import RunFolder

HEADS = ("worse", "what changed", "there", "in the baseline", "change", "its interval")


def table(analysis: Analysis) -> Table | None:
    """Up to three rows for each comparison that is worse; None without one."""
    worse = [c for c in analysis.primary() if c.causes is not None]
    if not worse:
        return None
    return tabulate(
        f"What changed with what is worse{lanes.suffix(analysis)}",
        HEADS,
        ([unbroken(clean(cell, 300)) for cell in row] for c in worse for row in _rows(c)),
        numbers=HEADS[2:5],
        spans=HEADS[5:],
        note=unbroken(
            f"{causes.LEAD} Each counter is compared as the figure is, paired by block; of "
            "those looked at, up to three that changed most, with intervals that hold together "
            "for all counters of a comparison. Counters of events that only went with the work or "
            "with the time are left out."
        ),
    )


def _rows(c: Comparison) -> list[tuple[str, ...]]:
    assert c.causes is not None
    environment = words.name(c.environment_label, emulated=c.emulated, unequal=c.unequal)
    name = f"{environment}, {c.workload_title} ({c.metric})"
    if not c.causes.found:
        return [(name, causes.none_changed(c.causes), "", "", "", "")]
    return [
        (
            name,
            f"{cause.words} ({cause.counter})",
            causes.value(cause.environment_mean, cause.unit),
            causes.value(cause.baseline_mean, cause.unit),
            causes.change(cause),
            causes.bounds(cause),
        )
        for cause in c.causes.found
    ]


MOST_TEXTS: Final = 6

_Kinds = dict[tuple[str, str], dict[str, list[str]]]
"""(code, advice) → message → the comparisons that it is about."""


def about_run(folder: RunFolder, analysis: Analysis) -> list[DoubtView]:
    """Doubts about the run as a whole, and what the engine warned of."""
    kinds: _Kinds = {}
    for doubt in analysis.doubts:
        _collect(kinds, doubt, None)
    for warning in folder.warnings:
        kinds.setdefault((warning.code, ""), {})[clean(warning.message, 600)] = []
    return _views(kinds)


def by_kind(analysis: Analysis) -> list[DoubtView]:
    """Doubts about comparisons: which are doubted for what; the figures stand by workload."""
    names_by_kind: dict[tuple[str, str], list[str]] = {}
    for c in (*analysis.comparisons, *analysis.again):
        for doubt in c.doubts:
            names_by_kind.setdefault((doubt.code, clean(doubt.advice, 400)), []).append(_name(c))
    return [
        DoubtView("", (f"{clean(code, 60)}: {_several(list(dict.fromkeys(names)))}.",), advice)
        for (code, advice), names in names_by_kind.items()
    ]


def doubted(comparisons: Iterable[Comparison]) -> list[DoubtView]:
    """All doubts about some comparisons, with their figures; those of one kind stand together."""
    kinds: _Kinds = {}
    for comparison in comparisons:
        for doubt in comparison.doubts:
            _collect(kinds, doubt, comparison)
    return _views(kinds)


def _views(kinds: _Kinds) -> list[DoubtView]:
    return [
        DoubtView(
            clean(code, 60),
            tuple(_with_places(text, where) for text, where in list(texts.items())[:MOST_TEXTS]),
            advice,
            max(0, len(texts) - MOST_TEXTS),
        )
        for (code, advice), texts in kinds.items()
    ]


def _collect(kinds: _Kinds, doubt: Doubt, about: Comparison | None) -> None:
    key = (doubt.code, clean(doubt.advice, 400))
    where = kinds.setdefault(key, {}).setdefault(clean(doubt.message, 600), [])
    if about is not None:
        where.append(_name(about))


def _name(c: Comparison) -> str:
    return clean(f"{c.environment_label}, {c.workload_title} ({c.metric})")


def _with_places(text: str, where: Sequence[str]) -> str:
    """A doubt and the comparisons that it is about."""
    return f"{_several(where)}: {text}" if where else text


def _several(where: Sequence[str]) -> str:
    more = f" and {len(where) - MOST_TEXTS} more" if len(where) > MOST_TEXTS else ""
    return f"{'; '.join(where[:MOST_TEXTS])}{more}"
