"""What a machine tells of itself, fit to be stored and shown whoever says it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ullage.common.text import printable

LONGEST: Final = 400


def _shown(text: str) -> str:
    return printable(text, LONGEST)


ShownText = Annotated[str, Field(max_length=4 * LONGEST), AfterValidator(_shown)]
"""What another machine says, fit to be stored and shown."""


Health = Literal["ok", "missing", "limited"]


class Finding(BaseModel):
    """One line of the doctor's answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: ShownText
    state: Health
    detail: ShownText
    hint: ShownText = ""


class Offer(BaseModel):
    """What a provider is on a node, once it was checked there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: ShownText
    emulated: bool
    treatments: Annotated[dict[ShownText, ShownText], Field(max_length=64)]
    writable_root: ShownText
