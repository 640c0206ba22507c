"""What pydantic finds wrong with what others wrote, fit for a message."""

from __future__ import annotations

from pydantic import ValidationError

from ullage.common.sums import BrokenSumError
from ullage.common.text import printable


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
    return f"{field}: {fault['msg']}" if field else fault["msg"]
