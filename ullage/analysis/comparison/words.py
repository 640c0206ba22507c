"""Pieces of sentences: names, numbers of blocks, what an interval covers, which correction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ullage.analysis.comparison.estimates import Interval, Losses, Precision
from ullage.analysis.comparison.model import Analysis, Comparison, ResourceSummary
from ullage.analysis.comparison.rounding import bounded, count, ratio, share
from ullage.runs.records import Correction, Resource
from ullage.stats import Why

RESOURCES: Final[dict[Resource, str]] = {
    "cpu": "CPU",
    "memory": "memory",
    "disk": "disk",
    "network": "network",
    "other": "other work",
}
"""What a resource is called in a sentence."""

COVERS: Final[dict[Precision, str]] = {
    "repeatability": "repeatability: what more blocks on these same instances would give; "
    "instances made anew, other days and other hosts are not in it",
    "intermediate": "intermediate precision: what instances made anew on this host would give; "
    "other hosts (reproducibility) are not in it",
}
"""What an interval is about (ISO 5725-1 §3.12 to 3.19), and what it leaves out."""

SIDE_BY_SIDE: Final = "while both run side by side"
"""A duet measures two environments that load each other."""

NO_FIGURES = (
    "The second copy is in the plan, and its trials gave too few figures: read why they failed; "
    "where none did, run more blocks."
)
"""Advice where there is an A/A comparison without an interval."""

Subject = ResourceSummary | Comparison


def name(label: str, *, emulated: bool, unequal: Sequence[str]) -> str:
    """What a sentence calls an environment: label, emulation, and what is not equal."""
    if emulated and "emulated" not in label:
        label = f"{label} (emulated)"
    if unequal:
        return f"{label} (with unequal {listed(unequal)}, as the plan allows)"
    return label


def counted(subject: Subject) -> str:
    """What an interval rests on: `12 blocks`, `7 makings of the instances (28 blocks)`."""
    return briefly(subject).replace(" (", " of the instances (")


def briefly(subject: Subject) -> str:
    """The same for a table: `12 blocks`, `7 makings (28 blocks)`."""
    rests = blocks(subject.pairs)
    if isinstance(subject, Comparison) and unpaired(subject):
        rests = f"{subject.environment_cell.ok:,} against {subject.baseline_cell.ok:,} values"
    if subject.precision == "intermediate":
        return f"{_number(subject.generations, 'making')} ({rests})"
    return rests


def unpaired(c: Comparison) -> bool:
    """Of a table without blocks: two independent samples, which drop no block either."""
    values = min(c.environment_cell.ok, c.baseline_cell.ok) > 0
    return not c.pairs and (c.interval is not None or (values and not c.dropped))


def between(interval: Interval) -> str:
    """`1.27 to 1.36`."""
    _, low, high = ratio(interval)
    return f"{low} to {high}"


def ratio_words(interval: Interval) -> str:
    """`1.31 (1.27 to 1.36)`."""
    return f"{ratio(interval)[0]} ({between(interval)})"


def ratio_cells(interval: Interval | None) -> tuple[str, str]:
    """`1.31` and `1.27 to 1.36` for a table; two empty cells without an interval."""
    return ("", "") if interval is None else (ratio(interval)[0], between(interval))


def if_extreme(losses: Losses | None) -> str:
    """The interval with what was lost, for the end of a message."""
    if losses is None:
        return ""
    return f" Had they been the best or the worst of all, it would be {lost_between(losses)}."


def lost_between(losses: Losses) -> str:
    """`0.97 to 1.12`."""
    _, low, high = bounded((losses.low * losses.high) ** 0.5, losses.low, losses.high)
    return f"{low} to {high}"


def systematic(c: Comparison) -> str:
    """What the instruments add, when it can be seen: `, 1.2 to 1.4 with the instruments' part`."""
    if c.interval is None or c.budget is None:
        return ""
    together = c.interval.model_copy(update={"low": c.budget.low, "high": c.budget.high})
    wider = together.low < c.interval.low and together.high > c.interval.high
    if not wider or between(together) == between(c.interval):
        return ""
    return f", {between(together)} with the instruments' part"


def settles(c: Comparison) -> str:
    """Why it is not decided, and what may decide it: `about 18 more blocks may be enough`."""
    if c.why == "no-spread":
        units = "values of each side" if unpaired(c) else "pairs"
        return f"all {units} are equal: the figures are too coarse to tell, or exact"
    if c.why == "too-few-blocks":
        return f"at least {more(c)}"
    reason = _reason(c)
    if reason and (c.blocks_to_settle is None or _apart(c)):
        return reason
    enough = f"about {more(c)} may be enough"
    if c.blocks_to_settle is None:
        enough = f"no practical number of {_counts(c)} would settle it"
    return f"{reason}; {enough}" if reason else enough


def _reason(c: Comparison) -> str:
    """What is in the way, where it is not the width of the interval alone."""
    if c.why == "second-copy":
        return _against_copy(c)
    reasons: dict[Why | None, str] = {
        "floor-biased": "two equal environments differ by too much for so small a margin",
        "systematic": "the instruments are too coarse to tell",
        "no-copy": f"the second copy of {c.baseline_label} gave no figures to hold it against",
        "holes": "some places of the curve have too few pairs for it to be called equivalent",
        "losses": "no verdict holds whatever the lost ones would have shown",
        "unseen": "rare slow trials, which so few trials may have missed, could undo it",
        "correction": "one of several questions, each must be surer",
    }
    return reasons.get(c.why, "")


def _against_copy(c: Comparison) -> str:
    """What the other copy says."""
    shows = f"against a second copy it is {between(c.other_copy)}" if c.other_copy else ""
    if _apart(c):
        return f"{c.baseline_label} differs from its own second copy{f', {shows}' if shows else ''}"
    return shows or f"the second copy of {c.baseline_label} does not say the same"


def _apart(c: Comparison) -> bool:
    """Is it the two copies that differ? Then more blocks show that the better."""
    return c.why == "second-copy" and c.floor_biased


def more(c: Comparison) -> str:
    """`18 more blocks`, `3 more makings (12 blocks)`, `40 more values on each side`."""
    units = c.blocks_to_settle or 1
    if unpaired(c):
        if c.makings_to_settle is not None:
            making = _plural(c.makings_to_settle, "making")
            return f"{count(c.makings_to_settle)} more {making} on each side"
        return f"{count(units)} more {_plural(units, 'value')} on each side"
    if c.makings_to_settle is None:
        return f"{count(units)} more {_plural(units, 'block')}"
    making = _plural(c.makings_to_settle, "making")
    return f"{count(c.makings_to_settle)} more {making} ({count(units)} blocks)"


def _counts(c: Comparison) -> str:
    """What more of would be needed, in general."""
    if not unpaired(c):
        return "blocks"
    return "makings" if c.precision == "intermediate" else "values"


def correction(analysis: Analysis) -> str:
    """Which correction the verdicts have, what it controls, and over how many comparisons."""
    rate = share(1 - analysis.confidence)
    controls: dict[Correction, str] = {
        "holm": "Holm's procedure: the chance that any claim of a difference is false is at most "
        f"{rate}, and so is that of any claim of equivalence",
        "benjamini-hochberg": "Benjamini and Hochberg's procedure: of the claims of a difference "
        f"at most {rate} are expected to be false, and so of those of equivalence",
    }
    comparisons = _plural(analysis.family, "comparison")
    return (
        f"{analysis.family} primary {comparisons}, corrected together by "
        + (controls[analysis.correction])
    )


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


def blocks(number: int) -> str:
    """`1 block`, `12 blocks`."""
    return _number(number, "block")


def pairs(number: int) -> str:
    """`1 pair`, `12 pairs`."""
    return _number(number, "pair")


def makings(number: int) -> str:
    """`7 makings of the instances`."""
    return f"{_number(number, 'making')} of the instances"


def _number(number: int, noun: str) -> str:
    return f"{number:,} {_plural(number, noun)}"


def _plural(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"


def listed(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def capital(text: str) -> str:
    """The same with a large first letter."""
    return text[:1].upper() + text[1:]
