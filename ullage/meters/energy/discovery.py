"""Which energy meters can be read here, and what the others need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from inspect import getdoc
from typing import Any, Literal

from pydantic import ValidationError

from ullage.common import yamlfile
from ullage.common.errors import (
    ENERGY_METER_BAD_OPTION,
    ENERGY_METER_DENIED,
    ENERGY_METER_UNKNOWN,
    PLAN_UNKNOWN_FIELD,
    UllageError,
)
from ullage.common.faults import first_message
from ullage.common.fields import checked
from ullage.common.text import nearest
from ullage.common.yamlfile import YamlFile
from ullage.meters import energy
from ullage.meters.energy.base import EnergyMeter, PlannedMeter
from ullage.meters.energy.recorder import trial_open
from ullage.runs.records import Channel


def planned_meter(label: str, meter: str, options: Sequence[str]) -> PlannedMeter:
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
            given_value, allowed = "an unknown option", f"known are {facts['allowed']}"
        else:
            given_value, allowed = str(facts["found"]), str(facts["allowed"])
        field, suggestion = str(facts["field"]), str(facts["suggestion"])
        if field == "the plan":  # no single option: they do not fit together
            field, given_value = "its options", ", ".join(data) or "none"
            suggestion = "docs/guide/energy-meters.md says which options every meter takes"
        raise _bad(kind.name, field, given_value, allowed, suggestion) from error


def _bad(meter: str, field: str, given_value: str, allowed: str, suggestion: str) -> UllageError:
    return UllageError(
        ENERGY_METER_BAD_OPTION,
        meter=meter,
        field=field,
        found=given_value,
        allowed=allowed,
        suggestion=suggestion,
    )


def _value(text: str) -> Any:
    """As in a plan; but what is no YAML is the words as they stand."""
    try:
        parsed = yamlfile.parse(text, "the options").data
    except UllageError:
        return text
    return text if parsed is None else parsed


Access = Literal["readable", "ask", "absent", "denied"]


@dataclass(frozen=True)
class LocalMeter:
    """One meter, as it is here."""

    name: str
    summary: str
    state: Access
    """`ask`: it must be told where to look."""
    detail: str
    hint: str
    options: dict[str, str]
    """Option → what it means."""
    channels: tuple[Channel, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {**asdict(self), "channels": [channel.model_dump() for channel in self.channels]}


def find_meters(kinds: Iterable[type[EnergyMeter]]) -> list[LocalMeter]:
    """Try each with its defaults, all at the same time; nothing is changed."""
    with ThreadPoolExecutor(max_workers=16) as several:
        return list(several.map(_look, kinds))


def _look(kind: type[EnergyMeter]) -> LocalMeter:
    summary = (getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
    fields = {n: f.description or "" for n, f in kind.Options.model_fields.items()}

    def local(state: Access, detail: str, hint: str = "") -> LocalMeter:
        return LocalMeter(kind.name, summary, state, detail, hint, fields)

    try:
        options = kind.Options()
    except ValidationError as error:
        return local("ask", _needs(error))
    try:
        channels = trial_open(PlannedMeter(kind.name, kind, options))
    except UllageError as error:
        denied = error.kind is ENERGY_METER_DENIED
        return local("denied" if denied else "absent", error.message, error.hint)
    return replace(local("readable", _in_words(channels)), channels=channels)


def _needs(error: ValidationError) -> str:
    lacking = [str(f["loc"][0]) for f in error.errors() if f["type"] == "missing"]
    if lacking:
        return "needs " + ", ".join(f"`-o {name}=…`" for name in lacking)
    return first_message(error)


def _in_words(channels: tuple[Channel, ...]) -> str:
    return ", ".join(f"{c.name} ({c.kind}, {c.method}, {c.scope})" for c in channels)
