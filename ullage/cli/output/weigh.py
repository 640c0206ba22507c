"""`ullage weigh`: a table of the machines, and one of the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from ullage.analysis.comparison import rounding
from ullage.analysis.comparison.estimates import Precision
from ullage.analysis.comparison.words import (
    COVERS,
    RESOURCES,
    SIDE_BY_SIDE,
    blocks,
    floor_words,
    listed,
    makings,
    name,
)
from ullage.analysis.weigh.weighing import Total, WeighedNode, WeighedPart, Weighing
from ullage.common.console import LineTable, escape, stdout
from ullage.common.text import clean
from ullage.runs.records import Resource


def show(weighing: Weighing) -> None:
    for line in _lead(weighing):
        stdout.print(escape(line), soft_wrap=True)
    stdout.print(_machines(weighing))
    if weighing.nodes:
        stdout.print(_node_table(weighing))
    for line in _notes(weighing):
        stdout.print(escape(line), soft_wrap=True)


def _lead(weighing: Weighing) -> Iterable[str]:
    design = f", {SIDE_BY_SIDE}" if weighing.design == "duet" else ""
    yield (
        f"How many times worse than {clean(weighing.baseline_label, 60)}{design}, for a machine "
        f"that is {_for(weighing.weights)}:"
    )
    for key, weights in weighing.own.items():
        yield f"{clean(key, 60)} is weighed as {_for(weights)}."


def _for(weights: dict[Resource, float]) -> str:
    parts = [f"{rounding.share(weight)} {RESOURCES[r]}" for r, weight in weights.items() if weight]
    return listed(parts)


def _machines(weighing: Weighing) -> Table:
    table = _table(weighing, "a machine", "weight", "adds")
    for machine in weighing.machines:
        label = name(machine.label, emulated=machine.emulated, unequal=machine.unequal)
        table.add_row(f"[bold]{_safe(label)}[/]", *_figures(machine.total), "", "")
        for part in machine.parts:
            table.add_row(*_row(part), rounding.share(part.weight), f"{part.contribution:.3g}")
    return table


def _node_table(weighing: Weighing) -> Table:
    table = _table(weighing, "a node", "weight × share", "adds")
    for node in (*weighing.nodes, *([weighing.system] if weighing.system else [])):
        kind = {
            "measured": "measured together",
            "composed": "from figures of one at a time",
            "system": "all nodes",
        }[node.kind]
        table.add_row(f"[bold]{_safe(node.name)}[/], {kind}", "", "", "", "", "")
        table.add_row("  mean by share", *_figures(node.mean), "", "")
        table.add_row("  sum", *_figures(node.total), "", "")
        if node.kind != "system":
            for part in node.parts:
                counts = f"{part.weight:.3g} × {part.share:.3g} ({part.share_from})"
                table.add_row(*_row(part), counts, f"{part.contribution:.3g}")
    return table


def _table(weighing: Weighing, first: str, *more: str) -> Table:
    table = LineTable()
    table.add_column(first)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column(f"{rounding.share(weighing.confidence)} interval", no_wrap=True)
    table.add_column("from")
    for column in more:
        table.add_column(column, justify="right")
    return table


def _row(part: WeighedPart) -> tuple[str, str, str, str]:
    """A resource of an environment, or of one instance, with its ratio."""
    copies = f"{part.copies} × " if part.copies > 1 else ""
    of = f"{part.instance or part.environment}, " if part.share_from else ""
    several = f" ({len(part.members)} figures)" if len(part.members) > 1 else ""
    return (f"  {copies}{_safe(of)}{RESOURCES[part.resource]}{several}", *_figures(part.total))


def _figures(total: Total) -> tuple[str, str, str]:
    """Ratio, interval, and what it rests on."""
    rests = blocks(total.blocks)
    if total.precision == "intermediate":
        rests = f"{makings(total.generations)} ({rests})"
    if total.interval is None:
        return f"{total.overhead:.3g}", "none", rests
    middle, low, high = rounding.ratio(total.interval)
    return middle, f"{low} to {high}", rests


def _notes(weighing: Weighing) -> list[str]:
    totals = [machine.total for machine in weighing.machines]
    notes = [f"Intervals cover {COVERS[kind]}." for kind in dict.fromkeys(_kinds(totals))]
    parts = [part for machine in weighing.machines for part in machine.parts]
    if any(len(part.members) > 1 for part in parts):
        notes.append("Several figures of one resource count together, by their geometric mean.")
    dropped = max((total.dropped for total in totals), default=0)
    if dropped:
        notes.append(
            f"Up to {blocks(dropped)} left out, in which a resource has no pair of trials."
        )
    if any(total.interval is None for total in totals):
        notes.append("No interval: one block shows no spread.")
    return [*notes, *_floor_notes(weighing), *_node_notes(weighing.nodes)]


def _floor_notes(weighing: Weighing) -> list[str]:
    """Which sums the baseline against itself might come to as well."""
    baseline = clean(weighing.baseline_label, 60)
    within, unknown = [], []
    for machine in weighing.machines:
        whole, label = sum(part.coefficient for part in machine.parts), _safe(machine.label)
        if machine.floor is None:
            unknown.append(label)
        elif abs(machine.total.overhead - whole) <= machine.floor - whole:
            within.append(f"{label} ({floor_words(machine.floor / whole)})")
    notes = []
    if within:
        notes.append(
            f"{baseline} against itself may come to as much, weighed alike (the noise floor): "
            f"{listed(within)}."
        )
    if unknown:
        notes.append(f"What {baseline} against itself comes to is not known: {listed(unknown)}.")
    return notes


def _kinds(totals: Sequence[Total]) -> list[Precision]:
    return [total.precision for total in totals if total.interval is not None]


def _node_notes(nodes: Sequence[WeighedNode]) -> list[str]:
    notes = []
    if nodes:
        notes.append(
            "The sum grows with what a node holds; the mean by share is the sum over all "
            "weights × shares, and can be compared between sizes."
        )
    if any(node.kind == "composed" for node in nodes):
        notes.append(
            "Composed nodes are reckoned from environments that ran by themselves: what instances "
            "cost each other is not in them. `instances:` in a plan measures that."
        )
    for node in nodes:
        shares = node.shares.items()
        over = [f"{RESOURCES[r]} {share:.3g} times" for r, share in shares if share > 1 + 1e-9]
        if over:
            notes.append(f"{clean(node.name, 60)} gives more than it has: {listed(over)}.")
    return notes


def _safe(text: str) -> str:
    return escape(clean(text, 120))
