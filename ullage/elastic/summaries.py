"""What each machine says of its viewers, and one summary of all.

Counts, CPU time and memory are summed, and what follows from sums (bytes in a second, the memory of
a viewer) is worked out from them. The lengths of violations are in the records, so their quantiles
are those of all. The quantiles of lateness, of turns and of the viewers' rates, and the errors of
rates, are told without what they were made of, so they cannot be put together: the worst machine's
stand, and what each machine said is in a file of its own. Every field is there; of a machine's
reasons against itself the first few.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from ullage.printable import clean
from ullage.runs import Nanoseconds

Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Signed = Annotated[float, Field(ge=-1e18, le=1e18, allow_inf_nan=False)]
Quantity = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=40, pattern=r"^[a-z0-9.-]+$")]
Counts = Annotated[dict[Name, Count], Field(max_length=64)]
Quantiles = Annotated[dict[Name, Quantity], Field(max_length=16)]

_MOST_WHY: Final = 8


class Violated(BaseModel):
    """Violations, as viewers count them."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    count: Count
    viewers: Count
    served: Count


class Memory(BaseModel):
    """Of its processes."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    peak_bytes: Count
    per_viewer_bytes: Quantity | None


class Told(BaseModel):
    """The summary of a machine's viewers (docs/guide/elastic-viewers.md), and no less of it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    valid: bool
    why: Annotated[list[str], Field(max_length=2000)]
    interrupted: bool
    started_ns: Nanoseconds
    ended_ns: Nanoseconds
    due: Count
    outcomes: Counts
    whys: Counts
    violations: Violated
    shards: Count
    bytes: Count
    requests: Count
    behind: Count
    reopened: Count
    asked_again: Count
    untold: Count
    most_at_once: Count
    most_playing: Count
    lateness_s: Quantiles
    lateness_limit_s: Quantity
    rate_error: Signed | None
    rate_error_of_viewers: Quantiles
    delivered_error: Signed | None
    delivered_error_of_viewers: Quantiles
    turn_s: Quantiles
    cpu_s: Quantity
    cpu_share: Quantity
    memory: Memory


_SUMMED: Final = (
    *("due", "shards", "bytes", "requests", "behind", "reopened", "asked_again", "untold"),
    *("most_at_once", "most_playing", "cpu_s"),
)
_SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def together(
    of: Mapping[str, Told], span_ns: tuple[int, int], lengths_ns: Iterable[int]
) -> dict[str, Any]:
    """One of all machines, who are told by name.

    span_ns: from when to when, by the run's clock; lengths_ns: of all violations in the records.
    """
    (zero_ns, ended_ns), told = span_ns, [*of.values()]
    seconds = (ended_ns - zero_ns) / 1e9
    summed = {name: sum(getattr(one, name) for one in told) for name in _SUMMED}
    violations = {
        name: sum(getattr(one.violations, name) for one in told) for name in Violated.model_fields
    }
    return {
        "format": 1,
        "mode": "fleet",
        "valid": all(one.valid for one in told),
        "why": [
            f"{name}: {clean(why, 300)}" for name, one in of.items() for why in one.why[:_MOST_WHY]
        ],
        "interrupted": any(one.interrupted for one in told),
        "started_ns": zero_ns,
        "ended_ns": ended_ns,
        "seconds": seconds,
        **summed,
        "bytes_per_s": summed["bytes"] / seconds if seconds > 0 else 0.0,
        "outcomes": _sum(one.outcomes for one in told),
        "whys": _sum(one.whys for one in told),
        "violations": {**violations, "length_s": _quantiles(sorted(ns / 1e9 for ns in lengths_ns))},
        "lateness_s": _worst(one.lateness_s for one in told),
        "lateness_limit_s": max(one.lateness_limit_s for one in told),
        "rate_error": _farthest(one.rate_error for one in told),
        "rate_error_of_viewers": _worst(one.rate_error_of_viewers for one in told),
        "delivered_error": _farthest(one.delivered_error for one in told),
        "delivered_error_of_viewers": _worst(one.delivered_error_of_viewers for one in told),
        "turn_s": _worst(one.turn_s for one in told),
        "cpu_share": max(one.cpu_share for one in told),
        "memory": _memory(told),
    }


def _sum(each: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in each:
        total.update(one)
    return dict(total)


def _worst(each: Iterable[dict[str, float]]) -> dict[str, float]:
    """`count` is no quantile: of how many all of them are."""
    worst: dict[str, float] = {}
    for one in each:
        for name, value in one.items():
            before = worst.get(name, 0.0)
            worst[name] = before + value if name == "count" else max(before, value)
    return worst


def _farthest(each: Iterable[float | None]) -> float | None:
    """From 0, with its sign; None: nobody tells."""
    return max((one for one in each if one is not None), key=abs, default=None)


def _quantiles(ordered: Sequence[float]) -> dict[str, float]:
    """As viewers tell them: values that there are, and the count alone of none."""
    count = len(ordered)
    if not count:
        return {"count": 0}
    ranks = {name: max(math.ceil(share * count), 1) for name, share in _SHARES.items()}
    return {"count": count, **{name: ordered[rank - 1] for name, rank in ranks.items()}}


def _memory(told: Sequence[Told]) -> dict[str, float | None]:
    """What each viewer added to all: a machine tells it of as many as it had at once."""
    grown = [
        (one.most_at_once, one.memory.per_viewer_bytes)
        for one in told
        if one.memory.per_viewer_bytes is not None
    ]
    viewers = sum(most for most, _ in grown)
    return {
        "peak_bytes": sum(one.memory.peak_bytes for one in told),
        "per_viewer_bytes": sum(most * each for most, each in grown) / viewers if viewers else None,
    }
