"""How much does a machine, a node or a system lose, given what it is for?

The ratios of the resources (above 1 is worse), each times its weight; on a node also times the
share that an instance has of the node's resource.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ullage.analysis.comparison.estimates import Interval, Precision
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.analysis.comparison.pairing import stored
from ullage.analysis.weigh.weights import Basis, Shares, WeighRequest, Weights
from ullage.common.errors import WEIGH_NO_ENVIRONMENT, WEIGH_NO_FIGURE, UllageError
from ullage.common.text import nearest
from ullage.runs.pairs import Cells, pair
from ullage.runs.reader import RunFolder
from ullage.runs.records import Design, Record, Resource
from ullage.stats.interval import collapse
from ullage.stats.weighted import weighted_interval, weighted_sum


class Total(Record):
    """A weighted sum, and what it rests on."""

    overhead: float
    interval: Interval | None
    """None: one block, or one making of the instances, has no spread."""
    blocks: int
    """In which all parts have a pair of trials."""
    dropped: int
    """Blocks left out because a part has none."""
    precision: Precision
    generations: int


class WeighedPart(Record):
    """One resource of an environment in such a sum."""

    environment: str
    instance: str | None
    """Set where each instance has figures of its own."""
    copies: int
    """So many alike."""
    resource: Resource
    members: tuple[tuple[str, str], ...]
    """(workload, metric); of several, the ratio is the geometric mean."""
    total: Total
    """Its ratio alone, over the blocks that the whole sum rests on."""
    weight: float
    share: float = 1.0
    """Part of the node's resource that each copy has."""
    share_from: Basis | None = None
    floor: float | None = None
    """The largest noise floor of its members; None: one of them has none."""

    @property
    def coefficient(self) -> float:
        """What its ratio counts by."""
        return self.copies * self.weight * self.share

    @property
    def contribution(self) -> float:
        """What it adds to the sum."""
        return self.coefficient * self.total.overhead


class WeighedMachine(Record):
    """O = Σ weight · ratio of one environment (S2.2)."""

    environment: str
    label: str
    emulated: bool
    unequal: tuple[str, ...]
    parts: tuple[WeighedPart, ...]
    total: Total
    floor: float | None = None
    """What the baseline against itself may come to, weighed alike; None: not known."""


class WeighedNode(Record):
    """O = Σ ratio · weight · share over the instances of a node (S2.3), or over several nodes."""

    name: str
    kind: Literal["measured", "composed", "system"]
    """composed: of environments that were measured one at a time."""
    parts: tuple[WeighedPart, ...]
    total: Total
    """The sum: it grows with what is placed on the node."""
    mean: Total
    """The sum over Σ weight · share: it can be compared between sizes."""
    by_resource: dict[Resource, float]
    """O_node,r: the parts of the sum."""
    shares: dict[Resource, float]
    """Of each resource, what all instances together have of the node's; above 1: overloaded."""


class Weighing(Record):
    """What `ullage weigh` prints."""

    format: Literal[1] = 1
    run: str
    baseline: str
    baseline_label: str
    design: Design
    confidence: float
    weights: dict[Resource, float]
    own: dict[str, dict[Resource, float]]
    machines: tuple[WeighedMachine, ...]
    nodes: tuple[WeighedNode, ...]
    system: WeighedNode | None
    """Of all nodes that were asked for, when there are two or more."""


def weigh(folder: RunFolder, analysis: Analysis, request: WeighRequest) -> Weighing:
    """Weigh the environments of a run, and the nodes made of them.

    WEIGH_NO_ENVIRONMENT for a name that the run has no environment for; WEIGH_NO_FIGURE for a
    resource with a weight of which an environment has no sound ratio.
    """
    environments = list(dict.fromkeys(c.environment for c in analysis.comparisons))
    for name in request.named():
        if name not in environments:
            raise UllageError(
                WEIGH_NO_ENVIRONMENT,
                run=analysis.run,
                found=repr(name),
                suggestion=nearest(name, environments),
            )
    scale = _Scale(folder, analysis, request, Shares(folder.resolved, request.shares))
    chosen = [
        key for key in environments if not request.environments or key in request.environments
    ]
    composed = [scale.composed(name, copies) for name, copies in request.nodes.items()]
    measured = [node for key in chosen if (node := scale.measured(key)) is not None]
    return Weighing(
        run=analysis.run,
        baseline=analysis.baseline,
        baseline_label=analysis.baseline_label,
        design=analysis.design,
        confidence=analysis.confidence,
        weights=dict(request.weights),
        own={key: dict(weights) for key, weights in request.own.items()},
        machines=tuple(scale.machine(key) for key in chosen),
        nodes=(*measured, *composed),
        system=scale.node("system", "system", [p for node in composed for p in node.parts])
        if len(composed) > 1
        else None,
    )


_NOTHING = Total(
    overhead=0.0, interval=None, blocks=0, dropped=0, precision="repeatability", generations=0
)
RatiosByBlock = Mapping[int, float]
"""Block → log-ratio."""
_Key = tuple[str, str | None, Resource]
"""Environment, its instance or None for the mean over them, and resource."""


@dataclass(frozen=True)
class _Scale:
    folder: RunFolder
    analysis: Analysis
    request: WeighRequest
    shares: Shares

    def machine(self, key: str) -> WeighedMachine:
        weights = self.request.of(key)
        parts, total, _ = self._weighed([self._part(key, None, 1, weights, r) for r in weights])
        first = next(c for c in self.analysis.comparisons if c.environment == key)
        return WeighedMachine(
            environment=key,
            label=first.environment_label,
            emulated=first.emulated,
            unequal=first.unequal,
            parts=parts,
            total=total,
            floor=_floor(parts),
        )

    def measured(self, key: str) -> WeighedNode | None:
        """The node whose instances ran each trial together; None: there was one."""
        copies = self.shares.instances(key)
        if copies < 2:
            return None
        names: Sequence[str | None] = self._own_figures(key)
        copies_each = 1 if names else copies
        parts = [
            self._shared(self._part(key, name, copies_each, weights, resource), copies)
            for name in names or [None]
            for weights in [self.request.of(key)]
            for resource in weights
        ]
        return self.node(key, "measured", parts)

    def composed(self, name: str, by_environment: Mapping[str, int]) -> WeighedNode:
        """A node that holds copies of environments, which were measured by themselves."""
        parts = [
            self._shared(
                self._part(key, None, copies, weights, resource), sum(by_environment.values())
            )
            for key, copies in by_environment.items()
            for weights in [self.request.of(key)]
            for resource in weights
        ]
        return self.node(name, "composed", parts)

    def node(
        self,
        name: str,
        kind: Literal["measured", "composed", "system"],
        parts: Sequence[WeighedPart],
    ) -> WeighedNode:
        """The sums over parts that have shares."""
        weighed, total, mean = self._weighed(parts)
        by_resource: dict[Resource, float] = {}
        shares: dict[Resource, float] = {}
        for part in weighed:
            by_resource[part.resource] = by_resource.get(part.resource, 0.0) + part.contribution
            before = shares.get(part.resource, 0.0)
            shares[part.resource] = before + part.copies * part.share
        return WeighedNode(
            name=name,
            kind=kind,
            parts=weighed,
            total=total,
            mean=mean,
            by_resource=by_resource,
            shares={} if kind == "system" else shares,
        )

    def _part(
        self, key: str, instance: str | None, copies: int, weights: Weights, resource: Resource
    ) -> WeighedPart:
        """A part whose ratio is not made yet: that depends on the blocks of all others."""
        members = self._members(key, resource)
        floors = [c.floor for c in members if c.floor is not None]
        return WeighedPart(
            environment=key,
            instance=instance,
            copies=copies,
            resource=resource,
            members=tuple((c.workload, c.metric) for c in members),
            total=_NOTHING,
            weight=weights[resource],
            floor=max(floors) if len(floors) == len(members) else None,
        )

    def _shared(self, part: WeighedPart, copies: int) -> WeighedPart:
        share, basis = self.shares.of(part.environment, part.resource, copies)
        return part.model_copy(update={"share": share, "share_from": basis})

    def _weighed(
        self, parts: Sequence[WeighedPart]
    ) -> tuple[tuple[WeighedPart, ...], Total, Total]:
        """The parts with their ratios, their sum, and their mean."""
        columns = [self._column((p.environment, p.instance, p.resource)) for p in parts]
        blocks = sorted(set.intersection(*(set(column) for column in columns)))
        if not blocks:
            names = ", ".join(f"{p.resource} of {p.environment}" for p in parts)
            reason = f"no block has a pair of trials for all of {names}"
            raise _no_figure(parts[0].environment, parts[0].resource, reason)
        dropped = len(set().union(*columns)) - len(blocks)
        units = [
            collapse([column[b] for b in blocks], [self._makings[b] for b in blocks])
            for column in columns
        ]
        coefficients = [part.coefficient for part in parts]

        def total(of: Sequence[int], counts: Sequence[float]) -> Total:
            logs = [units[i] for i in of]
            interval = None
            if len(logs[0]) >= 2:
                widening = self.analysis.stop.widening * self._memory(parts)
                weighted = weighted_interval(logs, counts, self.analysis.confidence, widening)
                interval = stored(weighted)
            makings = len({self._makings[b] for b in blocks})
            return Total(
                overhead=weighted_sum(logs, counts),
                interval=interval,
                blocks=len(blocks),
                dropped=dropped,
                precision="intermediate" if makings > 1 else "repeatability",
                generations=makings,
            )

        every = range(len(parts))
        weighed = tuple(
            part.model_copy(update={"total": total([i], [1.0])}) for i, part in enumerate(parts)
        )
        scale = sum(coefficients)
        return weighed, total(every, coefficients), total(every, [c / scale for c in coefficients])

    def _memory(self, parts: Sequence[WeighedPart]) -> float:
        """The largest of the factors for what environments keep from block to block."""
        keys = {part.environment for part in parts}
        return max(c.memory for c in self.analysis.primary() if c.environment in keys)

    def _column(self, key: _Key) -> RatiosByBlock:
        """Log-ratios by block: the mean over the members, where all of them have a pair."""
        environment, instance, resource = key
        members = self._members(environment, resource)
        columns = [self._pairs(member, instance) for member in members]
        blocks = set.intersection(*(set(column) for column in columns))
        return {b: sum(column[b] for column in columns) / len(columns) for b in blocks}

    def _members(self, key: str, resource: Resource) -> Sequence[Comparison]:
        """The primary comparisons of a resource, all of them sound."""
        of_environment = [c for c in self.analysis.primary() if c.environment == key]
        members = [c for c in of_environment if c.resource == resource]
        if not members:
            others = ", ".join(dict.fromkeys(c.resource for c in of_environment)) or "none"
            reason = f"no primary metric of it was measured (those measured: {others})"
            raise _no_figure(key, resource, reason)
        for c in members:
            if c.no_verdict or not c.points:
                reason = f"{c.workload}: {c.no_verdict or 'no pair of trials gave a ratio'}"
                raise _no_figure(key, resource, reason)
        return members

    def _pairs(self, c: Comparison, instance: str | None) -> RatiosByBlock:
        if instance is None:
            return {p.block: math.log(p.ratio) for p in c.points}
        mine = {
            block: trial.model_copy(update={"metrics": trial.instances[instance]})
            for block, trial in self._cells.series(c.environment, c.workload).items()
            if instance in trial.instances
        }
        theirs = self._cells.series(c.baseline, c.workload)
        workload = next(w for w in self.folder.resolved.workloads if w.key == c.workload)
        metric = next(m for m in workload.metrics if m.name == c.metric)
        return {p.block: p.log_ratio for p in pair(mine, theirs, metric).pairs}

    def _own_figures(self, key: str) -> list[str]:
        """Instances that have figures of their own in every trial that gave some."""
        trials = [t for t in self.folder.trials if t.environment == key and t.status == "ok"]
        names = [set(trial.instances) for trial in trials]
        return sorted(set.intersection(*names)) if names else []

    @cached_property
    def _cells(self) -> Cells:
        return Cells(self.folder.trials)

    @cached_property
    def _makings(self) -> dict[int, int]:
        """Block → making of the instances."""
        return {trial.block: trial.generation for trial in self.folder.trials}


def _floor(parts: Sequence[WeighedPart]) -> float | None:
    floors = [part.floor for part in parts if part.floor is not None]
    if len(floors) < len(parts):
        return None
    return math.fsum(part.coefficient * f for part, f in zip(parts, floors, strict=True))


def _no_figure(environment: str, resource: Resource, reason: str) -> UllageError:
    return UllageError(
        WEIGH_NO_FIGURE,
        environment=environment,
        resource=resource,
        reason=reason,
        suggestion=f"give {resource} no weight, or run a workload for it; `--environment` names "
        "those to weigh",
    )
