"""What pydantic finds wrong with what others wrote, fit for a message."""

from __future__ import annotations

from pydantic import ValidationError

from ullage.common.sums import BrokenSumError
from ullage.common.text import printable


def first_message(error: ValidationError) -> str:
    """What is wrong, by the first fault, without its field: as a validator of ours words it."""
    message: str = error.errors(include_url=False, include_input=False)[0]["msg"]
    return message.removeprefix("Value error, ")


def first_fault(error: ValidationError | BrokenSumError) -> str:
    """`FIELD: what is wrong with it`, of the first; without the input, which may be long and a
    guest's."""
    if isinstance(error, BrokenSumError):
        return str(error)
    fault = error.errors(include_url=False, include_input=False)[0]
    if fault["type"] == "union_tag_invalid":  # its own message repeats the input
        kind = fault["ctx"]["discriminator"].strip("'")
        return f"unknown {kind}"
    field = printable(".".join(map(str, fault["loc"])), 80)
    message = first_message(error)
    return f"{field}: {message}" if field else message
