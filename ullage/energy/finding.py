"""Which energy meters can be read here, and what the others need."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from inspect import getdoc
from typing import Any, Literal

from pydantic import ValidationError

from ullage.channels import Channel
from ullage.energy.base import EnergyMeter, PlannedMeter
from ullage.energy.recorder import trial_open
from ullage.errors import ENERGY_METER_DENIED, UllageError

State = Literal["readable", "ask", "absent", "denied"]


@dataclass(frozen=True)
class Found:
    """One meter, as it is here."""

    name: str
    summary: str
    state: State
    """`ask`: it must be told where to look."""
    detail: str
    hint: str
    options: dict[str, str]
    """Option → what it means."""
    channels: tuple[Channel, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {**asdict(self), "channels": [each.model_dump() for each in self.channels]}


def look(kinds: Iterable[type[EnergyMeter]]) -> list[Found]:
    """Try each with its defaults, all at the same time; nothing is changed."""
    with ThreadPoolExecutor(max_workers=16) as several:
        return list(several.map(_look, kinds))


def _look(kind: type[EnergyMeter]) -> Found:
    summary = (getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
    fields = {n: f.description or "" for n, f in kind.Options.model_fields.items()}

    def found(state: State, detail: str, hint: str = "") -> Found:
        return Found(kind.name, summary, state, detail, hint, fields)

    try:
        options = kind.Options()
    except ValidationError as error:
        return found("ask", _needs(error))
    try:
        channels = trial_open(PlannedMeter(kind.name, kind, options))
    except UllageError as error:
        denied = error.kind is ENERGY_METER_DENIED
        return found("denied" if denied else "absent", error.message, error.hint)
    return replace(found("readable", _in_words(channels)), channels=channels)


def _needs(error: ValidationError) -> str:
    lacking = [str(f["loc"][0]) for f in error.errors() if f["type"] == "missing"]
    if lacking:
        return "needs " + ", ".join(f"`-o {name}=…`" for name in lacking)
    return error.errors()[0]["msg"].removeprefix("Value error, ")


def _in_words(channels: tuple[Channel, ...]) -> str:
    return ", ".join(f"{c.name} ({c.kind}, {c.method}, {c.scope})" for c in channels)
