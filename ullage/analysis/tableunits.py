"""Units of other people's figures: prefixes off, so that tables may put their own."""

from __future__ import annotations

import re
from typing import Final

_UNIT = re.compile(
    r"(?P<prefix>n|u|µ|μ|m|k|K|M|G|T|Ki|Mi|Gi|Ti)?(?P<base>s|B|bit|Hz|J|W)(?P<rate>/s)?"
)
_FACTORS: Final = {
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "μ": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}


def si(unit: str) -> tuple[str, float]:
    """The unit without its prefix, and the factor that makes its figures so: `ms` → (`s`, 0.001).

    A unit that we do not know stays as it is.
    """
    found = _UNIT.fullmatch(unit)
    if found is None or found["prefix"] is None:
        return unit, 1.0
    return found["base"] + (found["rate"] or ""), _FACTORS[found["prefix"]]
