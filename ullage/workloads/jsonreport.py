"""Reading a report that a tool prints as JSON: what is not as expected makes the trial invalid."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.workloads.base import InvalidTrialError
from ullage.workloads.outputs import quoted

LONGEST: Final = 1 << 16
"""Characters of a report, for who does not expect more."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]
"""Of a program that counts in 64 bits."""
DoubleCount = Annotated[int, Field(ge=0, lt=1 << 53)]
"""Of one that counts in doubles."""


class Part(BaseModel):
    """A part of a report; fields not named in it do not matter to us."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class ExactPart(Part):
    """One of a program of ours: a field not named in it is a fault."""

    model_config = ConfigDict(extra="forbid")


M = TypeVar("M", bound=BaseModel)


def read(model: type[M], text: str, whose: str = "", *, longest: int = LONGEST) -> M:
    """The report as that model; raises InvalidTrialError with the first fault.

    whose: where there are several, begins the message.
    """
    whose = whose and f"{whose}: "
    if len(text) > longest:
        raise InvalidTrialError(f"{whose}printed {len(text)} characters, which is not its report")
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the whole"
        raise InvalidTrialError(
            f"{whose}its JSON is not a report: {quoted(where)}: {fault['msg']}; "
            f"begins {quoted(text, 60)}"
        ) from None
