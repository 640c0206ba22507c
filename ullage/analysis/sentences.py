"""The answer in plain words. No sentence says more than its interval.

An emulated environment is called by its label, which says so, and nuisances that the plan allowed
to be unequal stand in every sentence about it. Figures are rounded by their intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ullage.analysis.model import Analysis, Comparison, Interval, ResourceSummary
from ullage.analysis.rounding import count, effect, inverse, ratio, share
from ullage.runs import Resource

RESOURCES: Final[dict[Resource, str]] = {
    "cpu": "CPU",
    "memory": "memory",
    "disk": "disk",
    "network": "network",
    "other": "other work",
}
"""What a resource is called in a sentence."""

_Subject = ResourceSummary | Comparison


def answer(analysis: Analysis, *, strong: bool = False) -> list[str]:
    """The run in a few sentences: one for each environment, then the noise floor.

    strong: what matters most stands between `**`, for a page to set in bold.
    """
    found = [
        _environment(analysis, [r for r in analysis.resources if r.environment == key], strong)
        for key in dict.fromkeys(r.environment for r in analysis.resources)
    ]
    floor = floor_sentence(analysis)
    return [*found, floor] if floor else found


def name(label: str, *, emulated: bool, unequal: Sequence[str]) -> str:
    """What a sentence calls an environment: label, emulation, and what is not equal."""
    if emulated and "emulated" not in label:
        label = f"{label} (emulated)"
    if unequal:
        return f"{label} (with unequal {listed(unequal)}, as the plan allows)"
    return label


@dataclass(frozen=True)
class _Part:
    """What a sentence has to say of one figure."""

    kind: Literal["nothing", "costs", "gains", "undecided", "none"]
    where: str
    text: str = ""
    short: str = ""
    """Of an undecided figure: interval and what would settle it, for a list."""


def _environment(analysis: Analysis, resources: Sequence[ResourceSummary], strong: bool) -> str:
    """One environment: what it costs, what it gains, what is open."""
    mark = "**" if strong else ""
    first = resources[0]
    who = name(first.environment_label, emulated=first.emulated, unequal=first.unequal)
    parts = [part for r in resources for part in _parts(analysis, r, mark)]
    costs = [part.text for part in parts if part.kind == "costs"]
    gains = [part.text for part in parts if part.kind == "gains"]
    same = [part.where for part in parts if part.kind == "nothing"]
    if same:
        margin = share(analysis.margin)
        what = f"{mark}nothing measurable in {listed(same)}{mark} (equivalent within {margin})"
        costs.insert(0, what)
    clauses = [f"costs {listed(costs)}"] if costs else []
    if gains:
        clauses.append(f"{'it ' if costs else ''}is {listed(gains)}")
    undecided = [part for part in parts if part.kind == "undecided"]
    rest = [part.text for part in parts if part.kind == "none"]
    if len(undecided) > 1:
        several = listed(f"{part.where} {part.short}" for part in undecided)
        if not clauses and not rest:
            return f"Nothing is decided yet for {who}: {several}."
        rest.insert(0, f"undecided are {several}")
    elif undecided:
        rest.insert(0, undecided[0].text)
    lead = f"{who} " if clauses else f"with {who}, "
    return f"On this machine {lead}{'; '.join([*clauses, *rest])}."


def _parts(analysis: Analysis, resource: ResourceSummary, mark: str) -> list[_Part]:
    """The parts of a resource: one, or one for each of its figures when they do not agree."""
    where = RESOURCES[resource.resource]
    members = [
        c
        for c in analysis.comparisons
        if c.environment == resource.environment and (c.workload, c.metric) in resource.members
    ]
    if len(members) == 1:
        return [_part(members[0], where, mark)]
    if resource.verdict in ("worse", "better", "equivalent") and _clear(resource):
        return [_decided(resource, f"{where} (mean of {len(members)} figures)", mark)]
    titles = [c.workload_title for c in members]
    return [
        _part(c, title if titles.count(title) == 1 else f"{title}, {c.metric}", mark)
        for c, title in zip(members, titles, strict=True)
    ]


def _clear(resource: ResourceSummary) -> bool:
    """Does the mean's own interval bear the verdict of its members?"""
    i = resource.interval
    return i is not None and (
        (resource.verdict == "worse" and i.low > 1)
        or (resource.verdict == "better" and i.high < 1)
        or resource.verdict == "equivalent"
    )


def _part(c: Comparison, where: str, mark: str) -> _Part:
    if c.verdict in ("worse", "better", "equivalent"):
        return _decided(c, where, mark)
    text = f"{where} {open_words(c)}"
    if c.no_verdict is not None or c.interval is None or c.why == "too-few-blocks":
        return _Part("none", where, text)
    return _Part("undecided", where, text, short=f"{effect(c.interval)[1]} ({_settles(c)})")


def _decided(subject: _Subject, where: str, mark: str) -> _Part:
    """Of a figure that has a verdict, and so an interval."""
    interval = subject.interval
    assert interval is not None
    if subject.verdict == "equivalent" and interval.low <= 1 <= interval.high:
        return _Part("nothing", where)
    slight = ": next to nothing" if subject.verdict == "equivalent" else ""
    if interval.high < 1:
        size, between = effect(inverse(interval))
        return _Part("gains", where, f"{mark}{size} better in {where}{mark} ({between}{slight})")
    size, between = effect(interval)
    return _Part("costs", where, f"{mark}{size} in {where}{mark} ({between}{slight})")


def open_words(c: Comparison) -> str:
    """Why there is no verdict yet, and what would settle it: `is undecided (…): …`."""
    if c.no_verdict is not None:
        return f"has no verdict: {c.no_verdict}"
    between = f" ({effect(c.interval)[1]})" if c.interval is not None else ""
    if c.why == "too-few-blocks":
        more = c.blocks_to_settle or 1
        verb = "is" if c.pairs == 1 else "are"
        return f"is undecided{between}: {_blocks(c.pairs)} {verb} too few, at least {more} more"
    if c.why == "below-floor" and c.floor is not None:
        between = f"{between}, below the noise floor of {floor_words(c.floor)}"
    settled = " would settle it" if c.blocks_to_settle is not None else ""
    return f"is undecided{between}: {_settles(c)}{settled}"


def _settles(c: Comparison) -> str:
    if c.blocks_to_settle is not None:
        return f"about {count(c.blocks_to_settle)} more {_plural(c.blocks_to_settle)}"
    if c.why == "floor-biased":
        return "two equal environments differ by more than the margin"
    return "no practical number of blocks would settle it"


def comparison_sentence(c: Comparison) -> str:
    """One comparison, with interval, confidence and number of blocks."""
    who = name(c.environment_label, emulated=c.emulated, unequal=c.unequal)
    what = c.workload_title if c.primary else f"{c.workload_title}, {c.metric}"
    if c.interval is None:
        return f"With {who}, {what} {_without_interval(c)}."
    basis = f"{share(c.interval.confidence)} interval {{}}, {_blocks(c.pairs)}"
    if c.verdict in ("worse", "better"):
        seen = c.interval if c.verdict == "worse" else inverse(c.interval)
        size, between = effect(seen)
        return f"{who} is {size} {c.verdict} in {what} ({basis.format(between)})."
    if c.verdict == "equivalent":
        between = effect(c.interval)[1]
        return f"{who} is equivalent in {what} ({basis.format(between)})."
    if c.verdict == "inconclusive" or c.no_verdict is not None:
        return f"With {who}, {what} {open_words(c)} ({_blocks(c.pairs)})."
    middle, low, high = ratio(c.interval)
    between = basis.format(f"{low} to {high}")
    return f"With {who}, {what} has the ratio {middle}, above 1 is worse ({between})."


def _without_interval(c: Comparison) -> str:
    if c.verdict == "inconclusive" or c.no_verdict is not None:
        return open_words(c)
    return "has no ratio" if c.ratio is None else f"has no interval from {_blocks(c.pairs)}"


def floor_sentence(analysis: Analysis) -> str | None:
    """What two equal environments differed by; None without an A/A comparison."""
    floors: dict[Resource, float] = {}
    for c in analysis.comparisons:
        if c.primary and c.floor is not None:
            floors[c.resource] = max(c.floor, floors.get(c.resource, 1.0))
    if not floors or not analysis.again_total:
        return None
    each = listed(f"{floor_words(floor)} in {RESOURCES[r]}" for r, floor in floors.items())
    text = (
        f"{_capital(analysis.baseline_label)} against itself may differ by {each} in this run: "
        "nothing below that is called a difference"
    )
    if analysis.again_differing:
        text += (
            f"; {analysis.again_differing} of {analysis.again_total} such comparisons "
            "show a difference where there is none"
        )
    return f"{text}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def floor_words(floor: float) -> str:
    """A noise floor: `2.1 %`, or `3.2×`; rounded up."""
    tiny = Interval(estimate=floor, low=1.0, high=floor, confidence=0.95, n=1, method="")
    if floor < 2:
        return f"{_up(100 * (floor - 1))} %"
    return f"{ratio(tiny)[2]}×"


def _up(value: float) -> str:
    """Two significant digits, rounded up."""
    digits = 1 if value < 10 else 0
    scale = 10**digits
    return f"{-(-round(value * scale, 6) // 1) / scale:.{digits}f}"


def _blocks(number: int) -> str:
    return f"{number:,} {_plural(number)}"


def _plural(number: int) -> str:
    return "block" if number == 1 else "blocks"


def listed(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last
