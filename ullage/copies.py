"""How many instances an environment has: a number, or as many as fit on the host's CPUs."""

from __future__ import annotations

import os
import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MOST: Final = 256
MOST_FACTOR: Final = 1000
_FIT: Final = re.compile(r"fit\s+(\d{1,6}(?:\.\d{1,6})?)\s*(%?)")


class Fit(BaseModel):
    """`fit 0.8`: so many that their CPUs are this part of the host's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    factor: Decimal = Field(gt=0, le=MOST_FACTOR)

    def __str__(self) -> str:
        """As it is written in a plan."""
        return f"fit {self.factor.normalize():f}"

    def copies(self, cpus: float, of: int) -> int:
        """V = ⌊factor · CPUs of the host / CPUs of an instance⌋ (SPEC S2.4), in exact decimals."""
        return int(self.factor * of // Decimal(str(cpus)))


def _copies(value: object) -> object:
    """`fit 0.8`, `fit 80%` → Fit; a number is taken as it is.

    All is checked here, so that a complaint names the field and not a member of the union.
    """
    if isinstance(value, Fit):
        return value
    match = _FIT.fullmatch(value.strip()) if isinstance(value, str) else None
    factor = Decimal(match[1]) / (100 if match[2] else 1) if match else Decimal(0)
    if 0 < factor <= MOST_FACTOR:
        return Fit(factor=factor)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST:
        return value
    raise ValueError(
        f"a whole number from 1 to {MOST}, or `fit 0.8`: as many as fit on 0.8 of the host's CPUs"
    )


_Written = Annotated[str, Field(pattern=r"^\s*fit\s+[0-9.]+\s*%?\s*$", examples=["fit 0.8"])]
Copies = Annotated[
    int | Fit,
    BeforeValidator(
        _copies, json_schema_input_type=Annotated[int, Field(ge=1, le=MOST)] | _Written
    ),
]
"""A number of instances, or `fit FACTOR`."""


def host_cpus() -> int:
    """CPUs that instances can be placed on."""
    return len(os.sched_getaffinity(0))
