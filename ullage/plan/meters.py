"""The meters of a plan, checked against those that there are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ullage.common.errors import PLAN_BAD_FIELD, PLAN_UNKNOWN_METER, UllageError
from ullage.common.fields import allowed_fields, checked, shown, unknown
from ullage.common.yamlfile import FieldPath, YamlFile
from ullage.meters import energy
from ullage.meters.energy.base import PlannedMeter
from ullage.plan.schema import MeterPlan, Plan

IDLE_S: Final = 10.0
"""How long the host rests before the first block, where a plan with meters does not say."""
LABEL: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
"""Labels become file names."""
COMMON: Final = tuple(allowed_fields(MeterPlan, ()))


def resolve(plan: Plan, document: YamlFile) -> tuple[PlannedMeter, ...]:
    """The meters that a plan names; UllageError at the first that cannot be."""
    if plan.idle and not plan.meters:
        raise UllageError(
            PLAN_BAD_FIELD,
            file=document.name,
            line=document.line(("idle",)),
            field="idle",
            found=f"{plan.idle:g} s",
            allowed="the host rests for its meters of energy, and the plan names none",
            suggestion="name one in `meters:`, or leave `idle` out",
        )
    return named(plan.meters, document)


def named(meters: Mapping[str, MeterPlan], document: YamlFile) -> tuple[PlannedMeter, ...]:
    """Those of a plan's field `meters`; UllageError at the first that cannot be."""
    return tuple(_meter(label, entry, document) for label, entry in meters.items())


def idle_s(plan: Plan) -> float:
    """How long the host rests before the first block; 0: not at all."""
    if not plan.meters:
        return 0.0
    return IDLE_S if plan.idle is None else plan.idle


def _meter(label: str, entry: MeterPlan, document: YamlFile) -> PlannedMeter:
    path: FieldPath = ("meters", label)
    if not LABEL.fullmatch(label):
        raise UllageError(
            PLAN_BAD_FIELD,
            file=document.name,
            line=document.line(path),
            field="meters",
            found=shown(label),
            allowed="a label is 1 to 40 lower-case letters, digits, dots, dashes, underscores, a "
            "letter or digit first",
            suggestion="labels become file names; choose a plain one, such as `wall`",
        )
    kinds = {kind.name: kind for kind in energy.ENERGY_METERS}
    if entry.meter not in kinds:
        raise unknown(PLAN_UNKNOWN_METER, document, (*path, "meter"), entry.meter, kinds)
    kind = kinds[entry.meter]
    options = checked(kind.Options, entry.options, document, path, also=COMMON)
    return PlannedMeter(label, kind, options, entry.optional)
