"""`ullage elastic sweep`: a simulation over parameters and seeds, through Dask.

Every point meets the same seeds, so two points differ by their parameters and not by who came.
"""

from __future__ import annotations

import copy
import itertools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from dask.base import compute
from dask.callbacks import Callback
from dask.delayed import delayed
from pydantic import BaseModel, ConfigDict, Field
from rich.table import Table
from scipy.stats import bootstrap

from ullage import _elastic
from ullage.common.console import LineTable, escape, print_json, stdout
from ullage.common.errors import PLAN_BAD_FIELD, UllageError
from ullage.common.fields import checked, shown
from ullage.common.quantities import Fraction
from ullage.common.yamlfile import YamlFile, read
from ullage.experiments.clock.lab import Bar
from ullage.experiments.elastic.simulator import spec
from ullage.experiments.elastic.simulator.cluster import on_cluster
from ullage.experiments.elastic.simulator.fields import FIGURES, SimulatedFigure, figures, in_words
from ullage.stats.interval import moments, t_quantile

MOST_POINTS: Final = 10_000
LEAST_BOOTSTRAPPED: Final = 10
"""With fewer seeds a bootstrap's interval is too short."""
_RESAMPLES: Final = 2000
_SHOWN: Final = ("PcBl", "waited_mean", "nodes_most", "node_seconds")
"""What the table has; `--json` has all."""
_AWAY: Final = "turned_away_viewers"
"""It has this too where anybody was."""


class Swept(BaseModel):
    """What a sweep has beside the simulation."""

    DESCRIBED: ClassVar = "docs/guide/elastic-simulator.md"

    model_config = ConfigDict(extra="ignore", frozen=True)

    vary: dict[str, list[Any]] = Field(
        {}, description="field (`room`, `policy.nodes`) → its values"
    )
    seeds: int = Field(10, ge=2, le=100_000, strict=True, description="simulations of each point")
    confidence: Fraction = Field(0.95, description="of every interval")


@dataclass(frozen=True)
class SweepPoint:
    """One combination of what varies."""

    varied: dict[str, Any]
    simulation: spec.Simulation

    def texts(self, seeds: int) -> list[str]:
        """For the simulator: one after the other from the specification's own seed on."""
        first = self.simulation.specification.seed
        return [self.simulation.text(first + n, points=0) for n in range(seeds)]


@dataclass(frozen=True)
class SeedEstimate:
    """A figure over the seeds of a point."""

    mean: float
    low: float | None
    high: float | None
    """Of the mean, by t; None where all seeds agree: that shows how coarsely was counted, and not
    how exactly."""
    bootstrap_low: float | None
    bootstrap_high: float | None
    """By a BCa bootstrap, which assumes no distribution; None under ten seeds too."""
    seeds: int
    """That had such a figure: a mean wait needs somebody who waited."""


def command(file: Path, *, as_json: bool, cluster: str | None = None) -> None:
    """Simulate every point with every seed, and print what was found, with intervals."""
    document = read(file)
    swept, points = load(document)
    outcomes = run(points, swept.seeds, cluster)
    results = [summarise(outcome, swept.confidence) for outcome in outcomes]
    if as_json:
        print_json(
            {
                "format": 1,
                "kind": "sweep",
                "seeds": swept.seeds,
                "confidence": swept.confidence,
                "points": [
                    {
                        "varied": point.varied,
                        "figures": {name: asdict(estimate) for name, estimate in result.items()},
                        "each": outcome,
                    }
                    for point, result, outcome in zip(points, results, outcomes, strict=True)
                ],
            }
        )
        return
    stdout.print(_table(swept, points, results))


def load(document: YamlFile) -> tuple[Swept, list[SweepPoint]]:
    """The points of a sweep; every fault is a UllageError that names the line."""
    spec.fields(document)
    swept = checked(Swept, document.data, document, ())
    count = int(np.prod([len(values) for values in swept.vary.values()], dtype=object))
    if not 1 <= count <= MOST_POINTS:
        allowed = f"from 1 to {MOST_POINTS} points, and these are {count}"
        raise _bad(document, ("vary",), swept.vary, allowed, "give each field a list of values")
    own = {name: value for name, value in document.data.items() if name not in spec.SWEEPS}
    combined = itertools.product(*swept.vary.values())
    return swept, [_point(dict(zip(swept.vary, c, strict=True)), own, document) for c in combined]


def _point(varied: dict[str, Any], own: dict[str, Any], document: YamlFile) -> SweepPoint:
    data = copy.deepcopy(own)
    for name, value in varied.items():
        place, *path = data, *name.split(".")
        for part in path[:-1]:
            place = place.setdefault(part, {}) if isinstance(place, dict) else place
        if not isinstance(place, dict) or "" in path:
            allowed = f"{name or repr(name)} is no field of a specification"
            hint = "name one: `room`, `policy.nodes`"
            raise _bad(document, ("vary", name), value, allowed, hint)
        place[path[-1]] = value
    return SweepPoint(varied, spec.check(_placed(document, varied), data))


def _placed(document: YamlFile, varied: Mapping[str, Any]) -> YamlFile:
    """The document, in which what varies stands where its values do."""
    lines = dict(document.lines)
    for name in varied:
        path = tuple(name.split("."))
        lines = {at: line for at, line in lines.items() if at[: len(path)] != path}
        lines[path] = document.line(("vary", name))
    return replace(document, lines=lines)


def _bad(
    document: YamlFile, path: tuple[str, ...], value: object, allowed: str, suggestion: str
) -> UllageError:
    return UllageError(
        PLAN_BAD_FIELD,
        file=document.name,
        line=document.line(path),
        field=".".join(path),
        found=shown(value),
        allowed=allowed,
        suggestion=suggestion,
    )


ReportProgress = Callable[[int, int], None]


def run(
    points: Sequence[SweepPoint], seeds: int, cluster: str | None
) -> list[list[dict[str, float]]]:
    """The figures of each seed of each point: in threads here, or on the cluster at an address.

    SIMULATION_NO_CLUSTER. Ctrl-C ends what runs here within a moment.
    """
    texts = [text for point in points for text in point.texts(seeds)]
    with Bar() as bar:
        tell = bar.stage(f"simulating {len(points)} points × {seeds} seeds")
        every = (
            in_threads(texts, tell)
            if cluster is None
            else on_cluster(cluster, figures_of, texts, tell)
        )
    return [every[i : i + seeds] for i in range(0, len(every), seeds)]


def in_threads(texts: Sequence[str], tell: ReportProgress) -> list[dict[str, float]]:
    """In the threads of this process: the simulator lets others run."""
    stop, done = threading.Event(), itertools.count(1)

    def going_on(*_: float) -> None:
        if stop.is_set():
            raise InterruptedError

    def simulate(text: str) -> dict[str, float]:
        going_on()
        return figures_of(text, going_on)

    def ended(*_: object) -> None:
        tell(next(done), len(texts))

    tasks = [delayed(simulate, pure=False)(text) for text in texts]
    try:
        with Callback(posttask=ended):
            return list(compute(*tasks, scheduler="threads"))
    finally:
        stop.set()


def figures_of(
    text: str, progress: Callable[[int, float, float], object] | None = None
) -> dict[str, float]:
    """The figures of one simulation, wherever this runs."""
    return figures(json.loads(_elastic.simulate(text, progress)))


def summarise(
    outcomes: Sequence[Mapping[str, float]], confidence: float
) -> dict[str, SeedEstimate]:
    """The figures over the seeds of a point; one that fewer than two seeds have is left out."""
    estimates = {}
    for figure in FIGURES:
        values = [outcome[figure.name] for outcome in outcomes if figure.name in outcome]
        if len(values) >= 2:
            estimates[figure.name] = _estimate(values, confidence, figure)
    return estimates


def _estimate(values: Sequence[float], confidence: float, figure: SimulatedFigure) -> SeedEstimate:
    m = moments(values)
    if not m.deviation:
        return SeedEstimate(m.mean, None, None, None, None, seeds=len(values))
    half = t_quantile(0.5 + confidence / 2, m.df) * m.error
    low, high = m.mean - half, m.mean + half
    low = low if figure.signed else max(low, 0.0)
    high = min(high, 1.0) if figure.share else high
    drawn: tuple[float | None, float | None] = (None, None)
    if len(values) >= LEAST_BOOTSTRAPPED:
        drawn = _bootstrapped(values, confidence)
    return SeedEstimate(m.mean, low, high, *drawn, seeds=len(values))


def _bootstrapped(values: Sequence[float], confidence: float) -> tuple[float, float]:
    # Sorted and from one seed: the same values have the same interval.
    interval = bootstrap(
        (np.sort(values),),
        np.mean,
        n_resamples=_RESAMPLES,
        confidence_level=confidence,
        method="BCa",
        rng=np.random.default_rng(1),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def _table(
    swept: Swept, points: Sequence[SweepPoint], results: Sequence[dict[str, SeedEstimate]]
) -> Table:
    title = f"{swept.seeds} seeds a point; intervals of {100 * swept.confidence:.12g} %"
    table = LineTable(*map(escape, swept.vary), title=title)
    names: tuple[str, ...] = _SHOWN
    if any(result[_AWAY].mean for result in results):  # who is turned away is not blocked
        names = (names[0], _AWAY, *names[1:])
    for name in names:
        table.add_column(name)
    units = {figure.name: figure.unit for figure in FIGURES}
    for point, result in zip(points, results, strict=True):
        cells = [escape(shown(value)) for value in point.varied.values()]
        cells += [_cell(result.get(name), units[name]) for name in names]
        table.add_row(*cells)
    return table


def _cell(estimate: SeedEstimate | None, unit: str) -> str:
    if estimate is None:
        return "none"
    mean = in_words(estimate.mean, unit)
    if estimate.low is None or estimate.high is None:
        return f"{mean} (all {estimate.seeds} equal)"
    return f"{mean} ({in_words(estimate.low, '1')} to {in_words(estimate.high, '1')})"
