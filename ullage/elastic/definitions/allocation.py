"""How fast nodes came and went."""

from __future__ import annotations

from typing import Final

from ullage.elastic.definitions.base import HERE, STUDY, Definition

ALLOCATION: Final[tuple[Definition, ...]] = (
    Definition(
        name="tar",
        title="allocation of a node",
        symbol="TaR",
        unit="s",
        better="lower",
        scale="ratio",
        group="allocation",
        description="From the controller's hearing that a node is wanted until the front knows "
        "that it streams: TeF + TcI + TiI, what stands between them, attempts that failed, and a "
        "delay that the plan injects.",
        source=STUDY,
        primary=True,
    ),
    Definition(
        name="tlr",
        title="release of a node",
        symbol="TlR",
        unit="s",
        better="lower",
        scale="ratio",
        group="allocation",
        description="From the beginning of the removal of a node that the front gave up until "
        "nothing of it is left. Removals at the end of a repetition are not counted.",
        source=STUDY,
    ),
    Definition(
        name="allocations",
        title="nodes allocated",
        unit="count",
        better=None,
        scale="ratio",
        group="allocation",
        description="Nodes that the front asked for.",
        source=HERE,
    ),
    Definition(
        name="not_had",
        title="nodes not had",
        unit="1",
        better="lower",
        scale="difference",
        group="allocation",
        description="Share of the nodes asked for that never became ready.",
        source=HERE,
        percent=True,
        bounded=True,
    ),
)
