"""`$ULLAGE_CLOCK_DISTORT`: a clock that is false on purpose, for experiments on one machine.

The clock itself takes what it cannot understand for no distortion: nobody gets one who did not mean
it. Nobody is to believe in one, either, that there is not.
"""

from __future__ import annotations

import os
import re
from typing import Final

from ullage.errors import CLOCK_BAD_DISTORTION, UllageError

VARIABLE: Final = "ULLAGE_CLOCK_DISTORT"
MOST_PPB: Final = 1_000_000
_MOST: Final = 2**63
"""Numbers are 64-bit integers."""


def check() -> None:
    """The same syntax as `rust/clock/src/distortion.rs`. CLOCK_BAD_DISTORTION."""
    text = os.environ.get(VARIABLE, "")
    if text and not _understood(text):
        raise UllageError(CLOCK_BAD_DISTORTION, variable=VARIABLE, found=repr(text))


def _understood(text: str) -> bool:
    numbers = [part.strip() for part in text.split(",")]
    if len(numbers) > 2 or not all(re.fullmatch("[+-]?[0-9]{1,30}", one) for one in numbers):
        return False
    ppb, *ahead = map(int, numbers)
    return abs(ppb) <= MOST_PPB and all(-_MOST <= ns < _MOST for ns in ahead)
