"""The factors of a plan: what `vary:` names, multiplied out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from pydantic import BaseModel

from ullage.common.fields import Fields, allowed_fields, checked, impossible
from ullage.common.text import nearest
from ullage.common.yamlfile import FieldPath, YamlFile
from ullage.environments.placement import Resources
from ullage.plan.schema import MOST, Copies, EnvironmentPlan, Plan, host_cpus

# What every environment has that may be a factor of the matrix, whatever its provider.

FIELDS: Final = ("instances", "neighbour", "resources")
"""Fields that `vary:` may name beside the provider's own."""


def written(entry: EnvironmentPlan, plan: Plan) -> dict[str, Any]:
    """Those fields as they were written, for factors to reach into."""
    beside, resources = entry.neighbour, entry.resources or plan.resources
    found: dict[str, Any] = {"instances": entry.instances, "resources": resources.model_dump()}
    if beside is not None:
        found["neighbour"] = beside.model_dump(exclude_unset=True)
    return found


class _Instances(Fields):
    instances: Copies


def instances(
    asked: Any, resources: Resources, name: str, document: YamlFile, path: FieldPath
) -> int:
    """The number asked for, or what `fit` comes to on this host.

    PLAN_BAD_FIELD for what is neither, PLAN_IMPOSSIBLE_MATRIX when none fits, or too many do.
    """
    found = checked(_Instances, {"instances": asked}, document, path).instances
    if isinstance(found, int):
        return found
    cpus = host_cpus()
    fits = found.copies(resources.cpus, cpus)
    if not 1 <= fits <= MOST:
        raise impossible(
            document,
            (*path, "instances"),
            f"{name}: `{found}` of {cpus} CPUs is room for {fits} instances with "
            f"{resources.cpus:g} CPUs each; from 1 to {MOST} can be made",
            "give another factor, or other `cpus`",
        )
    return fits


MAX_CELLS = 10_000


def combinations(
    vary: Mapping[str, list[Any]],
    document: YamlFile,
    path: FieldPath,
    model: type[BaseModel],
    also: Sequence[str] = (),
) -> Iterable[dict[str, Any]]:
    """Every way to take one value of each factor; PLAN_IMPOSSIBLE_MATRIX for what is no factor.

    also: fields that may vary beside those of the model.
    """
    allowed = [*allowed_fields(model, ()), *also]
    count = 1
    for factor, values in vary.items():
        if factor.partition(".")[0] not in allowed:
            raise impossible(
                document,
                (*path, factor),
                f"cannot vary {factor!r}: allowed are {', '.join(allowed) or 'none'}",
                nearest(factor, allowed),
            )
        if not values:
            raise impossible(
                document, (*path, factor), f"{factor}: no values to vary over", "give at least one"
            )
        count *= len(values)
        line = document.line((*path, factor))
        document.lines.setdefault((*path[:-1], *factor.split(".")), line)
    if count > MAX_CELLS:
        raise impossible(
            document,
            path,
            f"the factors multiply to {count} cells",
            f"at most {MAX_CELLS} are allowed",
        )
    names = list(vary)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*vary.values())]


def merged(fields: Mapping[str, Any], factors: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, with each factor's value put at its place (`disk.format` goes inside `disk`)."""
    result: dict[str, Any] = deepcopy(dict(fields))
    for factor, value in factors.items():
        *parents, last = factor.split(".")
        inner = result
        for parent in parents:
            step = inner.setdefault(parent, {})
            if not isinstance(step, dict):
                step = inner[parent] = {}
            inner = step
        inner[last] = value
    return result


def keyed(name: str, factors: Mapping[str, Any]) -> str:
    """What tells a combination from the others: `vm[nic=e1000]`."""
    if not factors:
        return name
    return f"{name}[{','.join(f'{factor}={_plain(value)}' for factor, value in factors.items())}]"


def _plain(value: Any) -> str:
    """A factor's value as it stands in a key."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "+".join(f"{k}:{_plain(v)}" for k, v in value.items())
    if isinstance(value, list):
        return "+".join(_plain(v) for v in value)
    return "".join(c if c.isalnum() or c in "._-%" else "_" for c in str(value))[:40]
