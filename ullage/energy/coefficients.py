"""What the meter `model` reckons with: the file that `fit:` names in a plan."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from ullage.runs import Record

FEWEST: Final = 10
"""Pairs of power and load, at least."""


class Coefficients(Record):
    """A line through power by load; uncertainties are standard ones (GUM), in W."""

    format: Literal[1] = 1
    idle_watts: float = Field(ge=0, allow_inf_nan=False)
    idle_u_watts: float = Field(ge=0, allow_inf_nan=False)
    core_watts: float = Field(ge=0, allow_inf_nan=False)
    core_u_watts: float = Field(ge=0, allow_inf_nan=False)
    accuracy: float = Field(ge=0, lt=1, allow_inf_nan=False)
    """Relative half width about the line within which 95 % of the pairs are."""
    pairs: int = Field(ge=FEWEST)
    least_load: float = Field(ge=0, allow_inf_nan=False)
    most_load: float = Field(ge=0, allow_inf_nan=False)
    """Busy CPUs; beyond it the line is a guess."""
    scope: Literal["wall", "package"]
    source: str = ""
    """What the power was read from."""
