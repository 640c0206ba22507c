"""Which instances of a plan stand on which machine."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.common.fields import impossible
from ullage.common.yamlfile import FieldPath, YamlFile
from ullage.environments import Provider
from ullage.nodes.options import placed
from ullage.nodes.provider import on_nodes
from ullage.plan.schema import Plan, Settings


def nodes_of(
    settings: Settings, instances: int, plan: Plan, document: YamlFile, path: FieldPath
) -> tuple[str, ...]:
    """The node of each instance; none where the plan names no nodes. PLAN_IMPOSSIBLE_MATRIX."""
    if not plan.nodes:
        if settings.place is None:
            return ()
        raise impossible(
            document, (*path, "place"), "the plan has no `nodes` to place it on", "add `nodes:`"
        )
    try:
        return placed(settings.place, instances, list(plan.nodes))
    except ValueError as error:
        raise impossible(
            document, (*path, "place"), str(error), "`pack`, `spread`, or so many on each of them"
        ) from None


def others_of(nodes: Sequence[str], plan: Plan) -> tuple[str, ...]:
    """For each of these nodes another one, the next in the plan; none where there is no other."""
    names = list(plan.nodes)
    if len(names) < 2:
        return ()
    return tuple(names[(names.index(node) + 1) % len(names)] for node in nodes)


def provider_for(own: Provider, nodes: Sequence[str], plan: Plan) -> Provider:
    """The provider itself where all is on this machine, else the one that nodes are asked for."""
    return own if all(plan.nodes[name].local for name in nodes) else on_nodes(own)
