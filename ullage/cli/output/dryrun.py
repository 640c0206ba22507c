"""What `--dry-run` prints of a plan: cells, order, time and power."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table
from scipy import special

from ullage.common.console import LineTable, escape, print_json, stdout
from ullage.common.quantities import format_bytes, format_seconds, many
from ullage.engine import pilot as pilots
from ullage.engine.estimate import TimeEstimate
from ullage.engine.forecast import Forecast, foresee
from ullage.engine.pilot import Pilot, PlannedComparison
from ullage.nodes import descriptors
from ullage.plan.instances import Needs
from ullage.plan.matrix import Matrix
from ullage.plan.meters import idle_s
from ullage.plan.schema import Plan
from ullage.runs.reader import RunFolder
from ullage.stats import LEAST_PAIRS
from ullage.stats.planning import Outlook, Reach
from ullage.stats.power import POWER
from ullage.stats.stop import Race
from ullage.stats.unseen import unseen

MOST_LOOKS = 5


def show(
    plan: Plan, matrix: Matrix, *, as_json: bool, pilot: RunFolder | None = None, runs: Path
) -> None:
    """Print the cells, the order of the first block, the time, and what the run could find."""
    forecast = foresee(plan, matrix, pilot, runs)
    if as_json:
        print_json(as_dict(forecast))
        return
    _show_cells(forecast)
    if forecast.matrix.meters:
        stdout.print(escape(_meters(forecast)), soft_wrap=True)
    stdout.print(time(forecast.time, plan))
    stdout.print(escape(disk(plan.outputs, runs)), soft_wrap=True)
    stdout.print(_unseen(forecast.time, plan), soft_wrap=True)
    if forecast.aim.race is not None:
        stdout.print(escape(_race(forecast, forecast.aim.race)), soft_wrap=True)
    for line in _basis(forecast):
        stdout.print(escape(line), soft_wrap=True)
    if forecast.planned or forecast.assumed:
        stdout.print(_table(forecast))
    for line in (*_advice(forecast), *_lengths(forecast)):
        stdout.print(escape(line), soft_wrap=True)


def _show_cells(forecast: Forecast) -> None:
    plan, matrix = forecast.plan, forecast.matrix
    counts = (len(matrix.environments), "environment"), (len(matrix.cases), "workload")
    stdout.print(" × ".join(many(number, noun) for number, noun in counts))
    several = {e.key: f" ({e.instances} instances)" for e in matrix.environments if e.instances > 1}
    nodes_of = {e.key: f" on {' and '.join(dict.fromkeys(e.nodes))}" for e in matrix.environments}
    keys = ", ".join(
        e.key + (nodes_of[e.key] if e.nodes else "") + several.get(e.key, "")
        for e in matrix.environments
    )
    stdout.print(f"  environments: {escape(keys)}", soft_wrap=True)
    if matrix.nodes:
        nodes = (f"{name} ({node.where})" for name, node in matrix.nodes.items())
        stdout.print(
            f"  nodes: {escape(', '.join(nodes))}, which nobody has asked yet", soft_wrap=True
        )
        needed = Needs(matrix).descriptors.needed
        stdout.print(
            f"  open files: at most {needed:,}; this process may have {descriptors.most():,}"
        )
    if matrix.link:
        stdout.print(f"  each instance's link: {matrix.link} each way")
    for case in matrix.cases:
        stdout.print(f"  {escape(case.key)}: {escape(case.workload.title(case.parameters))}")
    drawn = "" if plan.seed is not None else " (the seed is drawn at the start; this is seed 0's)"
    stdout.print(f"order of the first block{drawn}:")
    for number, turn in enumerate(forecast.order, start=1):
        where = " beside ".join(escape(slot.environment) for slot in turn)
        stdout.print(f"  {number:3} {escape(turn[0].workload)} in {where}")


def _meters(forecast: Forecast) -> str:
    names = [
        f"{meter.label} ({meter.kind.name}{', optional' if meter.optional else ''})"
        for meter in forecast.matrix.meters
    ]
    seconds = idle_s(forecast.plan)
    idle = f"; the host rests {format_seconds(seconds)} before the first block" if seconds else ""
    return f"energy meters: {', '.join(names)}{idle}"


def time(expected: TimeEstimate, plan: Plan) -> str:
    """How long the run will take."""
    source = "from earlier runs here" if expected.learned else "nominal; it learns from each run"
    reached = expected.blocks_reached
    cut = " (as many as the budget allows)" if reached < plan.blocks.max else ""
    return (
        f"time: {format_seconds(expected.least_s)} for {many(plan.blocks.min, 'block')}, at most "
        f"{format_seconds(expected.seconds(reached))} for {reached:,}{cut}; {source}"
    )


def disk(most: int, runs: Path) -> str:
    """What the run may take of it, and whether that is there."""
    place = next(path for path in (runs.absolute(), *runs.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    short = "" if free >= most else ": it would end earlier, before a trial that finds no room"
    return (
        f"disk: at most {format_bytes(most)} (`outputs:`), then it stops and can be taken up; "
        f"{format_bytes(free)} are free here{short}"
    )


def _unseen(expected: TimeEstimate, plan: Plan) -> str:
    """Which events the run may miss: by the fewest blocks it makes, and by the most."""
    counts = dict.fromkeys((plan.blocks.min, expected.blocks_reached))
    parts = [f"{_percent(unseen(count))} with {many(count, 'block')}" for count in counts]
    aim = f"; the plan asks for {_percent(plan.rare)}" if plan.rare is not None else ""
    return (
        "rare events: what befalls fewer of an environment's trials than this may not happen in "
        f"any (chance 5 %): {', '.join(parts)}{aim}"
    )


def _race(forecast: Forecast, race: Race) -> str:
    """When who may leave, and what that saves by the pilot."""
    blocks = [units * (forecast.blocks_each or 1) for units in race.looks()]
    until = forecast.plan.blocks.until
    likely = until is not None and until.verdicts == "likely"
    who = "what is decided, or unlikely to be," if likely else "what is decided"
    text = f"race: judged after {_listed(blocks)} blocks; {who} leaves the run"
    if forecast.raced_s is None:
        return text
    decided = sum(units is not None for units in forecast.leaves.values())
    return (
        f"{text}; by the pilot's figures {decided} of "
        f"{many(len(forecast.leaves), 'comparison')} are decided, in "
        f"{'at most ' if likely else ''}{format_seconds(forecast.raced_s)}"
    )


def _listed(numbers: Sequence[int]) -> str:
    """`6, 12 and 24`; of many the first three and the last."""
    texts = [f"{number:,}" for number in numbers]
    if len(texts) > MOST_LOOKS:
        texts = [*texts[:3], "…", texts[-1]]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _basis(forecast: Forecast) -> list[str]:
    """What the figures of the table rest on."""
    aim, rule, pilot = forecast.aim, forecast.aim.rule, forecast.pilot
    lines = [
        f"power: {many(aim.family, 'primary comparison')}, so the first claim needs a p-value of "
        f"{aim.level(forecast.counts[0]):.2g}; differences and equivalence as below are found with "
        "a chance of "
        f"{_percent(POWER)}"
    ]
    if rule.max_blocks < LEAST_PAIRS:
        lines.append(
            f"{many(rule.max_blocks, forecast.unit)} at most: no verdict comes from under "
            f"{LEAST_PAIRS}"
        )
    if pilot is None:
        lines.append(
            "pilot: none, so nothing is known of the spread; a run of this plan becomes one"
        )
        return lines
    if not forecast.planned:
        lines.append(
            f"pilot: {pilot.run} has no comparison of this plan in the same design, so nothing is "
            "known of the spread"
        )
        return lines
    lines.append(f"pilot: {pilot.run}, {many(pilot.blocks, 'block')}{_uncertain(forecast, pilot)}")
    if rule.half_width is not None and forecast.expected is not None:
        short = "" if forecast.expected < rule.max_blocks else ", the most that it may"
        lines.append(
            f"  so the run is expected to end after {many(forecast.expected, forecast.unit)}{short}"
        )
    if pilot.differs:
        lines.append(f"  of the same name, but not the same there: {', '.join(pilot.differs)}")
    if forecast.blocks_each and not any(s.generation_known for s in pilot.spreads.values()):
        lines.append(
            "  it made its instances once: what making them anew adds is not known, and not here"
        )
    return lines


def _uncertain(forecast: Forecast, pilot: Pilot) -> str:
    """How far off a spread may be that was estimated from so little: 95 %, by χ²."""
    degrees = min(spread.degrees(forecast.blocks_each) for spread in pilot.spreads.values())
    if degrees < 1:
        return ""
    low, high = (math.sqrt(degrees / special.chdtri(degrees, p)) for p in (0.025, 0.975))
    return f": a spread may really be {low:.2g} to {high:.2g} times what it was there"


def _table(forecast: Forecast) -> Table:
    """A line for each comparison, or for each spread to choose from."""
    rule = forecast.aim.rule
    table = LineTable()
    table.add_column("comparison" if forecast.planned else "if the spread is")
    if forecast.planned:
        table.add_column(f"spread of a {'pair' if forecast.blocks_each is None else forecast.unit}")
    for count in forecast.counts:
        table.add_column(f"{many(count, forecast.unit)} find")
    if rule.half_width is not None:
        table.add_column(f"±{_percent(rule.half_width)} after")
    table.add_column(f"equivalent within {_percent(forecast.plan.margin)} after")
    for comparison, look in forecast.planned.items():
        title = f"{comparison.environment}, {comparison.workload}, {comparison.metric.name}"
        table.add_row(escape(title), _percent(math.expm1(look.spread)), *_cells(forecast, look))
    for look in forecast.assumed:
        table.add_row(_percent(look.spread), *_cells(forecast, look))
    return table


def _cells(forecast: Forecast, look: Outlook) -> list[str]:
    cells = [_finds(reach) for reach in look.reaches]
    if forecast.aim.rule.half_width is not None:
        cells.append(_after(forecast, look.units_for_target))
    return [*cells, _after(forecast, look.units_for_equivalence)]


def _finds(reach: Reach) -> str:
    if reach.half_width is None:
        return "nothing"
    width = f"interval ±{_percent(reach.half_width)}"
    return width if reach.difference is None else f"{_percent(reach.difference)}, {width}"


def _after(forecast: Forecast, units: int | None) -> str:
    if units is None:
        return "never"
    blocks = units * (forecast.blocks_each or 1)
    length = f"{many(units, forecast.unit)}, {format_seconds(forecast.time.seconds(blocks))}"
    return f"{length} (more than planned)" if units > forecast.aim.rule.max_blocks else length


def _advice(forecast: Forecast) -> list[str]:
    """How the time is best divided over the levels of repetition, ready to be pasted."""
    pilot, suggestion = forecast.pilot, forecast.suggestion
    if pilot is None or suggestion is None or pilot.costs is None:
        return []
    widest = pilot.spreads[suggestion.comparison]
    parts = [
        f"{name} {_percent(math.sqrt(max(0.0, variance)))}"
        for name, variance in zip(pilots.LEVELS, widest.components.raw, strict=True)
        if variance is not None
    ]
    costs = {
        "generation": pilot.costs.generation,
        "block": pilot.costs.block,
        "iteration": pilot.costs.iteration,
    }
    seconds = [f"{name} {cost:.2g} s" for name, cost in costs.items() if cost is not None]
    lines = [
        f"levels: {suggestion.comparison} has the widest spread: {', '.join(parts)}; each costs: "
        f"{', '.join(seconds)}",
    ]
    if widest.generation_known and suggestion.blocks_each is None:
        lines.append(
            "  making the instances anew added nothing that "
            f"{widest.generations} generations could show"
        )
    lines.append("  the most precise for the time that it takes (Kalibera & Jones 2013):")
    return lines + [f"    {line}" for line in pilots.as_plan(suggestion, forecast.plan)]


def _lengths(forecast: Forecast) -> list[str]:
    """Workloads whose trials would better be shorter, ready to be pasted."""
    lines = []
    for length in forecast.lengths:
        entry = yaml.safe_dump(length.entry, default_flow_style=True, sort_keys=False, width=1000)
        lines += [
            f"trial length: the noise of {length.workload} has a memory: near trials share it; "
            f"trials of {length.better_s:g} s in place of {length.now_s:g} s need "
            f"{_percent(length.time)} of the time for the same precision, if they start alike:",
            f"    - {entry.strip()}",
        ]
    return lines


def _open_files(matrix: Matrix) -> dict[str, int]:
    """Where there are other machines."""
    return {"open_files": Needs(matrix).descriptors.needed} if matrix.nodes else {}


def as_dict(forecast: Forecast) -> dict[str, Any]:
    time, rule, pilot = forecast.time, forecast.aim.rule, forecast.pilot
    return {
        "environments": [environment.key for environment in forecast.matrix.environments],
        "workloads": [case.key for case in forecast.matrix.cases],
        "design": forecast.plan.design,
        "energy_meters": [
            {"label": meter.label, "meter": meter.kind.name, "optional": meter.optional}
            for meter in forecast.matrix.meters
        ],
        "idle_s": idle_s(forecast.plan),
        "seed": forecast.plan.seed,
        "network": forecast.plan.network and forecast.plan.network.model_dump(),
        "outputs_bytes": forecast.plan.outputs,
        "order": [[slot.workload, slot.environment] for turn in forecast.order for slot in turn],
        "provision_s": time.provision_s,
        "block_s": time.block_s,
        "least_s": time.least_s,
        "most_s": time.most_s,
        "blocks_min": time.blocks_min,
        "blocks_reached": time.blocks_reached,
        "unseen_least": unseen(time.blocks_min),
        "unseen_most": unseen(time.blocks_reached),
        "rare": forecast.plan.rare,
        "learned": time.learned,
        **_open_files(forecast.matrix),
        "family": forecast.aim.family,
        "level": forecast.aim.level(forecast.counts[0]),
        "power": POWER,
        "unit": forecast.unit,
        "blocks_each": forecast.blocks_each,
        "widening": rule.widening,
        "target_half_width": rule.half_width,
        "expected_units": forecast.expected,
        "looks": None if forecast.aim.race is None else forecast.aim.race.looks(),
        "raced_s": forecast.raced_s,
        "pilot": None
        if pilot is None
        else {
            "run": pilot.run,
            "blocks": pilot.blocks,
            "differs": pilot.differs,
            "costs": asdict(pilot.costs) if pilot.costs is not None else None,
        },
        "comparisons": [
            {
                "environment": comparison.environment,
                "workload": comparison.workload,
                "metric": comparison.metric.name,
                **_outlook(forecast, look),
                "variances": _variances(pilot, comparison),
            }
            for comparison, look in forecast.planned.items()
        ],
        "assumed": [_outlook(forecast, look) for look in forecast.assumed],
        "trial_lengths": [asdict(length) for length in forecast.lengths],
        "suggestion": None
        if forecast.suggestion is None
        else {
            **asdict(forecast.suggestion),
            "plan": pilots.as_plan(forecast.suggestion, forecast.plan),
        },
    }


def _outlook(forecast: Forecast, look: Outlook) -> dict[str, Any]:
    def seconds(units: int | None) -> float | None:
        return None if units is None else forecast.time.seconds(units * (forecast.blocks_each or 1))

    return {
        **asdict(look),
        "seconds_for_target": seconds(look.units_for_target),
        "seconds_for_equivalence": seconds(look.units_for_equivalence),
    }


def _variances(pilot: Pilot | None, comparison: PlannedComparison) -> dict[str, float | None]:
    """By level, as estimated: a negative one is none that chance did not make."""
    raw = pilot.spreads[comparison.key].components.raw if pilot is not None else ()
    return dict(zip(pilots.LEVELS, raw, strict=False))


def _percent(share: float) -> str:
    """`0.83 %`, `3 %`, `12 %`; from 1 on as a factor: `2.4×`."""
    if share >= 1:
        return f"{1 + share:.3g}×"
    return f"{float(f'{100 * share:.2g}'):g} %"
