"""`ullage clock scaling`: three topologies to 10^6 nodes, simulated from exchanges measured here,
beside as many real nodes as fit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final

from ullage.experiments.clock import lab, nodes
from ullage.experiments.clock import view as words
from ullage.experiments.clock.cost import absent
from ullage.experiments.clock.lab import Bar
from ullage.experiments.clock.outcomes import (
    Absent,
    Binomial,
    Flat,
    ScalingOptions,
    ScalingOutcome,
    ScalingPoint,
    Synchronisation,
    Synchronisations,
    Topology,
    TwoLevel,
)
from ullage.experiments.clock.reports import (
    ClientOrder,
    NetworkScaling,
    RealNodes,
    ScalingReport,
    name,
)
from ullage.experiments.clock.view import Chart, ClockSection, View, table
from ullage.host import claims, paths
from ullage.host.network.bridge import Network

if TYPE_CHECKING:
    from ullage.report.charts.lanes import Drawing

TOPOLOGIES: Final[tuple[Topology, ...]] = (Flat(), TwoLevel(), Binomial())
_MILLION: Final = [2 * 10**k for k in range(6)] + [5 * 10**k for k in range(6)]
_STAMPED: Final = 2_000
"""Messages between two clients, as many as were published."""
_TABLE: Final = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class _MeasuredNetwork:
    """What real nodes did on one kind of network."""

    name: str
    measured: list[Synchronisation]
    runs: list[tuple[Topology, int, list[nodes.Round]]]
    order: ClientOrder | str | None
    """Or why there is none; None: it was not asked for."""


def measure(progress: Bar, *, quick: bool, processes: int | None) -> ScalingReport:
    """The loopback; as root network namespaces on a bridge as well. CLOCK_NOT_MEASURED."""
    count = max(2, processes or nodes.fitting())
    if quick and processes is None:
        count = min(count, 4)
    lacking = []
    networks = [
        _measure_nodes("processes on the loopback", [nodes.LOOPBACK] * count, progress, quick=quick)
    ]
    if os.geteuid() != 0 or shutil.which("ip") is None:
        why = "that needs root and iproute2"
        lacking.append(Absent(what="network namespaces", why=why))
    else:
        networks.append(asyncio.run(_namespaces(count, progress, quick=quick)))
    stages = [_simulated(network, progress, quick=quick) for network in networks]
    return ScalingReport(stages=stages, absent=lacking)


async def _namespaces(count: int, progress: Bar, *, quick: bool) -> _MeasuredNetwork:
    async with _network() as network:
        places = []
        for number in range(count):
            endpoint = await network.namespace(f"n{number}")
            places.append(nodes.Location(endpoint.address, endpoint.netns_path))
        name = "network namespaces on a bridge"
        return await asyncio.to_thread(_measure_nodes, name, places, progress, quick=quick)


@contextlib.asynccontextmanager
async def _network() -> AsyncIterator[Network]:
    tag = paths.new_tag()
    claims.claim(tag, "clock scaling")
    network = None
    try:
        network = await Network.create(tag)
        yield network
    finally:
        if network is not None:
            await network.destroy()
        for directory in (paths.state_dir(tag), paths.data_dir(tag)):
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


def _measure_nodes(
    name: str, where: Sequence[nodes.Location], progress: Bar, *, quick: bool
) -> _MeasuredNetwork:
    counts = [n for n in (2, 4, 8, 16, 32, 64) if n < len(where)] + [len(where)]
    with nodes.started(where, progress.stage(f"{name}: {len(where)} nodes start", 3)) as ready:
        measured = ready.exchange(50 if quick else 300, progress.stage(f"{name}: a pair of nodes"))
        advance = progress.stage(f"{name}: {len(TOPOLOGIES)} topologies", 0 if quick else 5)
        rounds = _rounds(ready, counts, 3 if quick else 15, advance)
        order = ready.order(200 if quick else _STAMPED) if len(ready) >= 3 else None
        return _MeasuredNetwork(name, measured, rounds, order)


def _simulated(network: _MeasuredNetwork, progress: Bar, *, quick: bool) -> NetworkScaling:
    counts = {count for _, count, _ in network.runs}
    simulated = lab.scaling(
        ScalingOptions(
            times=Synchronisations(measured=network.measured),
            nodes=sorted({*counts, *_sizes(quick=quick)}),
            topologies=list(TOPOLOGIES),
            repetitions=7 if quick else 15,
        ),
        progress.stage(f"{network.name}: simulation", 0 if quick else 10),
    )
    real = [_compared(topology, size, runs, simulated) for topology, size, runs in network.runs]
    return NetworkScaling(
        name=network.name,
        measured=network.measured,
        simulated=simulated,
        real=real,
        order=network.order if isinstance(network.order, ClientOrder) else None,
        no_order=network.order if isinstance(network.order, str) else None,
    )


def _sizes(*, quick: bool) -> Iterator[int]:
    most = 10_000 if quick else 1_000_000
    return (size for size in {*_MILLION, *_TABLE} if size <= most)


def _rounds(
    ready: nodes.NodePool, counts: Sequence[int], times: int, advance: lab.Advance
) -> list[tuple[Topology, int, list[nodes.Round]]]:
    """Topologies in turn, so that a bad second does not hit one of them."""
    rounds: dict[tuple[int, int], list[nodes.Round]] = {}
    for done in range(times):
        for count in counts:
            for place, topology in enumerate(TOPOLOGIES):
                run = ready.synchronise(topology, count)
                rounds.setdefault((count, place), []).append(run)
        advance(done + 1, times)
    return [(TOPOLOGIES[place], count, runs) for (count, place), runs in rounds.items()]


def _compared(
    topology: Topology, size: int, runs: Sequence[nodes.Round], simulated: ScalingOutcome
) -> RealNodes:
    point = next(p for p in simulated.points if p.nodes == size and p.topology == topology)
    return RealNodes(
        topology=topology,
        nodes=size,
        elapsed_ns=[run.elapsed_ns for run in runs],
        messages=[run.messages for run in runs],
        hard_ns=[run.hard_ns for run in runs],
        failed=sum(run.failed for run in runs),
        simulated_ns=point.total_ns.median,
    )


def view(report: ScalingReport) -> View:
    """For each network: simulated to a million nodes, and the real ones beside the simulation."""
    answer = [_answer(stage) for stage in report.stages]
    sections = [section for stage in report.stages for section in _sections(stage)]
    return View("How synchronisation scales", tuple(answer), (*sections, *absent(report.absent)))


def _answer(stage: NetworkScaling) -> str:
    most = max(point.nodes for point in stage.simulated.points)
    times = [
        f"{words.span(point.total_ns.median)} ({name(point.topology)})"
        for point in stage.simulated.points
        if point.nodes == most
    ]
    return (
        f"With exchanges as measured between {stage.name}, {most:,} nodes would be synchronised in"
        f" {', '.join(times)}: simulated, without what a network does when all of them talk."
    )


def _sections(stage: NetworkScaling) -> list[ClockSection]:
    took = median(exchange.ns for exchange in stage.measured)
    trip = median(exchange.round_trip_ns for exchange in stage.measured)
    lines = (
        f"Of {len(stage.measured)} synchronisations between a pair of nodes, the median took"
        f" {words.span(took)}, with a shortest round trip of {words.span(trip)}.",
        "In the simulation each is drawn from these; who is synchronised serves its own, one after"
        " the other.",
        *_order(stage.order, stage.no_order),
    )
    chart = Chart(
        partial(_draw, stage),
        "Until the last node is synchronised, by number of nodes: simulated lines, and really"
        " measured.",
        "Time until all nodes are synchronised, by topology; the tables have the same figures.",
    )
    simulated = [p for p in stage.simulated.points if p.nodes in _TABLE]
    heads = ("nodes", "topology", "time", "depth", "messages", "busiest node", "bound of the worst")
    to_a_million = table("Simulated", heads, map(_simulated_row, simulated), texts=("topology",))
    heads = ("nodes", "topology", "really", "simulated", "messages", "hard bound", "failed")
    real = table(
        "Real nodes: medians; they share this host's cores, and the time includes handing over",
        heads,
        map(_real_row, stage.real),
        texts=("topology",),
    )
    title, tables = stage.name.capitalize(), (to_a_million, real)
    return [ClockSection(title, lines=lines, tables=tables, charts=(chart,))]


def _order(order: ClientOrder | None, reason: str | None) -> list[str]:
    if order is None:
        without = f"Two clients of one server did not stamp messages to each other: {reason}."
        return [] if reason is None else [without]
    promised = "nothing" if order.bound_ns is None else words.span(order.bound_ns)
    shortest = " and ".join(words.span(ns) for ns in order.shortest_ns)
    return [
        f"Two clients of one server then stamped {order.messages:,} messages to each other:"
        f" {order.backward:,} were received before they were sent, by {words.span(order.worst_ns)}"
        f" at most ({promised} is promised); the quickest took {shortest}, one way and the other."
    ]


def _simulated_row(point: ScalingPoint) -> tuple[str, ...]:
    return (
        f"{point.nodes:,}",
        name(point.topology),
        words.spans(point.total_ns),
        str(point.depth),
        f"{round(point.messages.median):,}",
        f"{round(point.busiest_messages.median):,}",
        words.span(point.bound_ns.median),
    )


def _real_row(real: RealNodes) -> tuple[str, ...]:
    return (
        f"{real.nodes:,}",
        name(real.topology),
        words.span(median(real.elapsed_ns)),
        words.span(real.simulated_ns),
        f"{round(median(real.messages)):,}",
        words.span(median(real.hard_ns)),
        f"{real.failed:,}",
    )


def _draw(stage: NetworkScaling) -> Drawing:
    from ullage.report.charts import curve
    from ullage.runs.records import Coordinate

    lines = []
    for topology in TOPOLOGIES:
        points = [
            curve.LinePoint(
                at=point.nodes,
                middle=point.total_ns.median / 1e9,
                low=point.total_ns.low / 1e9,
                high=point.total_ns.high / 1e9,
            )
            for point in stage.simulated.points
            if point.topology == topology
        ]
        lines.append(curve.CurveLine(f"{name(topology)}, simulated", tuple(points)))
        points = [
            curve.LinePoint(
                at=real.nodes,
                middle=median(real.elapsed_ns) / 1e9,
                low=min(real.elapsed_ns) / 1e9,
                high=max(real.elapsed_ns) / 1e9,
                trials=len(real.elapsed_ns),
            )
            for real in stage.real
            if real.topology == topology
        ]
        lines.append(curve.CurveLine(f"{name(topology)}, real", tuple(points)))
    return curve.draw(lines, Coordinate(name="nodes", unit=""), "until all are synchronised", "s")
