"""The answer of an elastic run in plain words. No sentence says more than its interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ullage.analysis.comparison.rounding import share
from ullage.analysis.comparison.words import listed
from ullage.common.quantities import many
from ullage.common.text import clean
from ullage.experiments.elastic.analysis.contrasts import Contrast
from ullage.experiments.elastic.analysis.definitions import BY_NAME, Definition
from ullage.experiments.elastic.analysis.summary import (
    EnvironmentSummary,
    MetricEstimate,
    RunContrasts,
    Summary,
)
from ullage.experiments.elastic.analysis.words import (
    counted,
    effect,
    effect_interval,
    figure,
    spanned,
)
from ullage.report.charts.text import quantity
from ullage.stats import LEAST_PAIRS

ANSWERED: Final = ("blocked", "affected", "tar", "deviation")
"""The metrics that a sentence about an environment names."""


def interval(d: Definition, e: MetricEstimate, repetitions: int) -> str:
    """`1.4 to 2.8 %`, or why there is none; and of how many repetitions, where some lack it."""
    text = e.why if e.low is None or e.high is None else spanned(d, e.low, e.high)
    if len(e.values) == 1:
        text = ""
    if len(e.values) < repetitions:
        part = f"{len(e.values)} of {counted(repetitions)}"
        text = f"{text}, {part}" if text else part
    return text


def answer(summary: Summary) -> list[str]:
    """One sentence for each environment, one for each that is compared, and the noise floor."""
    return [
        *(environment(summary, e) for e in summary.environments),
        *compared(summary.contrasts),
        *floors(summary.contrasts),
    ]


def floors(contrasts: Sequence[Contrast]) -> list[str]:
    """What the baseline's second copy says: how far apart the same is from itself."""
    copies = [c for c in contrasts if c.again and BY_NAME[c.metric].primary]
    if not copies:
        return []
    effects = [f"{_undecided_name(c)}" for c in copies]
    most = max(copies, key=lambda c: c.n)
    return [
        f"{copies[0].baseline_label} against itself{_how(most)}: {listed(effects)}. Chance alone "
        "makes so much (the noise floor)."
    ]


def against(comparison: RunContrasts) -> list[str]:
    """One sentence for each environment that both runs have, and what to know of the two."""
    sentences = compared(comparison.contrasts, comparison.other)
    return [*sentences, *comparison.notes] if sentences else [*comparison.notes]


def environment(summary: Summary, e: EnvironmentSummary) -> str:
    """What its viewers felt, how long a node took, how well supply followed."""
    if e.ok == 0:
        reason = f"none of its {e.ended} repetitions has figures" if e.ended else "it was never run"
        if e.ended == 1:
            reason = "its only repetition has no figures"
        return f"{e.label}: {reason}."
    waits = summary.patience_s > 0
    parts = [
        _clause(d, e, waits=waits) for name in ANSWERED if (d := _answered(e, name)) is not None
    ]
    repetitions = counted(e.ok)
    return (
        f"{e.label}, {repetitions}: {'; '.join(parts)} ({share(summary.confidence)} intervals)."
        if e.ok > 1
        else f"{e.label}, {repetitions}, so without intervals: {'; '.join(parts)}."
    )


def _answered(e: EnvironmentSummary, name: str) -> Definition | None:
    return BY_NAME[name] if e.estimate(name) is not None else None


_PHRASES: Final = {
    "blocked": "{} of the requests were blocked",
    "affected": "{} of the served viewers had a violation",
    "tar": "a node took {} to be allocated",
    "deviation": "supply was {} away from demand (elastic deviation)",
}


_NONE: Final = {
    "blocked": "no request was blocked",
    "affected": "no served viewer had a violation",
}
"""In place of 0 %."""


_AT_ONCE: Final = "{} of the requests found no room and were blocked at once"
"""In place of the phrase, where nobody had patience."""


def _clause(d: Definition, e: EnvironmentSummary, *, waits: bool) -> str:
    estimate = e.estimate(d.name)
    assert estimate is not None
    if estimate.most == 0 and d.name in _NONE:
        return _NONE[d.name]
    words = figure(d, estimate.estimate)
    if estimate.low is not None:
        words += f" ({interval(d, estimate, e.ok)})"
    phrase = _PHRASES[d.name] if waits or d.name != "blocked" else _AT_ONCE
    return phrase.format(words)


def compared(contrasts: Sequence[Contrast], other: str = "") -> list[str]:
    """One sentence for each environment, about its primary metrics. other: the other run."""
    pairs = dict.fromkeys((c.environment, c.baseline) for c in contrasts if not c.again)
    return [
        _compared(
            [c for c in contrasts if (c.environment, c.baseline) == pair and c.primary], other
        )
        for pair in pairs
    ]


def _compared(contrasts: Sequence[Contrast], other: str) -> str:
    first = contrasts[0]
    baseline = f"{first.baseline_label} in {other}" if other else first.baseline_label
    parts = []
    for verdict in ("worse", "better", "equivalent"):
        decided = [c for c in contrasts if c.verdict == verdict]
        if decided:
            parts.append(f"{verdict} in {listed(map(_decided, decided))}")
    parts += _open(contrasts)
    most = max(contrasts, key=lambda c: c.n)
    return f"{first.environment_label} against {baseline}{_how(most)}: {'; '.join(parts)}."


def _how(first: Contrast) -> str:
    if first.n == 0:
        return ""
    if first.paired:
        return f", {many(first.n, 'pair')} of repetitions"
    return f", {first.sizes[0]} against {counted(first.sizes[1])}, not paired"


def verdict(c: Contrast) -> str:
    """In a table, in words."""
    return "the noise floor" if c.again else str(c.verdict or "no verdict")


def _decided(c: Contrast) -> str:
    return f"{BY_NAME[c.metric].title} ({effect(c)}, {effect_interval(c)})"


def _open(contrasts: Sequence[Contrast]) -> list[str]:
    """What is not decided, by reason."""
    reasons: dict[str, list[str]] = {}
    for c in contrasts:
        if c.verdict not in ("worse", "better", "equivalent"):
            reasons.setdefault(undecided(c), []).append(_undecided_name(c))
    return [f"not decided in {listed(names)}: {why}" for why, names in reasons.items()]


def _undecided_name(c: Contrast) -> str:
    title = BY_NAME[c.metric].title
    if c.estimate is None:
        return title
    bounds = effect_interval(c)
    return f"{title} ({effect(c)}{f', {bounds}' if bounds else ''})"


def undecided(c: Contrast) -> str:
    """Why, and what would decide it."""
    if c.note:
        return c.note
    if c.why == "too-few-blocks":
        repetitions = counted(c.n) if c.n else "no repetition"
        return (
            f"{repetitions} to compare, and a verdict needs {LEAST_PAIRS}: at least {c.more} more"
        )
    if c.why == "no-spread":
        return "all repetitions are equal, which shows how coarsely was counted and not how exactly"
    if c.why == "systematic":
        return "the bound of the clocks is too wide to tell"
    if c.more is None:
        return "no practical number of repetitions would settle it"
    return f"about {counted(c.more, 'more ')} would settle it"


def metrics_of(environments: Iterable[EnvironmentSummary]) -> list[Definition]:
    """The metrics that any of them has, in the order of the list."""
    have = {e.metric for environment in environments for e in environment.estimates}
    return [d for name, d in BY_NAME.items() if name in have]


MACHINE_COLUMNS: Final = ("on", "allocated", "attempts failed", "lost", "longest TcI")


def machine_rows(summary: Summary) -> Iterator[tuple[str, ...]]:
    """What became of the nodes on each machine, in words: environment, machine, numbers."""
    for e in summary.environments:
        for own in e.machines:
            copied = "–" if own.longest_copy_s is None else quantity(own.longest_copy_s, "s")
            numbers = (own.allocated, own.failed, own.lost)
            yield (
                clean(e.label, 60),
                clean(own.machine, 60),
                *(f"{number:,}" for number in numbers),
                copied,
            )
