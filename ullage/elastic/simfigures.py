"""The figures of a simulation: what each means, and where it stands in the simulator's outcome.

One with the name of a metric of real runs is that metric; what has no such one has another name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Figure:
    """One figure."""

    name: str
    unit: str
    meaning: str
    at: tuple[str, ...]
    """Its path in the outcome."""
    share: bool = False
    """It is between 0 and 1, and so are the ends of its interval."""
    signed: bool = False
    """It may be below 0, and so may those."""
    over: float = 1.0
    """What the outcome's value is divided by."""

    def of(self, outcome: Mapping[str, Any]) -> float | None:
        """Its value; None where there is none, such as the mean wait of nobody."""
        value: Any = outcome
        for part in self.at:
            value = None if value is None else value[part]
        return None if value is None else float(value) / self.over


FIGURES: Final = (
    Figure("QtRvS", "1", "viewers that came", ("viewers", "requests")),
    Figure("PcBl", "1", "share of them that was blocked", ("blocked",), share=True),
    Figure("turned_away_viewers", "1", "viewers with no place to wait, or never a node",
           ("viewers", "turned_away")),
    Figure("waited_viewers", "1", "viewers that waited and were served", ("viewers", "waited")),
    Figure("waited_mean", "s", "how long these waited, on the average", ("wait", "mean_s")),
    Figure("waited_p99", "s", "99 % of these waited no longer", ("wait", "p99_s")),
    Figure("PcAf", "1", "share of the served viewers whose stream broke with its node",
           ("affected",), share=True),
    Figure("cut", "1", "viewers that lost their node and did not see the rest", ("viewers", "cut")),
    Figure("nodes_asked", "1", "nodes that were asked for", ("nodes", "asked")),
    Figure("nodes_failed", "1", "nodes that never became ready", ("nodes", "failed")),
    Figure("nodes_most", "1", "nodes at a time, at most", ("whole", "most_nodes")),
    Figure("node_seconds", "node·s", "nodes over time, from asked for until gone: what is paid for",
           ("whole", "node_s")),
    Figure("TaR", "s", "from asking for a node until it streams, on the average",
           ("allocation", "mean_s")),
    Figure("watching_most", "1", "viewers served at a time, at most",
           ("whole", "watching", "most")),
    Figure("accuracy_u", "1", "nodes missing, on the average over time",
           ("elasticity", "under_nodes")),
    Figure("accuracy_o", "1", "nodes too many, on the average over time",
           ("elasticity", "over_nodes")),
    Figure("theta_u", "1", "share of the demanded nodes that was missing, over time",
           ("elasticity", "under_part"), share=True),
    Figure("theta_o", "1", "nodes too many, as a share of the demanded ones, over time",
           ("elasticity", "over_part")),
    Figure("timeshare_u", "1", "share of the time in which nodes were missing",
           ("elasticity", "under_time"), share=True),
    Figure("timeshare_o", "1", "share of the time in which there were too many",
           ("elasticity", "over_time"), share=True),
    Figure("jitter", "nodes/s", "how much oftener supply changed than demand",
           ("elasticity", "jitter_per_minute"), signed=True, over=60),
    Figure("instability", "1", "share of the time in which supply did not move as demand did",
           ("elasticity", "instability"), share=True),
    Figure("deviation", "1", "elastic deviation from a supply that follows perfectly",
           ("elasticity", "deviation")),
    Figure("speed_up", "1", "elastic speed-up over a constant supply; above 1: better",
           ("elasticity", "speed_up")),
)  # fmt: skip


def figures(outcome: Mapping[str, Any]) -> dict[str, float]:
    """Name → value, of those that there are."""
    found = ((figure.name, figure.of(outcome)) for figure in FIGURES)
    return {name: value for name, value in found if value is not None}


def said(value: float, unit: str) -> str:
    """A value for people: by the minute where a real run's page tells it so."""
    if unit == "nodes/s":
        value, unit = 60 * value, "nodes/min"
    text = f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return text if unit == "1" else f"{text} {unit}"
