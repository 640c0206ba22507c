"""What a run took."""

from __future__ import annotations

from typing import Final

from ullage.elastic.definitions.base import HERE, Definition

COST: Final[tuple[Definition, ...]] = (
    Definition(
        name="node_seconds",
        title="node-seconds allocated",
        unit="node·s",
        better=None,
        scale="ratio",
        group="cost",
        description="∫ of the nodes from request to removal: what is paid for. Who turns viewers "
        "away needs fewer; see the node time per served viewer.",
        source=HERE,
    ),
    Definition(
        name="node_time",
        title="node time per served viewer",
        unit="node·s",
        better="lower",
        scale="ratio",
        group="cost",
        description="Node-seconds allocated, over the viewers who were served.",
        source=HERE,
        primary=True,
    ),
    Definition(
        name="ready_seconds",
        title="node-seconds ready",
        unit="node·s",
        better=None,
        scale="ratio",
        group="cost",
        description="∫ s dt, to the end of the repetition.",
        source=HERE,
    ),
    Definition(
        name="demanded_seconds",
        title="node-seconds demanded",
        unit="node·s",
        better=None,
        scale="ratio",
        group="cost",
        description="∫ d dt: what a supply that follows the demand perfectly would take.",
        source=HERE,
    ),
    Definition(
        name="nodes_most",
        title="most nodes at once",
        unit="nodes",
        better=None,
        scale="ratio",
        group="cost",
        description="The largest number of nodes that were allocated at once.",
        source=HERE,
    ),
    Definition(
        name="energy",
        title="energy of the host",
        unit="J",
        better="lower",
        scale="ratio",
        group="cost",
        description="By the first of the plan's meters that was there, over exactly the "
        "repetition, with all that the host did beside.",
        source=HERE,
    ),
    Definition(
        name="energy_per_viewer",
        title="energy for a viewer",
        unit="J",
        better="lower",
        scale="ratio",
        group="cost",
        description="The same over the viewers who were served.",
        source=HERE,
    ),
)
