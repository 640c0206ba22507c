"""What energy a repetition took: by the first meter that was there, over exactly its own time.

The meter sees the whole host, with the viewers, the front and the controller on it; where these
stand on other machines, it sees the nodes alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ullage.analysis.energy.integrate import Integral, Missing, integrate
from ullage.analysis.energy.series import FOLDER, Stretch, read, series
from ullage.channels import addable
from ullage.elastic.folder import Event, Outcome, RepetitionDone, Resolved
from ullage.events import Started
from ullage.runs import EnergyMeterRecord


def meter(resolved: Resolved) -> EnergyMeterRecord | None:
    """The meter whose figure it is: the plan's first that was there."""
    return next((m for m in resolved.energy_meters if m.channels), None)


def in_words(found: EnergyMeterRecord) -> str:
    """`wall (nut): measured, wall`."""
    first = found.channels[0]
    return f"{found.label} ({found.meter}): {first.method}, {first.scope}"


def stretches(path: Path, resolved: Resolved) -> tuple[Stretch, ...]:
    """What that meter said, session by session; nothing where there is none."""
    found = meter(resolved)
    return read(path / FOLDER / f"{found.label}.jsonl") if found else ()


def sessions(events: Iterable[Event]) -> dict[tuple[str, int], str]:
    """(environment, repetition) → the session that ran it."""
    tag, found = "", {}
    for event in events:
        if isinstance(event, Started):
            tag = event.tag
        elif isinstance(event, RepetitionDone):
            found[event.environment, event.repetition] = tag
    return found


def joules(said: Iterable[Stretch], session: str, outcome: Outcome) -> float | None:
    """Energy of all channels of the first one's scope, J.

    None: no stretch of that session covers the whole time without a gap.
    """
    for stretch in said:
        if stretch.opened.session != session:
            continue
        first = stretch.opened.channels[0]
        parts: list[Integral | Missing] = [
            integrate(series(stretch, each.name), outcome.start_ns, outcome.end_ns)
            for each in addable(stretch.opened.channels, first.scope, first.method)
        ]
        known = [part.joules for part in parts if isinstance(part, Integral)]
        if len(known) == len(parts):
            return sum(known)
    return None
