"""What every environment has that may be a factor of the matrix, whatever its provider."""

from __future__ import annotations

from typing import Any, Final

from ullage.copies import MOST, Copies, host_cpus
from ullage.placement import Resources
from ullage.plan import EnvironmentPlan, Plan
from ullage.planfile import Fields, checked, impossible
from ullage.yamlfile import FieldPath, YamlFile

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
