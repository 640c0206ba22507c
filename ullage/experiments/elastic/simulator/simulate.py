"""`ullage elastic simulate`: the front's decisions in simulated time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ullage import _elastic
from ullage.common.console import LineTable, escape, print_json, stdout
from ullage.common.quantities import format_seconds, many
from ullage.experiments.clock.lab import Bar
from ullage.experiments.elastic.simulator import spec
from ullage.experiments.elastic.simulator.fields import FIGURES, in_words
from ullage.experiments.elastic.simulator.spec import Simulation

PARTS = 1000
"""Of the progress bar."""


def command(file: Path, *, as_json: bool) -> None:
    """Simulate what the file says, and print what was found. Ctrl-C ends it."""
    simulation = spec.load(file)
    outcome = simulate(simulation)
    if as_json:
        print_json(
            {"format": 1, "kind": "simulation", "specification": _written(simulation)} | outcome
        )
        return
    s = simulation.specification
    stdout.print(escape(f"{s.name}: {sentence(outcome)}"), soft_wrap=True)
    table = LineTable("figure", "value", "meaning")
    for figure in FIGURES:
        value = figure.of(outcome)
        text = "none" if value is None else in_words(value, figure.unit)
        table.add_row(figure.name, text, figure.meaning)
    stdout.print(table)


def simulate(simulation: Simulation) -> dict[str, Any]:
    """The simulator's outcome. A bar on the terminal says how far it is."""
    with Bar() as bar:
        tell = bar.stage("simulating")
        text = _elastic.simulate(
            simulation.text(), lambda requests, at_s, part: tell(int(part * PARTS), PARTS)
        )
    return dict(json.loads(text))


def sentence(outcome: dict[str, Any]) -> str:
    """The answer in one sentence."""
    viewers, blocked = outcome["viewers"], outcome["blocked"]
    if blocked is None:
        return "nobody came."
    whole, away = outcome["whole"], viewers["turned_away"]
    # Turned away is not blocked, and "0 % were blocked" alone would say that all were served.
    more = f", {100 * away / viewers['requests']:.3g} % turned away at once" if away else ""
    return (
        f"{many(viewers['requests'], 'viewer')} came, {100 * blocked:.3g} % were blocked{more}; "
        f"at most {many(whole['most_nodes'], 'node')} at a time served "
        f"{many(whole['watching']['most'], 'viewer')}, for "
        f"{whole['node_s'] / 3600:,.4g} node-hours in {format_seconds(outcome['ended_s'])}."
    )


def _written(simulation: Simulation) -> dict[str, Any]:
    dumped = simulation.specification.model_dump(mode="json", exclude_none=True, by_alias=True)
    return dict(dumped)
