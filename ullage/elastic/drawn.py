"""What is drawn of an elastic run: for its page, and as pictures for papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ullage.elastic import drawings
from ullage.elastic.metrics import Measured
from ullage.elastic.reading import ElasticRun
from ullage.elastic.sides import Side
from ullage.elastic.sound import Doubt
from ullage.elastic.summary import Against, Summary
from ullage.elastic.twin import Simulated
from ullage.naming import slug
from ullage.report.charts import stacked, vega_svg
from ullage.report.lanes import Drawing
from ullage.report.text import quantity

Twins = Mapping[tuple[str, int], Simulated]
"""(environment, repetition) → its twin, of those that have one."""


@dataclass(frozen=True)
class Report:
    """All that a page is made of."""

    run: ElasticRun
    sides: Sequence[Side]
    summary: Summary
    doubts: Sequence[Doubt]
    twins: Twins
    against: Against | None = None


def pictures(made: Report) -> Iterator[tuple[str, str]]:
    """Name and SVG of each picture of the page, without the fields of every repetition.

    `field` has all environments; where there are several, each has a picture of its own too.
    """
    fields = [
        (side, vega_svg(drawing))
        for side in made.sides
        if (found := typical(made, side)) is not None
        and (drawing := field(made, side, found)) is not None
    ]
    if fields:
        yield "field", stacked([(side.label, svg) for side, svg in fields])
    if len(fields) > 1:
        for side, svg in fields:
            yield f"field-{slug(side.key)}", stacked([(side.label, svg)])
    for name, drawing in (("allocations", allocations(made)), ("waits", waits(made))):
        if drawing is not None:
            yield name, vega_svg(drawing)


def typical(made: Report, side: Side) -> Measured | None:
    """The repetition that is drawn first: of median elastic deviation in the first environment.

    Where that one has no figures here, the first that has.
    """
    drawn = {n: m for n, m in side.figures.items() if m.curves is not None}
    for other in made.sides:
        ordered = sorted(other.of("deviation").items(), key=lambda item: item[1])
        if ordered:
            number = ordered[(len(ordered) - 1) // 2][0]
            if number in drawn:
                return drawn[number]
    return next(iter(drawn.values()), None)


def field(made: Report, side: Side, found: Measured) -> Drawing | None:
    """Nodes and viewers of a repetition; None where nobody came."""
    if found.curves is None:
        return None
    twin = made.twins.get((side.key, found.repetition.number))
    supplied = twin.supplied if twin else None
    room, scale = made.run.resolved.room, made.summary.time_scale
    return drawings.field(found.curves, room, scale, supplied)


def allocations(made: Report) -> Drawing | None:
    """TaR of every allocation; None where none was made."""
    taken = {
        side.label: [t for m in side.figures.values() for t in m.allocations] for side in made.sides
    }
    taken = {label: times for label, times in taken.items() if times}
    if not taken:
        return None
    middle = {
        e.label: f"mean {quantity(found.estimate, 's')}"
        for e in made.summary.environments
        if (found := e.estimate("tar")) is not None
    }
    return drawings.allocations(taken, middle)


def waits(made: Report) -> Drawing | None:
    """How long viewers waited; None where nobody was served."""
    found = {
        side.label: (
            sorted(w for m in side.figures.values() for w in m.waits),
            sum(len(m.repetition.sessions) for m in side.figures.values()),
        )
        for side in made.sides
    }
    found = {label: of for label, of in found.items() if of[0]}
    return drawings.waits(found, made.run.resolved.patience_s) if found else None
