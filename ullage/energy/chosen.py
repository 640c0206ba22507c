"""A meter as the command line names it: `nut -o ups=office@localhost`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ullage import energy, yamlfile
from ullage.energy.base import EnergyMeter, PlannedMeter
from ullage.errors import (
    ENERGY_METER_BAD_OPTION,
    ENERGY_METER_UNKNOWN,
    PLAN_UNKNOWN_FIELD,
    UllageError,
)
from ullage.nearest import nearest
from ullage.planfile import checked
from ullage.yamlfile import YamlFile


def chosen(label: str, meter: str, options: Sequence[str]) -> PlannedMeter:
    """The meter with its options; ENERGY_METER_UNKNOWN, ENERGY_METER_BAD_OPTION."""
    kinds = {kind.name: kind for kind in energy.ENERGY_METERS}
    if meter not in kinds:
        raise UllageError(
            ENERGY_METER_UNKNOWN,
            found=repr(meter),
            allowed=", ".join(kinds),
            suggestion=nearest(meter, kinds, listed=True),
        )
    kind, data = kinds[meter], {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key:
            raise _bad(meter, "an option", option, "it is `key=value`", "write `-o key=value`")
        if key in data:
            raise _bad(meter, key, option, "each option is given once", "leave one of them out")
        data[key] = _value(value)
    return PlannedMeter(label, kind, _options(kind, data))


def _options(kind: type[EnergyMeter], data: dict[str, Any]) -> Any:
    try:
        return checked(kind.Options, data, YamlFile("the options", data, {}), ())
    except UllageError as error:
        facts = error.facts
        if error.kind is PLAN_UNKNOWN_FIELD:
            found, allowed = "an unknown option", f"known are {facts['allowed']}"
        else:
            found, allowed = str(facts["found"]), str(facts["allowed"])
        field, suggestion = str(facts["field"]), str(facts["suggestion"])
        if field == "the plan":  # no single option: they do not fit together
            field, found = "its options", ", ".join(data) or "none"
            suggestion = "docs/guide/energy-meters.md says which options every meter takes"
        raise _bad(kind.name, field, found, allowed, suggestion) from error


def _bad(meter: str, field: str, found: str, allowed: str, suggestion: str) -> UllageError:
    return UllageError(
        ENERGY_METER_BAD_OPTION,
        meter=meter,
        field=field,
        found=found,
        allowed=allowed,
        suggestion=suggestion,
    )


def _value(text: str) -> Any:
    """As in a plan; but what is no YAML is the words as they stand."""
    try:
        found = yamlfile.parse(text, "the options").data
    except UllageError:
        return text
    return text if found is None else found
