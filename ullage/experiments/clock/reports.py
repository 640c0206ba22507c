"""What `ullage clock …` leaves: its reports as models. Nothing here measures."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TypeVar

from pydantic import Field

from ullage.common.clock_model import CounterFacts, FrozenModel, Promise
from ullage.experiments.clock.outcomes import (
    Absent,
    Binomial,
    ClockReader,
    CostOutcome,
    EcpOutcome,
    Flat,
    KAry,
    LoopsOutcome,
    ScalingOutcome,
    StrictOutcome,
    Synchronisation,
    Topology,
    TwoLevel,
)


class CheckReport(FrozenModel):
    """What is known of this machine's clock, and what the tests found."""

    facts: CounterFacts
    promise: Promise
    advice: dict[str, str]
    """Reason → what to do about it."""
    ecp: EcpOutcome
    loops: LoopsOutcome
    strict: StrictOutcome

    @property
    def kept(self) -> bool:
        """Whether the tests found nothing against the promise."""
        alone, across = self.strict.alone, self.strict.across
        backward = 0 if alone is None else alone.backward + alone.equal
        ordered = self.promise.ordered_ns
        far = [
            comparison.worst_ns
            for comparison in across
            if comparison.clock == "rvec-ordered" and comparison.backward
        ]
        broken = ordered is not None and any(worst > ordered for worst in far)
        return backward == 0 and not broken and not _imprecise(self.ecp)


def _imprecise(ecp: EcpOutcome) -> int:
    ours = (c for placed in ecp.placements for c in placed.clocks if c.clock.startswith("rvec"))
    return sum(c.zero + c.backward + c.equal_steps + c.backward_steps for c in ours)


class PublishedRead(FrozenModel):
    clock: ClockReader
    name: str
    mean_ns: float
    sd_ns: float


class PublishedCost(FrozenModel):
    """What others measured, to be compared with as ratios."""

    source: str
    reads: list[PublishedRead]

    def ratio(self, clock: ClockReader, over: ClockReader) -> float | None:
        """One mean over another; None if one of them was not published."""
        means = {read.clock: read.mean_ns for read in self.reads}
        return means[clock] / means[over] if clock in means and over in means else None


M = TypeVar("M", bound=FrozenModel)


@cache
def published(name: str, model: type[M]) -> M:
    """The figures of 2015, `data/clock2015_NAME.json`."""
    file = files("ullage.experiments.clock") / "data" / f"clock2015_{name}.json"
    return model.model_validate_json(file.read_bytes())


class CostReport(FrozenModel):
    """What was measured here, and what was published."""

    measured: CostOutcome
    published: PublishedCost


class RealNodes(FrozenModel):
    """Real nodes in one topology, synchronised a few times."""

    topology: Topology
    nodes: int
    elapsed_ns: list[int]
    """From the beginning of the first synchronisation to the end of the last, each time."""
    messages: list[int]
    hard_ns: list[int]
    """The hard bound of the worst node."""
    failed: int
    """Nodes that were not synchronised, of all times together."""
    simulated_ns: float
    """What the simulation says of so many nodes."""


class ClientOrder(FrozenModel):
    """Two clients of one server that stamp messages to each other."""

    messages: int
    backward: int
    """Received before they were sent, by the two stamps."""
    equal: int
    worst_ns: int
    """By how much one was at most."""
    shortest_ns: tuple[int, int]
    """The smallest difference on each of the two ways: half of what lies between them is how far
    the clocks are apart, if the ways are alike."""
    bound_ns: int | None
    """The hard bounds of both together; None: nothing is promised."""


class NetworkScaling(FrozenModel):
    """One kind of network."""

    name: str
    measured: list[Synchronisation]
    """One after the other, on a quiet pair of nodes."""
    simulated: ScalingOutcome
    real: list[RealNodes]
    order: ClientOrder | None = Field(None, exclude_if=lambda given: given is None)
    """None: there were less than three nodes, or `no_order` says why."""
    no_order: str | None = Field(None, exclude_if=lambda given: given is None)
    """Why two clients' stamps were not had, though all else was."""


class ScalingReport(FrozenModel):
    """What was measured and what was simulated from it."""

    stages: list[NetworkScaling]
    absent: list[Absent]


def name(topology: Topology) -> str:
    match topology:
        case Flat():
            return "flat"
        case TwoLevel():
            return "two levels"
        case Binomial():
            return "binomial tree"
        case KAry(children=children):
            return f"tree, {children} children"
